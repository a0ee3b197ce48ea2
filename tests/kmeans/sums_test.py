"""Tests for fl_clustering.kmeans.sums."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import tensorflow as tf

from fl_clustering.kmeans import sums as sums_lib
from tests.kmeans import numpy_reference


def _points(num_points, num_columns=3, seed=0):
  return np.random.default_rng(seed).standard_normal((num_points, num_columns)).astype(np.float32)


class LloydSumsTest(parameterized.TestCase):

  # More than a block of rows, and not a multiple of it.
  @parameterized.parameters(1, 50, 2048, 5000)
  def test_equals_numpy_for_every_candidate(self, num_points):
    points = _points(num_points)
    candidates = _points(12, seed=1).reshape(3, 4, 3)
    found = sums_lib.lloyd_sums(points, candidates)
    for candidate, sums, counts, inertia in zip(candidates, *found.values()):
      clusters, distances = numpy_reference.nearest(points, candidate)
      for k in range(4):
        np.testing.assert_allclose(
            sums[k], points[clusters == k].sum(axis=0), rtol=1e-4, atol=1e-4
        )
      np.testing.assert_array_equal(counts, np.bincount(clusters, minlength=4))
      np.testing.assert_allclose(inertia, distances.sum(), rtol=1e-5)

  def test_no_points_sum_up_to_zero(self):
    found = sums_lib.lloyd_sums(_points(0), _points(4)[np.newaxis])
    for value in found.values():
      np.testing.assert_array_equal(value, 0)

  def test_sums_of_parts_add_up(self):
    points, candidates = _points(90), _points(4, seed=1)[np.newaxis]
    whole = sums_lib.lloyd_sums(points, candidates)
    parts = [sums_lib.lloyd_sums(part, candidates) for part in np.split(points, [10, 11])]
    for name, value in whole.items():
      np.testing.assert_allclose(value, sum(part[name].numpy() for part in parts), rtol=1e-5)

  def test_a_point_on_a_centroid_has_no_distance(self):
    points = _points(5)
    self.assertAllAtZero(sums_lib.lloyd_sums(points, points[np.newaxis])["inertia"])

  def assertAllAtZero(self, value):
    np.testing.assert_allclose(value, 0, atol=1e-5)


class MovedCentroidsTest(absltest.TestCase):

  def test_a_centroid_without_points_stays(self):
    moved = sums_lib.moved_centroids(
        tf.constant([[[1.0, 2.0], [3.0, 4.0]]]), tf.constant([[[0.0, 0.0], [8.0, 2.0]]]),
        tf.constant([[0.0, 4.0]]),
    )
    np.testing.assert_array_equal(moved, [[[1, 2], [2, 0.5]]])


class ScoresTest(absltest.TestCase):

  def test_inertia_and_simplified_silhouette(self):
    points, candidates = _points(3000), _points(12, seed=1).reshape(3, 4, 3)
    scores = sums_lib.scores(points, candidates)
    for index, candidate in enumerate(candidates):
      distances = np.sort(np.linalg.norm(points[:, None] - candidate[None], axis=2), axis=1)
      own, other = distances[:, 0], distances[:, 1]
      np.testing.assert_allclose(scores["inertia"][index], (own**2).sum(), rtol=1e-5)
      np.testing.assert_allclose(
          scores["silhouettes"][index], ((other - own) / other).sum(), rtol=1e-4
      )

  def test_one_centroid_has_no_silhouette(self):
    scores = sums_lib.scores(_points(10), _points(1)[np.newaxis])
    np.testing.assert_array_equal(scores["silhouettes"], [0])

  def test_a_point_on_two_centroids_has_none(self):
    twice = np.repeat(_points(1), 2, axis=0)
    scores = sums_lib.scores(twice, twice[np.newaxis])
    np.testing.assert_allclose(scores["silhouettes"], [0], atol=1e-6)


if __name__ == "__main__":
  absltest.main()
