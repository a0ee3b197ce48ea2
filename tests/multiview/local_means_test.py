"""Tests for fl_clustering.multiview.local_means."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.multiview import local_means


def _means(points, num_clusters, min_count=2, seed=0):
  means, counts = local_means.local_means(
      np.asarray(points, np.float64), num_clusters, min_count, np.array([seed, 1], np.int32)
  )
  return means.numpy(), counts.numpy()


def _blobs(sizes, seed=0):
  rng = np.random.default_rng(seed)
  return np.concatenate([
      50.0 * index + rng.standard_normal((size, 3)) for index, size in enumerate(sizes)
  ])


class LocalMeansTest(parameterized.TestCase):

  def test_far_blobs_are_found(self):
    points = _blobs([20, 30, 10])
    means, counts = _means(points, 3)
    order = np.argsort(means[:, 0])
    np.testing.assert_array_equal(counts[order], [20, 30, 10])
    expected = [points[:20].mean(axis=0), points[20:50].mean(axis=0), points[50:].mean(axis=0)]
    np.testing.assert_allclose(means[order], expected, rtol=1e-4)

  @parameterized.named_parameters(("two", 2), ("three", 3), ("seven", 7))
  def test_no_mean_of_fewer_points_and_no_raw_point_leaves(self, min_count):
    rng = np.random.default_rng(0)
    for seed in range(30):
      points = rng.standard_normal((int(rng.integers(1, 40)), 2))
      means, counts = _means(points, 8, min_count, seed)
      self.assertTrue(np.all((counts == 0) | (counts >= min_count)), counts)
      self.assertTrue(np.all(means[counts == 0] == 0))
      distances = np.abs(points[:, None] - means[None, counts > 0]).max(axis=2)
      self.assertTrue(np.all(distances > 1e-6))

  def test_a_lone_point_far_away_does_not_leave(self):
    means, counts = _means(np.concatenate([_blobs([20, 30]), [[1e6, 0.0, 0.0]]]), 3)
    self.assertEqual(sorted(counts), [0, 20, 30])
    self.assertLess(np.abs(means).max(), 1e3)

  @parameterized.named_parameters(("none", 0), ("one", 1))
  def test_too_few_points_send_nothing(self, num_points):
    means, counts = _means(np.ones((num_points, 3)), 4)
    np.testing.assert_array_equal(means, np.zeros((4, 3)))
    np.testing.assert_array_equal(counts, np.zeros(4))

  def test_few_points_make_few_clusters(self):
    points = _blobs([3])
    means, counts = _means(points, 10)
    self.assertEqual(counts.max(), 3)
    np.testing.assert_allclose(means[np.argmax(counts)], points.mean(axis=0), rtol=1e-5)

  def test_the_mean_of_equal_points_is_a_point_and_does_not_leave(self):
    _, counts = _means(np.full((9, 2), 5.0), 4)
    self.assertEqual(counts.sum(), 0)

  def test_the_seed_decides(self):
    points = np.random.default_rng(0).standard_normal((100, 2))
    np.testing.assert_array_equal(_means(points, 5, seed=3)[0], _means(points, 5, seed=3)[0])
    self.assertFalse(np.array_equal(_means(points, 5, seed=3)[0], _means(points, 5, seed=4)[0]))


if __name__ == "__main__":
  absltest.main()
