from absl.testing import parameterized
import numpy as np
from sklearn import cluster

from fl_clustering.methods import hierarchical
from tests.methods import point_engine


def _group(vectors, **options):
  """Returns the clusters as tuples of row numbers."""
  group = hierarchical.Hierarchical(**options)
  return tuple(map(tuple, group(point_engine.weights(vectors), np.random.default_rng(0)).clusters))


# A chain of steps 1, 2, 4 on a line.
_CHAIN = [[0], [1], [3], [7]]
_MEAN = {"distance_threshold": "mean"}


class HierarchicalTest(parameterized.TestCase):

  @parameterized.named_parameters(
      # Client 2 comes to clients 0 and 1 at 2 (nearest), 3 (farthest), 2.5 (mean).
      ("single_below", "single", 1.9, ((0, 1), (2,), (3,))),
      ("single_at", "single", 2, ((0, 1, 2), (3,))),
      ("complete_below", "complete", 2.9, ((0, 1), (2,), (3,))),
      ("complete_at", "complete", 3, ((0, 1, 2), (3,))),
      ("average_below", "average", 2.4, ((0, 1), (2,), (3,))),
      ("average_at", "average", 2.5, ((0, 1, 2), (3,))),
      # Of singletons, Ward's distance is the Euclidean one.
      ("ward_below", "ward", 0.9, ((0,), (1,), (2,), (3,))),
      ("ward_at", "ward", 1, ((0, 1), (2,), (3,))),
  )
  def test_cut_at_distance(self, linkage, threshold, expected):
    self.assertEqual(
        _group(_CHAIN, distance_threshold=threshold, linkage=linkage, metric="l2"), expected
    )

  @parameterized.named_parameters(
      # The pairs' distances: 1, 2, 3, 4, 6, 7; their mean is 3.83.
      ("mean", "mean", ((0, 1, 2), (3,))),
      ("fourth", "q0.6", ((0, 1, 2, 3),)),
      ("second", "q0.2", ((0, 1, 2), (3,))),
      ("smallest", "q0", ((0, 1), (2,), (3,))),
      ("zero", 0, ((0,), (1,), (2,), (3,))),
  )
  def test_threshold_of_pairwise_distances(self, threshold, expected):
    self.assertEqual(
        _group(_CHAIN, distance_threshold=threshold, linkage="single", metric="l1"), expected
    )

  @parameterized.parameters(1e308, "1.7976931348623157e308", "q1", 0)
  def test_a_threshold_that_groups_nothing_is_told(self, threshold):
    for linkage in hierarchical.LINKAGES:
      group = hierarchical.Hierarchical(distance_threshold=threshold, linkage=linkage, metric="l2")
      assignment = group(point_engine.weights([[0], [5], [5.5], [6]]), np.random.default_rng(0))
      if linkage != "ward" or threshold != "q1":  # Its distances are larger than the pairs'.
        self.assertIn("`distance_threshold`", assignment.warning)

  def test_nothing_is_told_of_what_was_asked_for(self):
    vectors = [[0, 1], [0, 1], [1, 0], [2, 1]]
    for options, rows in (
        ({"num_clusters": 1}, vectors), ({"num_clusters": 4}, vectors), (_MEAN, vectors),
        (_MEAN, vectors[:1]),
    ):
      group = hierarchical.Hierarchical(**options)
      self.assertIsNone(group(point_engine.weights(rows), None).warning)

  def test_identical_clients_are_never_apart_for_a_threshold(self):
    for threshold in ("mean", "q1", 0):
      with self.subTest(threshold):
        self.assertEqual(
            _group([[1, 2]] * 3, distance_threshold=threshold, metric="l2"), ((0, 1, 2),)
        )

  @parameterized.named_parameters(
      # From client 0 to 1: 5 in L1 and in L2; from 0 to 2: 6 in L1, sqrt(18) in L2.
      ("l1", "l1", [[0, 0], [5, 0], [-3, 3]], ((0, 1), (2,))),
      ("l2", "l2", [[0, 0], [5, 0], [-3, 3]], ((0, 2), (1,))),
      # Clients 0 and 1 are closest, the updates of 1 and 2 have about the same direction.
      ("cosine", "cosine", [[1, 2], [2, 1], [11, 2]], ((0,), (1, 2))),
  )
  def test_metric(self, metric, vectors, expected):
    self.assertEqual(_group(vectors, num_clusters=2, metric=metric), expected)

  @parameterized.product(linkage=hierarchical.LINKAGES, num_clusters=(2, 5, 20))
  def test_agrees_with_scikit_learn_on_the_weights(self, linkage, num_clusters):
    vectors = np.random.default_rng(3).normal(size=(20, 50)).astype(np.float32)
    labels = cluster.AgglomerativeClustering(num_clusters, linkage=linkage).fit_predict(vectors)
    expected = sorted(tuple(np.flatnonzero(labels == k)) for k in range(num_clusters))
    self.assertSequenceEqual(
        _group(vectors, num_clusters=num_clusters, linkage=linkage, metric="l2"), expected
    )

  def test_representation(self):
    # Less the global model (1, 1): (1, 0), (100, 0), (0, 1), (0, 100).
    vectors = [[2, 1], [101, 1], [1, 2], [1, 101]]
    self.assertEqual(
        _group(vectors, num_clusters=2, representation="normalized_update", metric="l2"),
        ((0, 1), (2, 3)),
    )
    self.assertEqual(_group(vectors, num_clusters=3, metric="l2"), ((0, 2), (1,), (3,)))

  def test_groups_updates_by_default_as_in_the_paper(self):
    # Less the global model (1, 1): (1, 1), (-.5, -.5), (1, .5).
    vectors = [[2, 2], [0.5, 0.5], [2, 1.5]]
    self.assertEqual(_group(vectors, num_clusters=2), ((0, 2), (1,)))
    self.assertEqual(_group(vectors, num_clusters=2, representation="weights"), ((0, 1), (2,)))

  def test_cosine_of_client_without_update(self):
    # It is like no other client, and like the others that did not move.
    vectors = [[1, 1], [2, 2], [3, 3], [1, 1]]
    self.assertEqual(
        _group(vectors, num_clusters=2, metric="cosine", representation="update"),
        ((0, 3), (1, 2)),
    )
