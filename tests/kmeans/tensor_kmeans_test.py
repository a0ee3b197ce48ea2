"""Tests for fl_clustering.kmeans.tensor_kmeans."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
from scipy import stats

from fl_clustering.kmeans import tensor_kmeans
from tests.kmeans import numpy_reference

_SEED = np.array([3, 4], np.int32)


def _points(num_points, num_columns=3, seed=0):
  return np.random.default_rng(seed).standard_normal((num_points, num_columns)).astype(np.float32)


class LloydSumsTest(parameterized.TestCase):

  # More than a block of rows, and not a multiple of it.
  @parameterized.parameters(0, 1, 2048, 5000)
  def test_equals_numpy_for_every_candidate(self, num_points):
    points = _points(num_points)
    candidates = _points(12, seed=1).reshape(3, 4, 3)
    found = tensor_kmeans.lloyd_sums(points, candidates)
    for candidate, sums, counts, inertia in zip(candidates, *found.values()):
      clusters, distances = numpy_reference.nearest(points, candidate)
      for k in range(4):
        np.testing.assert_allclose(
            sums[k], points[clusters == k].sum(axis=0), rtol=1e-4, atol=1e-4
        )
      np.testing.assert_array_equal(counts, np.bincount(clusters, minlength=4))
      np.testing.assert_allclose(inertia, distances.sum(), rtol=1e-5, atol=1e-5)


class ScoresTest(absltest.TestCase):

  def test_inertia_and_simplified_silhouette(self):
    points, candidates = _points(3000), _points(12, seed=1).reshape(3, 4, 3)
    scores = tensor_kmeans.scores(points, candidates)
    for index, candidate in enumerate(candidates):
      distances = np.sort(np.linalg.norm(points[:, None] - candidate[None], axis=2), axis=1)
      own, other = distances[:, 0], distances[:, 1]
      np.testing.assert_allclose(scores["inertia"][index], (own**2).sum(), rtol=1e-5)
      np.testing.assert_allclose(
          scores["silhouettes"][index], ((other - own) / other).sum(), rtol=1e-4
      )

  def test_a_point_on_two_centroids_has_none_and_neither_has_one_centroid(self):
    scores = tensor_kmeans.scores(_points(10), _points(1)[np.newaxis])
    np.testing.assert_array_equal(scores["silhouettes"], [0])
    twice = np.repeat(_points(1), 2, axis=0)
    scores = tensor_kmeans.scores(twice, twice[np.newaxis])
    np.testing.assert_allclose(scores["silhouettes"], [0], atol=1e-6)


class SquaredDistancesTest(parameterized.TestCase):

  @parameterized.parameters(np.float32, np.float64)
  def test_of_every_point_to_every_centroid_of_every_set(self, dtype):
    points = np.array([[0.0, 0.0], [3.0, 4.0]], dtype)
    centroids = np.array([[[3.0, 4.0], [0.0, 1.0]], [[0.0, 0.0], [1.0, 0.0]]], dtype)
    found = tensor_kmeans.squared_distances(points, centroids)
    self.assertEqual(found.dtype, dtype)
    np.testing.assert_allclose(found, [[[25, 1], [0, 1]], [[0, 18], [25, 20]]], rtol=1e-6)

  @parameterized.parameters(np.float32, np.float64)
  def test_are_not_negative(self, dtype):
    # Here the expanded square loses all its digits.
    points = np.random.default_rng(0).standard_normal((50, 3)).astype(dtype) * 1e-3 + 1e3
    found = tensor_kmeans.squared_distances(points, points[np.newaxis])
    self.assertGreaterEqual(found.numpy().min(), 0)


def _draw(points, num_candidates, num_seeds, weights=None, num_trials=1):
  points = np.asarray(points, np.float32)
  weights = np.ones(len(points)) if weights is None else weights
  return tensor_kmeans.seed_rows(
      points, np.asarray(weights, np.float32), num_candidates, num_seeds, num_trials, _SEED
  ).numpy()


class SeedRowsTest(parameterized.TestCase):

  def test_the_first_follows_the_weights_and_the_second_the_squared_distances(self):
    # By hand: the weights 1, 2, 1 for the first; w d^2 to the first for the second.
    points, weights = [[0.0], [1.0], [3.0]], [1.0, 2.0, 1.0]
    rows = _draw(points, 8000, 2, weights)
    first = np.bincount(rows[:, 0], minlength=3)
    # One failure in a million runs of a right program; and the seed is fixed.
    self.assertGreater(stats.chisquare(first, [2000, 4000, 2000]).pvalue, 1e-6)
    for index, shares in enumerate([[0, 2, 9], [1, 0, 4], [9, 8, 0]]):
      second = np.bincount(rows[rows[:, 0] == index, 1], minlength=3)
      self.assertEqual(second[index], 0)
      others = [k for k in range(3) if k != index]
      expected = np.array(shares)[others] / sum(shares) * second.sum()
      self.assertGreater(stats.chisquare(second[others], expected).pvalue, 1e-6)

  def test_of_several_trials_the_one_that_leaves_least_is_taken(self):
    # By hand: the shares after the row at 0 are 1, 16 and 50 of 67; then a seed at 5 leaves
    # the weighted squared distances 1 + 1, one at 4 leaves 1 + 2, one at 1 leaves 9 + 32.
    # So 5 is taken unless all three draws miss it, and then 4 unless all draw 1.
    points, weights = [[0.0], [1.0], [4.0], [5.0]], [1.0, 1.0, 1.0, 2.0]
    rows = _draw(points, 8000, 2, weights, num_trials=3)
    second = np.bincount(rows[rows[:, 0] == 0, 1], minlength=4)
    self.assertEqual(second[0], 0)
    missed = (17 / 67) ** 3
    # 1 is expected once in 300,000 times.
    observed = [second[1] + second[2], second[3]]
    expected = second.sum() * np.array([missed, 1 - missed])
    # One failure in a million runs of a right program; and the seed is fixed.
    self.assertGreater(stats.chisquare(observed, expected).pvalue, 1e-6)

  def test_trials_are_judged_by_all_of_many_points(self):
    # The first seed is at 0 by its weight.  Then a seed at 10 leaves least of the first 2048
    # rows, one at -10 least of all: it is taken but for (1/4)^3, when all three draws miss it.
    points, weights = np.zeros((5048, 1)), np.ones(5048)
    points[1:1001], points[2048:], weights[0] = 10, -10, 1e6
    rows = _draw(points, 500, 2, weights, num_trials=3)
    # One failure in a million runs of a right program; and the seed is fixed.
    self.assertGreater(np.mean(rows[:, 1] >= 2048), 0.95)

  @parameterized.parameters((1, 2), (3, 3), (60, 6))
  def test_trials_as_in_scikit_learn(self, num_seeds, expected):
    self.assertEqual(tensor_kmeans.greedy_trials(num_seeds), expected)

  @parameterized.parameters(1, 4)
  def test_rows_differ_while_there_are_different_points(self, num_trials):
    points = np.random.default_rng(0).standard_normal((20, 3)) + 100
    rows = _draw(points, 50, 20, num_trials=num_trials)
    for row in rows:
      self.assertLen(set(row.tolist()), 20)

  @parameterized.parameters(1, 4)
  def test_points_of_weight_zero_are_never_drawn(self, num_trials):
    rows = _draw(np.arange(10.0)[:, None], 100, 5, [1, 0] * 5, num_trials)
    self.assertTrue(np.all(rows % 2 == 0))

  @parameterized.parameters(1, 4)
  def test_more_seeds_than_different_points(self, num_trials):
    rows = _draw(np.repeat([[1.0], [2.0]], 3, axis=0), 10, 4, num_trials=num_trials)
    self.assertEqual(rows.shape, (10, 4))
    for row in rows:
      self.assertLen(set(row[:2] // 3), 2)


if __name__ == "__main__":
  absltest.main()
