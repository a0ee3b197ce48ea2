from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd

from fl_clustering.methods import cluster_assignment
from tests import letters

# The article's example of overlapping clusters.
_ARTICLE = cluster_assignment.ClusterAssignment((
    (5, 9), (1, 9), (1, 10), (2, 9), (0,), (3,), (4,), (6,), (7,), (8,),
))  # pyformat: disable


class ClusterAssignmentTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("no_cluster", (), "least one cluster, got"),
      ("empty_cluster", ((0,), ()), "empty cluster, got"),
      ("client_twice", ((0, 1, 0),), r"a client once per cluster, got \[0, 1, 0\]"),
      ("subset", ((0, 1, 2), (2, 1)), r"part of the cluster \[0, 1, 2\], got \[2, 1\]"),
      ("subset_before", ((1,), (0, 1)), r"part of the cluster \[0, 1\]"),
      ("same_twice", ((0, 1), (2,), (1, 0)), "part of the cluster"),
  )
  def test_refuses(self, clusters, message):
    with self.assertRaisesRegex(ValueError, "^`clusters` must .*" + message):
      cluster_assignment.ClusterAssignment(clusters)

  @parameterized.parameters(
      ((0, 1), "0"),  # A comma forgotten in ((0, 1),).
      ((("client_1", "client_2"),), "client_1"), (((0.0, 1.0),), "0.0"),
  )
  def test_refuses_what_is_no_cluster(self, clusters, found):
    with self.assertRaisesRegex(TypeError, f"`clusters`.*got .*{found}"):
      cluster_assignment.ClusterAssignment(clusters)

  def test_given_order_is_kept(self):
    assignment = cluster_assignment.ClusterAssignment(([2], [1, 0]))
    self.assertEqual(letters.names(assignment.clusters), ("c", "ba"))
    for members in assignment.clusters:
      self.assertEqual(members.dtype, np.int64)

  def test_every_client_of_many_alone(self):
    # A check of all pairs of clusters would make 400 million comparisons.
    assignment = cluster_assignment.ClusterAssignment(np.arange(20_000)[:, None])
    self.assertLen(assignment.clusters, 20_000)

  def test_overlapping(self):
    self.assertTrue(_ARTICLE.overlapping)
    self.assertFalse(cluster_assignment.ClusterAssignment(((0, 1), (2,))).overlapping)

  def test_clusters_of_any_clusters(self):
    found = cluster_assignment.clusters_of(letters.clusters("ab", "", "b"))
    self.assertEqual(found, {0: (0,), 1: (0, 2)})
    found = cluster_assignment.clusters_of(_ARTICLE.clusters)
    self.assertEqual((found[9], found[10]), ((0, 1, 3), (2,)))

  def test_clusters_from_labels_and_back(self):
    labels = np.array([2, 0, 2, 3, 0])
    clusters = cluster_assignment.of_labels(labels, 4)
    self.assertEqual(letters.names(clusters), ("be", "", "ac", "d"))
    np.testing.assert_array_equal(cluster_assignment.labels_of(clusters), labels)


class CanonicalOrderTest(parameterized.TestCase):

  def test_from_clusters(self):
    assignment = cluster_assignment.ClusterAssignment.from_clusters(
        [(2, 3), (3, 0), (1, 0)], "a warning"
    )
    self.assertEqual(letters.names(assignment.clusters), ("ab", "ad", "cd"))
    self.assertEqual(assignment.warning, "a warning")

  def test_from_labels(self):
    assignment = cluster_assignment.ClusterAssignment.from_labels(
        letters.clients("dbca"), np.array([1, 7, 7, 0])
    )
    self.assertEqual(letters.names(assignment.clusters), ("a", "bc", "d"))
    self.assertIsNone(assignment.warning)

  @parameterized.parameters(
      ((np.int64(0), np.int32(2), np.float32(2.0)),), ((np.True_, np.False_, False),),
      (("north", "-1", "-1"),), (pd.Series(["north", "-1", "-1"]),),
  )
  def test_labels_of_many_kinds(self, labels):
    assignment = cluster_assignment.ClusterAssignment.from_labels(np.arange(3), labels)
    self.assertEqual(letters.names(assignment.clusters), ("a", "bc"))

  @parameterized.parameters(-1, np.int64(-1), -1.0, 0.5, np.nan, np.float32(np.nan), np.inf, None)
  def test_refuses_labels_of_no_cluster(self, label):
    with self.assertRaisesRegex(ValueError, "`labels` must be whole numbers"):
      cluster_assignment.ClusterAssignment.from_labels(np.arange(3), [0, label, 0])

  @parameterized.parameters(((0, 0),), (((0, 1), (0, 2), (0, 3)),))
  def test_refuses_another_number_of_labels(self, labels):
    with self.assertRaisesRegex(ValueError, r"`labels` must have shape \(num_clients=3,\)"):
      cluster_assignment.ClusterAssignment.from_labels(np.arange(3), labels)


class CheckCoversTest(parameterized.TestCase):

  def test_accepts(self):
    cluster_assignment.check_covers(_ARTICLE.clusters, np.arange(11))

  def test_client_without_cluster(self):
    with self.assertRaisesRegex(ValueError, "`clusters` must hold every.* 11"):
      cluster_assignment.check_covers(_ARTICLE.clusters, np.arange(12))

  def test_unknown_client(self):
    with self.assertRaisesRegex(ValueError, "`clusters`.*only known clients, got 10"):
      cluster_assignment.check_covers(_ARTICLE.clusters, np.arange(10))


class MeanVectorsTest(absltest.TestCase):

  def test_article_example(self):
    """Client 9 gets mean(mean(5, 9), mean(1, 9), mean(2, 9))."""
    weights = np.random.default_rng(0).normal(size=(11, 4)).astype(np.float32)
    pairs = [(5, 9), (1, 9), (1, 10), (2, 9)]
    cluster_vectors = np.stack([weights[list(pair)].mean(axis=0) for pair in pairs])
    (mean,) = cluster_assignment.mean_vectors(cluster_vectors, [(0, 1, 3)])
    expected = (
        (weights[5] + weights[9]) / 2
        + (weights[1] + weights[9]) / 2
        + (weights[2] + weights[9]) / 2
    ) / 3
    np.testing.assert_allclose(mean, expected, rtol=1e-6)

  def test_keeps_the_type_and_the_order(self):
    means = cluster_assignment.mean_vectors(np.array([[2.0], [4.0]], np.float32), [(1,), (0, 1)])
    self.assertEqual(means.dtype, np.float32)
    np.testing.assert_array_equal(means, [[4.0], [3.0]])

  def test_the_mean_of_one_cluster_is_its_vector_exactly(self):
    vectors = np.random.default_rng(0).normal(size=(2, 100)).astype(np.float32)
    np.testing.assert_array_equal(cluster_assignment.mean_vectors(vectors, [(0,), (1,)]), vectors)


class ClientsAlikeTest(absltest.TestCase):

  def test_some_sets_at_a_time(self):
    clusters, clients = letters.clusters("ca", "", "abd", "e"), np.arange(5)
    with mock.patch.object(cluster_assignment, "SETS_AT_A_TIME", 2):
      found = list(cluster_assignment.clients_alike(clusters, clients))
    self.assertEqual(
        [{indices: letters.name(alike) for indices, alike in part.items()} for part in found],
        [{(0, 2): "a", (2,): "bd"}, {(0,): "c", (3,): "e"}],
    )
    (found,) = cluster_assignment.clients_alike(clusters, clients)
    self.assertLen(found, 4)


if __name__ == "__main__":
  absltest.main()
