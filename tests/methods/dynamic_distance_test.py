import itertools
from typing import NamedTuple
from unittest import mock

from absl.testing import parameterized
import numpy as np

from fl_clustering.methods import client_weights
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import dynamic_distance

# The article's example; its clusters are those of the article.
_ARTICLE = {
    "0": [], "1": ["9", "10"], "2": ["9"], "3": [], "4": [], "5": ["9"], "6": [],
    "7": [], "8": [], "9": ["1", "2", "5"], "10": ["1"],
}  # pyformat: disable
_ARTICLE_CLUSTERS = {
    ("5", "9"), ("1", "9"), ("1", "10"), ("2", "9"),
    ("0",), ("3",), ("4",), ("6",), ("7",), ("8",),
}  # pyformat: disable


def _weights(vectors):
  vectors = np.asarray(vectors, np.float32)
  clients = np.arange(len(vectors))
  return client_weights.ClientWeights(clients, vectors, np.zeros(vectors.shape[1], np.float32))


def _random_graph(seed, num_clients, density):
  rng = np.random.default_rng(seed)
  is_edge = np.triu(rng.uniform(size=(num_clients, num_clients)) < density, 1)
  is_edge |= is_edge.T
  return {str(i): set(map(str, np.flatnonzero(row))) for i, row in enumerate(is_edge)}


def _maximal_cliques(neighbours):
  """Returns all maximal cliques, from those of one client more at a time."""
  found = {frozenset()}
  for client_id, near in neighbours.items():
    new = {clique & near | {client_id} for clique in found}
    found = {clique for clique in found if not clique <= near}
    found |= {clique for clique in new if not any(clique < other for other in new)}
  return found


class _Found(NamedTuple):
  """Clusters by their clients' ids, and the warning."""

  clusters: tuple[tuple[str, ...], ...]
  warning: str | None


def _clusters(neighbours, *bounds, **more_bounds):
  """Returns the clusters of a graph, from every client's id to its neighbours' ids."""
  ids = sorted(neighbours)
  is_edge = np.array([[one in neighbours[other] for one in ids] for other in ids])
  clusters, warning = dynamic_distance.cluster_neighbours(is_edge, *bounds, **more_bounds)
  place = {client_id: i for i, client_id in enumerate(neighbours)}
  found = cluster_assignment.ClusterAssignment.from_clusters(
      [[place[ids[i]] for i in members] for members in clusters], warning
  )
  cluster_assignment.check_covers(found.clusters, np.arange(len(ids)))
  names = list(neighbours)
  return _Found(tuple(tuple(names[i] for i in one) for one in found.clusters), warning)


def _moon_moser(num_triples):
  """A graph of 3 * num_triples nodes with 3^num_triples maximal cliques."""
  ids = [f"{i:03d}" for i in range(3 * num_triples)]
  return {a: {b for j, b in enumerate(ids) if j // 3 != i // 3} for i, a in enumerate(ids)}


def _is_maximal_clique(neighbours, members):
  # `members` is a clique, and no other client is a neighbour of all of it.
  of = {client_id: set(others) for client_id, others in neighbours.items()}
  is_clique = all(b in of[a] for a, b in itertools.combinations(members, 2))
  return is_clique and not set.intersection(*(of[member] for member in members))


class ClusterNeighboursTest(parameterized.TestCase):

  @parameterized.product(seed=[0, 1, 2], density=[0.0, 0.1, 0.5, 0.9])
  def test_are_all_maximal_cliques(self, seed, density):
    neighbours = _random_graph(seed, 25, density)
    assignment = _clusters(neighbours, max_clusters=1_000)
    self.assertCountEqual(map(frozenset, assignment.clusters), _maximal_cliques(neighbours))
    self.assertIsNone(assignment.warning)

  def test_article_example(self):
    for max_clusters in (10, 32):
      assignment = _clusters(_ARTICLE, max_clusters)
      self.assertLen(assignment.clusters, 10)
      self.assertEqual(set(assignment.clusters), _ARTICLE_CLUSTERS)
      self.assertIsNone(assignment.warning)

  def test_own_neighbour_changes_nothing(self):
    reflexive = {client_id: [client_id, *others] for client_id, others in _ARTICLE.items()}
    for bounds in ((32,), (32, 1)):
      self.assertEqual(_clusters(reflexive, *bounds), _clusters(_ARTICLE, *bounds))

  @parameterized.product(seed=list(range(5)), max_clusters=[1, 20])
  def test_chosen_one_by_one(self, seed, max_clusters):
    """The same as a look at every clique for every choice, at least until all clients have one."""
    neighbours = _random_graph(seed, 30, 0.5)
    cliques = {tuple(sorted(clique)) for clique in _maximal_cliques(neighbours)}
    uncovered, expected = set(neighbours), []
    while uncovered or len(expected) < max_clusters:
      best = min(
          cliques.difference(expected),
          key=lambda clique: (-len(uncovered.intersection(clique)), -len(clique), clique),
      )
      expected.append(best)
      uncovered.difference_update(best)
    assignment = _clusters(neighbours, max_clusters)
    self.assertEqual({tuple(sorted(members)) for members in assignment.clusters}, set(expected))

  def test_isolated_clients_are_clusters_past_the_bound(self):
    alone = {str(i): [] for i in range(6)}
    assignment = _clusters(alone, max_clusters=4)
    self.assertLen(assignment.clusters, 6)
    self.assertIn("`max_clusters`=4", assignment.warning)

  def test_exponentially_many_cliques(self):
    # 3^40 maximal cliques: an enumeration of all of them would not end.
    neighbours = _moon_moser(40)
    assignment = _clusters(neighbours, max_clusters=32)
    self.assertLen(assignment.clusters, 32)
    for members in assignment.clusters:
      self.assertTrue(_is_maximal_clique(neighbours, members))
    self.assertIn("100000", assignment.warning)

  @parameterized.parameters(0, 1, 2, 5, 50)
  def test_clients_not_seen_get_cliques_that_grow_from_them(self, max_cliques):
    neighbours = _random_graph(max_cliques, 40, 0.4)
    assignment = _clusters(neighbours, 10, max_cliques)
    for members in assignment.clusters:
      self.assertTrue(_is_maximal_clique(neighbours, members))
    self.assertIn(f"more than {max_cliques} ", assignment.warning)

  def test_long_cliques_are_bounded_together(self):
    dense = _moon_moser(20)
    with self.subTest("unbounded"):
      assignment = _clusters(dense, 4, 1_000)
      self.assertRegex(assignment.warning, "more than 1000 maximal")
    with mock.patch.object(dynamic_distance, "MAX_MEMBERSHIPS", 400):
      # 20 members each: the bound is passed with the 21st.
      assignment = _clusters(dense, 4, 1_000)
      self.assertRegex(assignment.warning, "more than 21 maximal")


class DynamicDistanceTest(parameterized.TestCase):

  @parameterized.named_parameters(
      # On a line at 0, 1, 3, 6; the pairs' distances are 1, 2, 3, 3, 5, 6.
      ("mean", "mean", ((0, 1, 2), (2, 3))),
      ("number", 2, ((0, 1), (1, 2), (3,))),
      ("below", 1.9, ((0, 1), (2,), (3,))),
      ("quantile", "q0.2", ((0, 1), (1, 2), (3,))),
      ("all", "q1", ((0, 1, 2, 3),)),
      ("zero", 0, ((0,), (1,), (2,), (3,))),
  )
  def test_threshold(self, threshold, expected):
    weights = _weights([[0], [1], [3], [6]])
    assignment = dynamic_distance.DynamicDistance(threshold)(weights, np.random.default_rng(0))
    self.assertEqual(tuple(tuple(members) for members in assignment.clusters), expected)

  def test_a_threshold_that_groups_nothing_is_told(self):
    def warning(threshold, *vectors, **options):
      group = dynamic_distance.DynamicDistance(threshold, **options)
      return group(_weights([[one] for one in vectors]), None).warning

    for threshold in (1e308, "1.7976931348623157e308", "q1", 0):
      self.assertIn("`distance_threshold`", warning(threshold, 0, 1, 3, 6))
    self.assertRegex(warning(0, 0, 1, 3, 6, max_clusters=3), "`max_clusters`.*`distance_threshold`")
    self.assertIsNone(warning("mean", 0, 1, 3, 6))
    self.assertIsNone(warning("mean", 0))

  def test_euclidean_distance(self):
    # 5 apart in L2, 7 in L1.
    weights = _weights([[0, 0], [3, 4]])
    clusters = [
        dynamic_distance.DynamicDistance(threshold)(weights, None).clusters
        for threshold in (4.999, 5)
    ]
    self.assertEqual([len(c) for c in clusters], [2, 1])

  def test_representation(self):
    weights = _weights([[1, 0], [100, 0], [0, 1]])
    group = dynamic_distance.DynamicDistance("mean", representation="normalized_update")
    found = group(weights, np.random.default_rng(0)).clusters
    self.assertEqual([members.tolist() for members in found], [[0, 1], [2]])

  def test_budget_is_used(self):
    vectors = np.random.default_rng(0).normal(size=(40, 10))
    group = dynamic_distance.DynamicDistance("mean", max_clusters=14)
    assignment = group(_weights(vectors), np.random.default_rng(0))
    self.assertLen(assignment.clusters, 14)
    self.assertTrue(assignment.overlapping)
    self.assertIn("`max_clusters`=14", assignment.warning)
