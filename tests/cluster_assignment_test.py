from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.methods import cluster_assignment

# The article's example of overlapping clusters.
_ARTICLE = cluster_assignment.ClusterAssignment((
    ("5", "9"), ("1", "9"), ("1", "10"), ("2", "9"),
    ("0",), ("3",), ("4",), ("6",), ("7",), ("8",),
))  # pyformat: disable
_ARTICLE_IDS = tuple(map(str, range(11)))


class ClusterAssignmentTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("no_cluster", (), "least one cluster, got"),
      ("empty_cluster", (("a",), ()), "empty cluster, got"),
      ("client_twice", (("a", "b", "a"),), r"a client once per cluster, got \('a', 'b', 'a'\)"),
      ("subset", (("a", "b", "c"), ("c", "b")),
       r"part of the cluster \('a', 'b', 'c'\), got \('c', 'b'\)"),
      ("subset_before", (("b",), ("a", "b")), r"part of the cluster \('a', 'b'\)"),
      ("same_twice", (("a", "b"), ("c",), ("b", "a")), "part of the cluster"),
  )
  def test_refuses(self, clusters, message):
    with self.assertRaisesRegex(ValueError, "^`clusters` must .*" + message):
      cluster_assignment.ClusterAssignment(clusters)

  def test_refuses_ids_for_clusters(self):
    # A comma forgotten in (("client_1", "client_2"),).
    with self.assertRaisesRegex(TypeError, "`clusters`.*got 'client_1'"):
      cluster_assignment.ClusterAssignment(("client_1", "client_2"))

  def test_lists_become_tuples(self):
    assignment = cluster_assignment.ClusterAssignment([["a", "b"], ["c"]])
    self.assertEqual(assignment, cluster_assignment.ClusterAssignment((("a", "b"), ("c",))))

  def test_given_order_is_kept(self):
    clusters = (("c",), ("b", "a"))
    self.assertEqual(cluster_assignment.ClusterAssignment(clusters).clusters, clusters)

  def test_every_client_of_many_alone(self):
    # A check of all pairs of clusters would make 400 million comparisons.
    assignment = cluster_assignment.ClusterAssignment(tuple((str(i),) for i in range(20_000)))
    self.assertLen(assignment.clusters, 20_000)

  def test_overlapping(self):
    self.assertTrue(_ARTICLE.overlapping)
    self.assertFalse(cluster_assignment.ClusterAssignment((("a", "b"), ("c",))).overlapping)

  def test_clusters_of_any_clusters(self):
    self.assertEqual(
        cluster_assignment.clusters_of((("a", "b"), (), ("b",))), {"a": (0,), "b": (0, 2)}
    )

  def test_clusters_of(self):
    self.assertEqual(_ARTICLE.clusters_of("9"), (0, 1, 3))
    self.assertEqual(_ARTICLE.clusters_of("10"), (2,))
    with self.assertRaisesRegex(ValueError, "`client_id` must be in a cluster, got '11'"):
      _ARTICLE.clusters_of("11")


class CanonicalOrderTest(parameterized.TestCase):

  def test_from_clusters(self):
    assignment = cluster_assignment.ClusterAssignment.from_clusters(
        ("d", "c", "b", "a"), [{"b", "a"}, {"a", "d"}, {"c", "d"}], "a warning"
    )
    self.assertEqual(assignment.clusters, (("d", "c"), ("d", "a"), ("b", "a")))
    self.assertEqual(assignment.warning, "a warning")
    for clusters in (["ab"], ["ab", "cx"]):
      with self.assertRaisesRegex(ValueError, "`clusters` must hold"):
        cluster_assignment.ClusterAssignment.from_clusters(("a", "b", "c"), clusters)

  def test_from_labels(self):
    assignment = cluster_assignment.ClusterAssignment.from_labels(
        ("d", "c", "b", "a"), {"a": 0, "b": 7, "c": 7, "d": 1}
    )
    self.assertEqual(assignment.clusters, (("d",), ("c", "b"), ("a",)))
    self.assertIsNone(assignment.warning)

  @parameterized.parameters(
      ((np.int64(0), np.int32(2), np.float32(2.0)),), ((np.True_, np.False_, False),),
      (("north", "-1", "-1"),), (((0, 1), (0, -1), (0, -1)),),
  )
  def test_labels_of_many_kinds(self, labels):
    assignment = cluster_assignment.ClusterAssignment.from_labels("abc", dict(zip("abc", labels)))
    self.assertEqual(assignment.clusters, (("a",), ("b", "c")))

  @parameterized.parameters(-1, np.int64(-1), -1.0, 0.5, np.nan, np.float32(np.nan), np.inf, None)
  def test_refuses_labels_of_no_cluster(self, label):
    with self.assertRaisesRegex(ValueError, "`label_of` must .* for 'b'"):
      cluster_assignment.ClusterAssignment.from_labels("abc", {"a": 0, "b": label, "c": 0})

  @parameterized.parameters("ac", "abcd")
  def test_refuses_labels_of_other_clients(self, client_ids):
    with self.assertRaisesRegex(ValueError, "`label_of` must .* '[bd]'"):
      cluster_assignment.ClusterAssignment.from_labels("abc", dict.fromkeys(client_ids, 0))


class CheckCoversTest(parameterized.TestCase):

  def test_accepts(self):
    _ARTICLE.check_covers(_ARTICLE_IDS)

  def test_client_without_cluster(self):
    with self.assertRaisesRegex(ValueError, "`clusters` must hold every.*'11'"):
      _ARTICLE.check_covers((*_ARTICLE_IDS, "11"))

  def test_unknown_client(self):
    with self.assertRaisesRegex(ValueError, "`clusters`.*only known clients, got '10'"):
      _ARTICLE.check_covers(_ARTICLE_IDS[:10])


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
    clusters = (("c", "a"), (), ("a", "b", "d"), ("e",))
    with mock.patch.object(cluster_assignment, "SETS_AT_A_TIME", 2):
      found = list(cluster_assignment.clients_alike(clusters, "abcde"))
    self.assertEqual(found, [
        {(0, 2): ("a",), (2,): ("b", "d")}, {(0,): ("c",), (3,): ("e",)},
    ])
    (found,) = cluster_assignment.clients_alike(clusters, "abcde")
    self.assertLen(found, 4)


if __name__ == "__main__":
  absltest.main()
