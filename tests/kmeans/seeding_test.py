"""Tests for fl_clustering.kmeans.seeding."""

from absl.testing import absltest
import numpy as np
from scipy import stats

from fl_clustering.kmeans import seeding

_SEED = np.array([3, 4], np.int32)


def _draw(points, num_candidates, num_seeds, weights=None):
  points = np.asarray(points, np.float32)
  weights = np.ones(len(points)) if weights is None else weights
  return seeding.seed_rows(
      points, np.asarray(weights, np.float32), num_candidates, num_seeds, _SEED
  ).numpy()


class SeedRowsTest(absltest.TestCase):

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

  def test_rows_differ_while_there_are_different_points(self):
    points = np.random.default_rng(0).standard_normal((20, 3)) + 100
    rows = _draw(points, 50, 20)
    for row in rows:
      self.assertLen(set(row.tolist()), 20)

  def test_points_of_weight_zero_are_never_drawn(self):
    rows = _draw(np.arange(10.0)[:, None], 100, 5, [1, 0] * 5)
    self.assertTrue(np.all(rows % 2 == 0))

  def test_more_seeds_than_different_points(self):
    rows = _draw(np.repeat([[1.0], [2.0]], 3, axis=0), 10, 4)
    self.assertEqual(rows.shape, (10, 4))
    for row in rows:
      self.assertLen(set(row[:2] // 3), 2)


if __name__ == "__main__":
  absltest.main()
