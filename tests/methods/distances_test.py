from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
from scipy.spatial import distance

from fl_clustering.methods import client_weights
from fl_clustering.methods import distances


def _random_vectors(num_rows, num_columns):
  vectors = np.random.default_rng(0).normal(size=(num_rows, num_columns))
  # Clients' weights have most in common.
  return (10 + vectors).astype(np.float32)


# The first have their distances from differences, the others from inner products.
_FEW, _MANY = 4, 300
_OF_SCIPY = {"l1": "cityblock", "l2": "euclidean", "cosine": "cosine"}


class MetricsTest(parameterized.TestCase):

  @parameterized.product(metric=list(_OF_SCIPY), num_vectors=(_FEW, _MANY))
  def test_agrees_with_scipy(self, metric, num_vectors):
    # More than one block of columns, and a mean that is many times what tells them apart.
    vectors = 100 + _random_vectors(num_vectors, 5_000)
    for own in (vectors, client_weights.Represented(vectors)):
      np.testing.assert_allclose(
          distances.METRICS[metric](own),
          distance.pdist(vectors.astype(np.float64), _OF_SCIPY[metric]), rtol=1e-9,
      )

  def test_zero_vectors_are_at_a_right_angle_to_all_others(self):
    for num_vectors in (_FEW, _MANY):
      vectors = _random_vectors(num_vectors, 50)
      vectors[[0, 2]] = 0
      cosines = distances.square(distances.METRICS["cosine"](vectors))
      expected = np.ones(num_vectors)
      expected[[0, 2]] = 0
      np.testing.assert_array_equal(cosines[[0, 2]], [expected, expected])

  @parameterized.parameters(*distances.METRICS)
  def test_equal_vectors_have_distance_zero_and_equal_distances(self, metric):
    products = distances.inner_products

    def rounded_otherwise(*args):
      # As where a product depends on where in the matrix it stands.
      found = products(*args)
      noise = 1e-12 * np.random.default_rng(0).normal(size=found.shape)
      return found + noise + noise.T

    self.enter_context(mock.patch.object(distances, "inner_products", rounded_otherwise))
    vectors = _random_vectors(_MANY, 50)
    vectors[[3, 299]] = vectors[7]
    vectors[:, 5] = 0
    vectors[3, 5] = -0.0
    squared = distances.square(distances.METRICS[metric](vectors))
    self.assertEqual((squared[3, 7], squared[7, 299]), (0, 0))
    np.testing.assert_array_equal(squared[3], squared[7])
    np.testing.assert_array_equal(squared[7], squared[299])
    self.assertGreater(np.sort(squared[7])[3], 0)
    same = np.tile(_random_vectors(1, 5_000), (3, 1))
    np.testing.assert_array_equal(distances.METRICS[metric](same), np.zeros(3))


class ClientDistancesTest(absltest.TestCase):

  def test_sorted_by_client(self):
    weights = client_weights.ClientWeights(
        np.array([1, 2, 0]), np.array([[0], [10], [1]], np.float32), np.zeros(1, np.float32)
    )
    clients, condensed = distances.client_distances(weights, "weights", "l2")
    np.testing.assert_array_equal(clients, [0, 1, 2])
    np.testing.assert_array_equal(condensed, [1, 9, 10])

  def test_uses_the_representation(self):
    weights = client_weights.ClientWeights(
        np.arange(2), np.array([[3], [9]], np.float32), np.ones(1, np.float32)
    )
    _, condensed = distances.client_distances(weights, "normalized_update", "l2")
    np.testing.assert_array_equal(condensed, [0])


class EuclideanPointsTest(parameterized.TestCase):

  @parameterized.product(num_points=(20, 300), num_columns=(2, 500))
  def test_keep_distances_and_equal_points(self, num_points, num_columns):
    vectors = _random_vectors(num_points, num_columns)
    vectors[[7, 9]] = vectors[0]
    condensed = distances.METRICS["l2"](vectors)
    points = distances.euclidean_points(condensed)
    np.testing.assert_allclose(distance.pdist(points), condensed, atol=1e-6 * condensed.max())
    np.testing.assert_array_equal(points[[7, 9]], points[[0, 0]])
    self.assertLen(np.unique(points, axis=0), num_points - 2)

  def test_all_equal(self):
    points = distances.euclidean_points(np.zeros(300 * 299 // 2))
    self.assertLen(np.unique(points, axis=0), 1)
    self.assertGreater(points.shape[1], 0)
