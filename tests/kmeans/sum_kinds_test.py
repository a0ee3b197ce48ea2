from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from dp_clustering import point_grid
from dp_clustering import private_sums
from dp_clustering import sum_query
from fl_clustering.kmeans import sum_kinds

_RADIUS = 4.0


def _points(num_points=300, dim=3, seed=0):
  return np.random.default_rng(seed).normal(0, 1, (num_points, dim))


def _on_grid(vectors):
  return point_grid.on_point_grid(vectors.copy(), _RADIUS)


def _centers(dim=3):
  return _on_grid(_points(5, dim, seed=1))


def _child_query(centers, with_losses):
  rng = np.random.default_rng(2)
  directions = rng.standard_normal(centers.shape)
  norms = np.linalg.norm(directions, axis=1, keepdims=True)
  return sum_query.SumQuery(
      sum_kinds.ChildSums(with_losses),
      {
          "centers": centers,
          "directions": np.rint(directions / norms * sum_kinds.DIRECTION_STEPS),
          "thresholds": np.rint(rng.standard_normal((len(centers), 1)) * 2.0**45),
      },
  )


def _queries(centers):
  cells = np.linspace(0.3, 1, centers.shape[1])
  return {
      "start": sum_query.SumQuery(sum_kinds.Start(), {"origin": np.zeros((1, centers.shape[1]))}),
      "children": _child_query(centers, False),
      "children_and_losses": _child_query(centers, True),
      "fine_sums": sum_query.SumQuery(sum_kinds.FineSums(), {
          "centers": centers, "cells": np.tile(cells, (len(centers), 1)),
      }),
      "scores": sum_query.SumQuery(sum_kinds.Scores(), {"centers": centers}),
  }


def _integers(vectors):
  """Returns rows of Python's integers, which never overflow."""
  return vectors.astype(np.int64).astype(object)


def _totals(query, points=None):
  points = _points() if points is None else points
  return query.split(private_sums.PooledPoints(points, _RADIUS).totals(query))


class OnePointAtATimeTest(absltest.TestCase):

  def test_start(self):
    totals = _totals(_queries(_centers())["start"])
    self.assertEqual(totals["count"], [[300]])
    points = _integers(_on_grid(_points()))
    self.assertEqual(sum_kinds.whole(totals["squares"])[0], (points**2).sum())

  def test_children_and_losses(self):
    query = _child_query(_centers(), with_losses=True)
    totals = _totals(query)
    arrays = {name: _integers(array) for name, array in query.arrays.items()}
    expected = {name: np.zeros(part.shape, object) for name, part in totals.items()}
    losses = np.zeros(5, object)
    for point in _integers(_on_grid(_points())):
      distances = ((point - arrays["centers"]) ** 2).sum(axis=1)
      nearest, other = np.argsort(distances, kind="stable")[:2]
      residual = point - arrays["centers"][nearest]
      expected["counts"][nearest] += 1
      expected["residuals"][nearest] += residual
      if residual @ arrays["directions"][nearest] > arrays["thresholds"][nearest, 0]:
        expected["upper_counts"][nearest] += 1
        expected["upper_residuals"][nearest] += residual
      losses[nearest] += distances[other] - distances[nearest]
    for name in ("counts", "upper_counts", "residuals", "upper_residuals"):
      np.testing.assert_array_equal(totals[name], expected[name].astype(np.int64), name)
    self.assertEqual(sum_kinds.whole(totals["losses"]).tolist(), losses.tolist())
    self.assertBetween(totals["upper_counts"].sum(), 50, 250)

  def test_fine_sums(self):
    # Of a wide column, and of one within a single cell of the grid.
    cells, rng = np.array([2.0**-27, 2.0**-60]), np.random.default_rng(0)
    points = np.rint(rng.uniform(-1, 1, (300, 2)) * 2.0**52)
    centers = np.array([[-(2.0**24), 0.0], [2.0**20, 0.0], [2.0**25, 3.0]])
    query = sum_query.SumQuery(
        sum_kinds.FineSums(), {"centers": centers, "cells": np.tile(cells, (3, 1))}
    )
    groups, values = query.kind.contributions(np, points, query.arrays)
    self.assertLess(np.abs(values).max(), 2**31)
    distances = np.abs(points[:, :1] * cells[0] - centers[:, 0])
    np.testing.assert_array_equal(groups, distances.argmin(axis=1))
    for group in range(3):
      totals = values[groups == group].astype(np.int64).sum(axis=0)
      parts = query.split(totals[np.newaxis])
      sums = sum_kinds.whole(np.stack([parts["high_sums"], parts["low_sums"]], axis=-1))
      self.assertEqual(parts["counts"], (groups == group).sum())
      self.assertEqual(sums.tolist(), [_integers(points[groups == group]).sum(axis=0).tolist()])

  def test_scores(self):
    centers = _centers()
    totals = _totals(_queries(centers)["scores"])
    expected, counts, residuals = np.zeros(5), np.zeros(5), np.zeros((5, 3))
    for point in _on_grid(_points()):
      distances = np.linalg.norm(point - centers, axis=1)
      nearest = distances.argmin()
      a, b = np.sort(distances)[:2]
      expected[nearest] += (b - a) / max(a, b)
      counts[nearest] += 1
      residuals[nearest] += point - centers[nearest]
    np.testing.assert_array_equal(totals["counts"][:, 0], counts)
    np.testing.assert_array_equal(totals["residuals"], residuals)
    found = totals["silhouettes"][:, 0] / point_grid.CONTRIBUTION_STEPS
    np.testing.assert_allclose(found, expected, atol=300 / point_grid.CONTRIBUTION_STEPS)


class TiesTest(parameterized.TestCase):

  @parameterized.named_parameters(
      # With one center, there is no second nearest.
      ("one_center", [[3.0]], [[0.0]]),
      # Either may go without a loss, and no point between them is nearer to one.
      ("equal_centers", [[3.0], [3.0]], [[0.0], [0.0]]),
      ("in_the_middle", [[0.0], [2.0], [9.0]], [[0.0], [0.0], [0.0]]),
      # The nearest is one step away, the next three.
      ("no_tie", [[0.0], [4.0]], [[8.0], [0.0]]),
  )
  def test_losses_and_silhouettes(self, centers, losses):
    centers = np.array(centers)
    points = np.array([[1.0]])
    arrays = {
        "centers": centers, "directions": np.ones_like(centers),
        "thresholds": np.zeros_like(centers),
    }
    groups, values = sum_kinds.ChildSums(True).contributions(np, points, arrays)
    self.assertEqual(groups, [0])
    np.testing.assert_array_equal(values[:, -2:], [[0.0, losses[0][0]]])
    _, scores = sum_kinds.Scores().contributions(np, points, {"centers": centers})
    expected = np.floor(2 / 3 * point_grid.CONTRIBUTION_STEPS) if losses[0][0] else 0
    np.testing.assert_array_equal(scores[:, -1:], [[expected]])

  def test_a_point_on_the_hyperplane_is_a_lower_one(self):
    arrays = {name: np.array([[value]]) for name, value in
              {"centers": 1.0, "directions": 3.0, "thresholds": 6.0}.items()}
    points = np.array([[3.0], [4.0]])
    _, values = sum_kinds.ChildSums(False).contributions(np, points, arrays)
    np.testing.assert_array_equal(values, [[1, 0, 2, 0], [1, 1, 3, 3]])


class ExactTest(parameterized.TestCase):

  @parameterized.product(name=list(_queries(_centers())), dim=[1, 64])
  def test_contributions_are_small_integers_even_at_the_border(self, name, dim):
    # Points and centers at opposite ends of the ball, where residuals are the longest.
    border = _points(100, dim, seed=4)
    border *= _RADIUS / np.linalg.norm(border, axis=1, keepdims=True)
    points = _on_grid(np.concatenate([border, -border]))
    query = _queries(_on_grid(-border[:1]))[name]
    groups, values = query.kind.contributions(np, points, query.arrays)
    self.assertEqual(groups.shape, (200,))
    self.assertEqual(values.shape, (200, query.shape[1]))
    np.testing.assert_array_equal(values, np.rint(values))
    self.assertLess(np.abs(values).max(), 2**31)

  def test_whole_of_large_sums(self):
    limbs = np.array([[2**60, 2**61], [0, 5]])
    self.assertEqual(list(sum_kinds.whole(limbs)), [2**86 + 2**61, 5])
