import tracemalloc
from unittest import mock

from absl.testing import parameterized
import numpy as np
from scipy.cluster import hierarchy

from clustering_basics import single_thread_kmeans
from fl_clustering.kmeans import summary_kmeans


def _draw(num_points=80, dim=2, seed=0):
  """Returns points in clusters, and integer weights."""
  rng = np.random.default_rng(seed)
  centers = 5 * rng.standard_normal((12, dim))
  points = centers[rng.integers(12, size=num_points)] + rng.standard_normal((num_points, dim))
  return points, rng.integers(1, 6, num_points)


def _fit(points, weights, k):
  return summary_kmeans.fit(points, weights, k)


def _inertia(points, weights, centers):
  return weights @ ((points[:, np.newaxis] - centers) ** 2).sum(axis=2).min(axis=1)


def _sorted(centers):
  return centers[np.lexsort(centers.T)]


def _most_distances(number):
  return mock.patch.object(summary_kmeans, "_MOST_DISTANCES", number)


class WardTest(parameterized.TestCase):

  @parameterized.parameters(0, 2**25)
  def test_equals_scipys_on_repeated_points(self, most_distances):
    self.enter_context(_most_distances(most_distances))
    points, weights = _draw(num_points=150, dim=3)
    repeated = np.repeat(points, weights, axis=0)
    tree = hierarchy.ward(repeated)
    for k in (3, 7, 20, 50, 90):
      clusters = hierarchy.fcluster(tree, k, "maxclust")
      expected = np.array([repeated[clusters == own].mean(axis=0) for own in range(1, k + 1)])
      found = summary_kmeans.ward_centers(points, weights, k)
      np.testing.assert_allclose(_sorted(found), _sorted(expected), atol=1e-9)


class FitTest(parameterized.TestCase):

  @parameterized.parameters(2, 30)
  def test_is_as_good_as_scikit_learn(self, dim):
    for seed in range(3):
      points, weights = _draw(dim=dim, seed=seed)
      found = _fit(points, weights, 10)
      peer = single_thread_kmeans.fit(points, 10, weights, n_init=10, random_state=seed)
      self.assertEqual(found.shape, (10, dim))
      self.assertLess(_inertia(points, weights, found), 1.02 * peer.inertia_, seed)

  def test_many_clusters_are_as_good_as_scikit_learns(self):
    points, weights = _draw(num_points=500, dim=8)
    found = _fit(points, weights, 200)
    peer = single_thread_kmeans.fit(points, 200, weights, n_init=3, random_state=0)
    self.assertLess(_inertia(points, weights, found), 1.01 * peer.inertia_)

  @parameterized.product(most_distances=[0, 2**25], k=[1, 7])
  def test_is_a_minimum_for_the_weights(self, most_distances, k):
    self.enter_context(_most_distances(most_distances))
    points, weights = _draw()
    before = points.copy(), weights.copy()
    found = _fit(points, weights, k)
    np.testing.assert_array_equal(points, before[0])
    np.testing.assert_array_equal(weights, before[1])
    clusters = ((points[:, np.newaxis] - found) ** 2).sum(axis=2).argmin(axis=1)
    for cluster, center in enumerate(found):
      own = clusters == cluster
      expected = np.average(points[own], axis=0, weights=weights[own])
      np.testing.assert_allclose(center, expected, atol=1e-9)

  def test_heavy_points_are_told_apart_in_many_dimensions(self):
    points = np.concatenate([np.eye(17), -np.eye(17)])
    points[[16, 33]] /= 2
    weights = np.where(points[:, 16], 1000, 1)
    # The 32 others are about 1.1 from both centers.
    self.assertLess(_inertia(points, weights, _fit(points, weights, 2)), 50)

  def test_no_more_points_than_clusters(self):
    points, weights = _draw(num_points=5)
    np.testing.assert_array_equal(_fit(points, weights, 5), points)

  @parameterized.parameters(0, 2**25)
  def test_fewer_different_points_than_clusters(self, most_distances):
    self.enter_context(_most_distances(most_distances))
    places = np.array([[0.0, 1.0], [2.0, 3.0]])
    found = _fit(np.repeat(places, 5, axis=0), np.arange(1, 11), 4)
    np.testing.assert_allclose(np.unique(found, axis=0), places)

  def test_many_points_have_no_matrix_of_distances(self):
    points, weights = _draw(num_points=3000, dim=3)
    tracemalloc.start()
    self.addCleanup(tracemalloc.stop)
    found = _fit(points, weights, 1500)
    self.assertEqual(found.shape, (1500, 3))
    _, most = tracemalloc.get_traced_memory()
    self.assertLess(most, 0.25 * 8 * 3000**2)
