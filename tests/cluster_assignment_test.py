from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.methods import cluster_assignment
from tests import letters

# The article's example of overlapping clusters.
_ARTICLE = cluster_assignment.ClusterAssignment((
    (5, 9), (1, 9), (1, 10), (2, 9), (0,), (3,), (4,), (6,), (7,), (8,),
))  # pyformat: disable


class ClusterAssignmentTest(parameterized.TestCase):

  @parameterized.parameters(
      ((),), (((0,), ()),), (((0, 1, 0),),), (((0, 1, 2), (2, 1)),), (((1,), (0, 1)),),
      (((0, 1), (2,), (1, 0)),),
      # A comma forgotten in ((0, 1),).
      ((0, 1), TypeError), ((("client_1", "client_2"),), TypeError), (((0.0, 1.0),), TypeError),
  )
  def test_refuses(self, clusters, error=ValueError):
    with self.assertRaisesRegex(error, "^`clusters`"):
      cluster_assignment.ClusterAssignment(clusters)

  def test_covers_all_clients_and_no_others(self):
    cluster_assignment.check_covers(_ARTICLE.clusters, np.arange(11))
    for num_clients, found in ((12, "11"), (10, "10")):
      with self.assertRaisesRegex(ValueError, f"^`clusters`.* {found}"):
        cluster_assignment.check_covers(_ARTICLE.clusters, np.arange(num_clients))

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
      *(([0, label, 0],) for label in (
          -1, 2.0, np.nan, "a", None)),
      ((0, 0),), (((0, 1), (0, 2), (0, 3)),),
  )
  def test_refuses_labels_of_no_cluster_and_of_other_clients(self, labels):
    with self.assertRaisesRegex(ValueError, "^`labels`"):
      cluster_assignment.ClusterAssignment.from_labels(np.arange(3), labels)


class RecoveryTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("exact", ("cd", "ba"), 1, 1),
      # 1 of 2 pairs together in both, 1/3 expected by chance, 1.5 at most:
      # (1 - 1/3) / (1.5 - 1/3) = 4/7.
      ("one_split", ("ab", "c", "d"), 4 / 7, 1),
      # No pair together in both, 2/3 expected, 2 at most: (0 - 2/3) / (2 - 2/3).
      ("crossed", ("ac", "bd"), -0.5, 0.5),
      ("everyone", ("abcd",), 0, 0.5),
      ("alone", ("a", "b", "c", "d"), 0, 1),
      # 1 pair, 2 * 3 / 6 = 1 expected.
      ("one_astray", ("abc", "d"), 0, 0.75),
      ("overlapping", ("ab", "bc", "d"), None, None),
  )
  def test_scores(self, clusters, adjusted_rand_index, purity):
    found = cluster_assignment.ClusterAssignment(letters.clusters(*clusters))
    true_groups = np.array([0, 0, 1, 1])
    self.assertAlmostEqual(found.adjusted_rand_index(true_groups), adjusted_rand_index)
    self.assertAlmostEqual(found.purity(true_groups), purity)


class ClientsAlikeTest(absltest.TestCase):

  def test_article_example(self):
    """Client 9 gets mean(mean(5, 9), mean(1, 9), mean(2, 9))."""
    weights = np.random.default_rng(0).normal(size=(11, 4)).astype(np.float32)
    vectors = np.stack([weights[members].mean(axis=0) for members in _ARTICLE.clusters])
    ((alike, means),) = cluster_assignment.clients_alike(
        vectors, _ARTICLE.clusters, np.arange(11)
    )
    expected = (
        (weights[5] + weights[9]) / 2
        + (weights[1] + weights[9]) / 2
        + (weights[2] + weights[9]) / 2
    ) / 3
    place = list(alike).index((0, 1, 3))
    np.testing.assert_array_equal(alike[0, 1, 3], [9])
    np.testing.assert_allclose(means[place], expected, rtol=1e-6)
    self.assertEqual(means.dtype, np.float32)

  def test_some_sets_at_a_time(self):
    clusters, clients = letters.clusters("ca", "", "abd", "e"), np.arange(5)
    vectors = np.array([[2.0], [4.0], [8.0], [16.0]], np.float32)
    with mock.patch.object(cluster_assignment, "SETS_AT_A_TIME", 2):
      found = list(cluster_assignment.clients_alike(vectors, clusters, clients))
    self.assertEqual(
        [{indices: letters.name(alike) for indices, alike in part.items()} for part, _ in found],
        [{(0, 2): "a", (2,): "bd"}, {(0,): "c", (3,): "e"}],
    )
    np.testing.assert_array_equal([means for _, means in found], [[[5], [8]], [[2], [16]]])
    ((found, _),) = cluster_assignment.clients_alike(vectors, clusters, clients)
    self.assertLen(found, 4)
