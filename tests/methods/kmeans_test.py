from unittest import mock

from absl.testing import parameterized
import numpy as np
from sklearn import cluster

from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import kmeans
from tests import letters
from tests.methods import point_engine


def _inertia(vectors, labels):
  return sum(
      ((vectors[labels == k] - vectors[labels == k].mean(axis=0)) ** 2).sum()
      for k in np.unique(labels)
  )


class KMeansTest(parameterized.TestCase):

  def test_best_partition_of_small_example(self):
    weights = point_engine.weights([[0, 0], [10, 0], [1, 0], [11, 0]])
    assignment = kmeans.KMeans(2)(weights, np.random.default_rng(0))
    self.assertEqual(letters.names(assignment.clusters), ("ac", "bd"))
    self.assertIsNone(assignment.warning)

  def test_as_good_as_on_the_weights_themselves(self):
    vectors = np.random.default_rng(1).normal(size=(60, 500)).astype(np.float32)
    vectors[:, 0] *= 20
    weights = point_engine.weights(vectors)
    assignment = kmeans.KMeans(4)(weights, np.random.default_rng(0))
    on_weights = cluster.KMeans(4, n_init=10, tol=0, random_state=0).fit(vectors)
    labels = cluster_assignment.labels_of(assignment.clusters)
    self.assertAlmostEqual(_inertia(vectors, labels) / on_weights.inertia_, 1, delta=0.005)

  def test_fewer_distinct_clients_than_clusters(self):
    weights = point_engine.weights([[1, 2], [3, 4], [1, 2], [3, 4], [1, 2]])
    assignment = kmeans.KMeans(4)(weights, np.random.default_rng(0))
    self.assertEqual(letters.names(assignment.clusters), ("ace", "bd"))
    self.assertRegex(assignment.warning, "`num_clusters`=4")

  def test_of_many_sketches_some_are_fitted_and_the_others_join_the_nearest(self):
    groups = np.random.default_rng(2).permutation(np.arange(300) % 3)
    vectors = np.eye(3)[groups] + np.random.default_rng(3).normal(scale=0.05, size=(300, 3))
    with mock.patch.object(kmeans, "_MOST_FITTED", 40):
      assignment = kmeans.KMeans(3, "sketch")(
          point_engine.weights(vectors), np.random.default_rng(0)
      )
    self.assertEqual(assignment.adjusted_rand_index(groups), 1)

  def test_starts_as_the_generator_says(self):
    weights = point_engine.weights([[0, 0], [10, 0], [1, 0], [11, 0]])
    fit = kmeans.single_thread_kmeans.fit
    with mock.patch.object(kmeans.single_thread_kmeans, "fit", wraps=fit) as fitted:
      for seed in (0, 1, 1):
        kmeans.KMeans(2)(weights, np.random.default_rng(seed))
    first, second, again = (call.kwargs["random_state"] for call in fitted.call_args_list)
    self.assertNotEqual(first, second)
    self.assertEqual(second, again)

  def test_representation(self):
    # The weights show two groups by length, the directions of updates two others.
    weights = point_engine.weights([[2, 1], [101, 1], [1, 2], [1, 101]])
    by_weights = kmeans.KMeans(3)
    by_direction = kmeans.KMeans(2, "normalized_update")
    for group, expected in ((by_weights, ("ac", "b", "d")), (by_direction, ("ab", "cd"))):
      assignment = group(weights, np.random.default_rng(0))
      self.assertEqual(letters.names(assignment.clusters), expected)
