"""Tests for fl_clustering.points.federated_points and secure_sums."""

import unittest

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import tensorflow as tf
import tensorflow.experimental.numpy as tnp

from dp_clustering import cluster_statistics
from dp_clustering import point_grid
from dp_clustering import private_sums
from dp_clustering import sum_query
from fl_clustering.kmeans import sum_kinds
from fl_clustering.points import federated_points
from fl_clustering.points import point_files
from fl_clustering.points import scaling
from fl_clustering import runtime

_RADIUS = 3.0
_CAPACITY = 8


def setUpModule():
  local = runtime.LocalRuntime()
  unittest.addModuleCleanup(local.close)


def _points(num_points=5000, dim=3):
  """Returns points in the ball, half of them on the borders between centers."""
  points = np.random.default_rng(0).uniform(-1, 1, (num_points, dim))
  points[::2] = np.rint(2 * points[::2]) / 2
  return points


def _queries(dim=3):
  rng = np.random.default_rng(1)
  centers = point_grid.on_point_grid(np.rint(4 * rng.uniform(-1, 1, (5, dim))) / 4, _RADIUS)
  directions = np.rint(rng.uniform(-1, 1, (5, dim)) * 2**20)
  halves = {"centers": centers, "directions": directions, "thresholds": np.zeros((5, 1))}
  clipped = {
      "centers": centers, "clip_radii": np.full((5, 1), 0.1 * point_grid.POINT_STEPS)
  }
  return {
      "clipped": sum_query.SumQuery(cluster_statistics.ClippedResiduals(False), clipped),
      "excesses": sum_query.SumQuery(cluster_statistics.ClippedResiduals(True), clipped),
      "halves": sum_query.SumQuery(sum_kinds.ChildSums(True), halves),
      "scores": sum_query.SumQuery(sum_kinds.Scores(), {"centers": centers}),
  }


class FederatedPointsTest(parameterized.TestCase):

  def _federation(self, parts):
    """Returns `FederatedPoints` of one client for each part."""
    clients = {str(index): part for index, part in enumerate(parts)}
    files = point_files.write_files(clients, self.create_tempdir().full_path)
    steps = np.full(files.num_columns, point_grid.POINT_STEPS / _RADIUS)
    files = files.scaled(scaling.Scaling(np.zeros(files.num_columns), steps))
    return federated_points.FederatedPoints(files, _CAPACITY)

  @parameterized.parameters(*_queries())
  def test_the_same_bits_as_pooled_points_however_they_are_split(self, name):
    query, points = _queries()[name], _points()
    expected = private_sums.PooledPoints(points, _RADIUS).totals(query)
    shuffled = points[np.random.default_rng(2).permutation(len(points))]
    for edges in ([], [1], [0, 7, 7, 4000]):
      found = self._federation(np.split(shuffled, edges)).totals(query)
      self.assertEqual(found.dtype, np.int64)
      np.testing.assert_array_equal(found, expected)

  def test_squares_are_rounded_alike(self):
    # Half a unit in the last place of the square decides how this excess is truncated.
    arrays = {"centers": [[0.0]], "clip_radii": [[45151793.11723978]]}
    kind = cluster_statistics.ClippedResiduals(True)
    points = np.full((64, 1), 26193683.0)
    _, expected = kind.contributions(np, points, {k: np.array(v) for k, v in arrays.items()})
    arrays = {name: tf.constant(rows, tf.float64) for name, rows in arrays.items()}
    _, found = kind.contributions(tnp, tf.constant(points), arrays)
    np.testing.assert_array_equal(found.numpy(), expected)

  def test_one_column(self):
    query, points = _queries(1)["scores"], _points(100, 1)
    expected = private_sums.PooledPoints(points, _RADIUS).totals(query)
    found = self._federation(np.split(points, 2)).totals(query)
    np.testing.assert_array_equal(found, expected)

  def test_shares_are_added_once_for_each_client(self):
    query = _queries()["excesses"]
    federation = self._federation(np.split(_points(), 4))
    exact, shares = federation.totals(query), []

    def draw_share():
      shares.append(np.random.default_rng(len(shares)).integers(-2**40, 2**40, query.shape))
      return shares[-1]

    noisy = federation.totals(query, draw_share)
    self.assertLen(shares, 4)
    np.testing.assert_array_equal(noisy - exact, sum(shares))

  def test_totals_may_be_large_and_below_zero(self):
    query = _queries()["clipped"]
    federation = self._federation(np.split(_points(), 2))
    for share in (2**59, -(2**59)):
      found = federation.totals(query, lambda: np.full(query.shape, share))
      np.testing.assert_array_equal(found - federation.totals(query), 2 * share)


if __name__ == "__main__":
  absltest.main()
