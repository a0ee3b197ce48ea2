"""Tests for fl_clustering.methods.distances."""

import contextlib
import io
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


class MetricsTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("l1", "l1", "cityblock"),
      ("l2", "l2", "euclidean"),
      ("cosine", "cosine", "cosine"),
  )
  def test_agrees_with_scipy(self, metric, scipy_metric):
    # More than one block of columns.
    vectors = _random_vectors(4, 5_000)
    np.testing.assert_allclose(
        distances.METRICS[metric](vectors),
        distance.pdist(vectors.astype(np.float64), scipy_metric),
        rtol=1e-10,
    )

  @parameterized.named_parameters(*((name, name) for name in distances.METRICS))
  def test_equal_vectors_have_distance_zero(self, metric):
    vectors = np.tile(_random_vectors(1, 5_000), (3, 1))
    np.testing.assert_array_equal(distances.METRICS[metric](vectors), np.zeros(3))

  @parameterized.named_parameters(*((name, name) for name in distances.METRICS))
  def test_single_vector_has_no_pairs(self, metric):
    self.assertEqual(distances.METRICS[metric](_random_vectors(1, 3)).shape, (0,))

  def test_cosine_ignores_length(self):
    vectors = np.array([[3, 4], [30, 40], [-4, 3]], np.float32)
    np.testing.assert_allclose(distances.METRICS["cosine"](vectors), [0, 1, 1], atol=1e-15)

  def test_cosine_of_zero_vectors(self):
    vectors = np.array([[0, 0], [3, 4], [0, 0], [-3, -4]], np.float32)
    np.testing.assert_allclose(
        # Pairs 01, 02, 03, 12, 13, 23.
        distances.METRICS["cosine"](vectors), [1, 0, 1, 1, 2, 1], rtol=1e-15
    )


class ManyVectorsTest(parameterized.TestCase):
  """More vectors than have their distances from differences."""

  _MANY = 300

  @parameterized.named_parameters(
      ("l1", "l1", "cityblock"),
      ("l2", "l2", "euclidean"),
      ("cosine", "cosine", "cosine"),
  )
  def test_agrees_with_scipy(self, metric, scipy_metric):
    # More than one block of columns, and a mean that is many times what tells them apart.
    vectors = 100 + _random_vectors(self._MANY, 15_000)
    np.testing.assert_allclose(
        distances.METRICS[metric](vectors),
        distance.pdist(vectors.astype(np.float64), scipy_metric),
        rtol=1e-9,
    )

  @parameterized.named_parameters(*((name, name) for name in distances.METRICS))
  def test_equal_vectors_have_distance_zero_and_equal_distances(self, metric):
    products = distances.inner_products

    def rounded_otherwise(*args):
      # As where a product depends on where in the matrix it stands.
      found = products(*args)
      noise = 1e-12 * np.random.default_rng(0).normal(size=found.shape)
      return found + noise + noise.T

    self.enter_context(mock.patch.object(distances, "inner_products", rounded_otherwise))
    vectors = _random_vectors(self._MANY, 50)
    vectors[[3, 299]] = vectors[7]
    vectors[:, 5] = 0
    vectors[3, 5] = -0.0
    squared = distances.square(distances.METRICS[metric](vectors))
    self.assertEqual((squared[3, 7], squared[7, 299]), (0, 0))
    np.testing.assert_array_equal(squared[3], squared[7])
    np.testing.assert_array_equal(squared[7], squared[299])
    self.assertGreater(np.sort(squared[7])[3], 0)

  def test_cosine_of_zero_vectors(self):
    vectors = _random_vectors(self._MANY, 50)
    vectors[[1, 4]] = 0
    cosines = distances.square(distances.METRICS["cosine"](vectors))
    expected = np.ones(self._MANY)
    expected[[1, 4]] = 0
    np.testing.assert_array_equal(cosines[[1, 4]], [expected, expected])

  def test_long_work_is_told_beforehand(self):
    vectors = _random_vectors(4, 10)
    shown = io.StringIO()
    with mock.patch.object(distances, "MANY_MULTIPLICATIONS", 1), contextlib.redirect_stderr(shown):
      distances.METRICS["l1"](vectors)
    self.assertRegex(
        shown.getvalue(),
        r"^\s*distances of 4 clients x 10 parameters \(0.0 TFLOP, 0 MB\): +0%",
    )

  def test_short_work_is_not_told(self):
    shown = io.StringIO()
    with contextlib.redirect_stderr(shown):
      distances.METRICS["l2"](_random_vectors(self._MANY, 10))
    self.assertEqual(shown.getvalue(), "")


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

  @parameterized.parameters(20, 300)
  def test_keeps_distances(self, num_points):
    condensed = distances.METRICS["l2"](_random_vectors(num_points, 5_000))
    points = distances.euclidean_points(condensed)
    np.testing.assert_allclose(distance.pdist(points), condensed, rtol=1e-7)

  def test_points_of_few_dimensions(self):
    condensed = distances.METRICS["l2"](_random_vectors(300, 2))
    points = distances.euclidean_points(condensed)
    np.testing.assert_allclose(
        distance.pdist(points), condensed, atol=1e-6 * condensed.max()
    )

  def test_equal_points_stay_equal(self):
    vectors = _random_vectors(300, 30)
    vectors[[100, 299]] = vectors[0]
    points = distances.euclidean_points(distances.METRICS["l2"](vectors))
    np.testing.assert_array_equal(points[[100, 299]], points[[0, 0]])
    self.assertLen(np.unique(points, axis=0), 298)

  def test_all_equal(self):
    points = distances.euclidean_points(np.zeros(300 * 299 // 2))
    self.assertLen(np.unique(points, axis=0), 1)
    self.assertGreater(points.shape[1], 0)


class EuclideanEmbeddingTest(absltest.TestCase):

  def test_keeps_distances(self):
    condensed = distances.METRICS["l2"](_random_vectors(20, 5_000))
    points = distances.euclidean_embedding(condensed)
    self.assertEqual(points.shape, (20, 19))
    np.testing.assert_allclose(distance.pdist(points), condensed, rtol=1e-7)

  def test_equal_points_stay_equal(self):
    vectors = _random_vectors(5, 30)[[0, 1, 0, 2, 3, 4, 1]]
    points = distances.euclidean_embedding(distances.METRICS["l2"](vectors))
    np.testing.assert_array_equal(points[[0, 1]], points[[2, 6]])
    self.assertLen(np.unique(points, axis=0), 5)

  def test_single_point(self):
    np.testing.assert_array_equal(distances.euclidean_embedding(np.zeros(0)), [[0]])


if __name__ == "__main__":
  absltest.main()
