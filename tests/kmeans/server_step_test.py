from absl.testing import absltest
import numpy as np

from fl_clustering.kmeans import server_step
from tests.kmeans import numpy_reference


def _rng():
  return np.random.default_rng(0)


def _means(num_means=60, seed=0):
  rng = np.random.default_rng(seed)
  means = numpy_reference.CENTERS[rng.integers(9, size=num_means)]
  return means + rng.standard_normal(means.shape)


def _sorted(centroids):
  return centroids[np.lexsort(centroids.T)]


class CombinedMeansTest(absltest.TestCase):

  def test_weights_are_repetitions_and_the_generator_decides(self):
    means = _means()
    before, weights = means.copy(), np.random.default_rng(1).integers(1, 5, len(means))
    weighted, again = (
        server_step.combined_means(means, weights, 9, _rng()) for _ in range(2)
    )
    np.testing.assert_array_equal(weighted, again)
    np.testing.assert_array_equal(means, before)
    repeated = np.repeat(means, weights, axis=0)
    plain = server_step.combined_means(repeated, np.ones(len(repeated)), 9, _rng())
    np.testing.assert_allclose(_sorted(weighted), _sorted(plain), atol=1e-5)

  def test_starts_from_given_centroids(self):
    means = _means()
    start = means[:9]
    found = server_step.combined_means(means, np.ones(60), 9, _rng(), start)
    expected = start.astype(np.float64)
    for _ in range(100):
      expected, _ = numpy_reference.lloyd_step(means, expected)
    np.testing.assert_allclose(found, expected, atol=1e-4)

  def test_fewer_different_means_than_clusters(self):
    means = np.repeat(np.array([[0.0, 0.0], [8.0, 8.0]]), 4, axis=0)
    found = server_step.combined_means(means, np.ones(8), 5, _rng())
    self.assertEqual(found.shape, (5, 2))
    self.assertLen(np.unique(found, axis=0), 5)
    _, distances = numpy_reference.nearest(found, means)
    self.assertLess(distances.max(), 0.1)


class CombinedFromFarthestTest(absltest.TestCase):

  def test_the_farthest_mean_is_the_next_centroid(self):
    # From 0 and 1: 50 is the farthest, then 20; each takes its neighbours.
    means = np.array([[0.0], [1], [50], [20], [21], [52]])
    found = server_step.combined_from_farthest(means, means[:2], 4, _rng())
    np.testing.assert_allclose(np.sort(found[:, 0]), [0, 1, 20.5, 51], atol=1e-4)

  def test_one_client_with_all_clusters_is_the_start(self):
    means = _means()
    found = server_step.combined_from_farthest(means, means[:9], 9, _rng())
    expected = server_step.combined_means(means, np.ones(60), 9, _rng(), means[:9])
    np.testing.assert_array_equal(found, expected)
