"""Tests for fl_clustering.points.released_means."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.kmeans import local_work
from fl_clustering.points import released_means

_POINTS = np.array([[0, 0], [0, 2], [4, 4], [4, 4], [0, 1.5]], np.float32)


def _released(means, counts, min_count=2):
  released, left = released_means.released_means(
      _POINTS, np.array([means], np.float32), np.array([counts], np.float32), min_count
  )
  return released.numpy()[0], left.numpy()[0]


class ReleasedMeansTest(parameterized.TestCase):

  def test_means_of_enough_points_leave(self):
    means, counts = _released([[0, 1], [2, 3]], [2, 5])
    np.testing.assert_array_equal(means, [[0, 1], [2, 3]])
    np.testing.assert_array_equal(counts, [2, 5])

  def test_small_counts_do_not(self):
    means, counts = _released([[0, 1], [2, 3], [1, 1]], [2, 3, 4], min_count=4)
    np.testing.assert_array_equal(means, [[0, 0], [0, 0], [1, 1]])
    np.testing.assert_array_equal(counts, [0, 0, 4])

  def test_the_mean_of_equal_rows_does_not(self):
    means, counts = _released([[4, 4], [0, 1]], [2, 2])
    np.testing.assert_array_equal(means, [[0, 0], [0, 1]])
    np.testing.assert_array_equal(counts, [0, 2])

  def test_the_mean_of_equal_rows_does_not_for_all_rounding(self):
    rows = np.repeat(np.array([[0.1, 0.7]], np.float32), 7, axis=0)
    for change in (0, 1e-6, -1e-6):
      means = np.array([[rows[0] + change]], np.float32)
      _, counts = released_means.released_means(rows, means, np.array([[7.0]], np.float32), 2)
      np.testing.assert_array_equal(counts, 0)

  @parameterized.parameters(100, 2048, 5000)
  def test_the_mean_of_many_equal_rows_does_not(self, num_rows):
    rng = np.random.default_rng(0)
    for num_columns in (1, 3):  # One column is added up number after number.
      for _ in range(20):
        row = rng.uniform(1, 2, num_columns).astype(np.float32)
        rows = np.tile(row, (num_rows, 1))
        means, counts = local_work.lloyd_step(rows, row[np.newaxis, np.newaxis])
        _, left = released_means.released_means(rows, means, counts, 2)
        np.testing.assert_array_equal(left, 0)

  def test_a_mean_of_others_may_lie_close_to_a_row(self):
    _, counts = _released([[0, 1.499998]], [3])
    np.testing.assert_array_equal(counts, 3)

  def test_a_mean_shares_a_column_with_a_row(self):
    _, counts = _released([[0, 4], [4, 0], [4, 2]], [3, 3, 3])
    np.testing.assert_array_equal(counts, [3, 3, 3])

  @parameterized.product(num_columns=[2, 90], far=[0.0, 3.0, 1e3])
  def test_rows_are_recognised_among_many_columns_and_far_from_zero(self, num_columns, far):
    rng = np.random.default_rng(0)
    points = (far + rng.standard_normal((50, num_columns))).astype(np.float32)
    rounded = points * (1 + 3e-7 * rng.uniform(-1, 1, points.shape))
    # As near as a row can be to one in all columns but one, where it is not.
    beside = points.copy()
    beside[:, -1] += 1e-4 * max(1.0, far)
    means = np.stack([points, rounded, beside]).astype(np.float32)
    _, counts = released_means.released_means(
        points, means, np.full(means.shape[:2], 3.0, np.float32), 2
    )
    np.testing.assert_array_equal(counts[:2], 0)
    np.testing.assert_array_equal(counts[2], 3)

  def test_each_candidate_has_its_own(self):
    means = np.array([[[0, 1]], [[0, 2]]], np.float32)
    _, counts = released_means.released_means(_POINTS, means, np.full((2, 1), 3.0, np.float32), 2)
    np.testing.assert_array_equal(counts, [[3], [0]])

  def test_no_points(self):
    means, counts = released_means.released_means(
        _POINTS[:0], np.zeros((1, 2, 2), np.float32), np.zeros((1, 2), np.float32), 2
    )
    np.testing.assert_array_equal(means, 0)
    np.testing.assert_array_equal(counts, 0)


if __name__ == "__main__":
  absltest.main()
