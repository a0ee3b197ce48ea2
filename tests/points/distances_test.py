"""Tests for fl_clustering.points.distances."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.points import distances


class SquaredDistancesTest(parameterized.TestCase):

  @parameterized.parameters(np.float32, np.float64)
  def test_of_every_point_to_every_centroid_of_every_set(self, dtype):
    points = np.array([[0.0, 0.0], [3.0, 4.0]], dtype)
    centroids = np.array([[[3.0, 4.0], [0.0, 1.0]], [[0.0, 0.0], [1.0, 0.0]]], dtype)
    found = distances.squared_distances(points, centroids)
    self.assertEqual(found.dtype, dtype)
    np.testing.assert_allclose(found, [[[25, 1], [0, 1]], [[0, 18], [25, 20]]], rtol=1e-6)

  @parameterized.parameters(np.float32, np.float64)
  def test_are_not_negative(self, dtype):
    # Here the expanded square loses all its digits.
    points = np.random.default_rng(0).standard_normal((50, 3)).astype(dtype) * 1e-3 + 1e3
    found = distances.squared_distances(points, points[np.newaxis])
    self.assertGreaterEqual(found.numpy().min(), 0)


if __name__ == "__main__":
  absltest.main()
