"""Groups clients that are all within a distance of each other; clusters overlap.

"Dynamic distance-based clustering" of Helmy, Katerji, Muthukrishnan: "Federated
Learning through Distance-Based Clustering", Towards Data Science, 2021. Clients at
most a threshold apart are neighbours; the clusters are the maximal cliques of the
neighbour graph, which is what the article's rules and its example come to: no
cluster is part of another, and a client without neighbours is one by itself.

The article has no bound on their number. A hundred clients can have thousands of
maximal cliques and n clients up to 3^(n/3) (Moon, Moser: "On cliques in graphs",
Israel Journal of Mathematics, 1965), and every cluster is a model to train. Past
`max_clusters`, some of the maximal cliques that hold every client are used instead.
"""

import dataclasses
import heapq
from typing import Union

import numpy as np

from clustering_basics import validate
from fl_clustering import client_weights as client_weights_lib
from fl_clustering import cluster_assignment
from fl_clustering.grouping import distances as distances_lib
from fl_clustering.grouping import grouping
from fl_clustering.grouping import thresholds
from fl_clustering import options

# Bounds of the enumeration: seconds for hundreds of clients, and about 100 MB.
_MAX_CLIQUES = 100_000
_MAX_MEMBERSHIPS = 10_000_000


def _enumerate(graph, max_cliques):
  """Returns maximal cliques, as sorted tuples, and whether these are all."""
  # Here, since NetworkX takes long to import: the flags read this module and must answer
  # at once.
  import networkx  # pylint: disable=g-import-not-at-top

  cliques = []
  num_memberships = 0
  for clique in networkx.find_cliques(graph):
    if len(cliques) == max_cliques or num_memberships > _MAX_MEMBERSHIPS:
      return cliques, False
    cliques.append(tuple(sorted(clique)))
    num_memberships += len(clique)
  return cliques, True


def _grow(graph, node, uncovered):
  """Returns a maximal clique that holds a node, and where it can uncovered ones."""
  clique = [node]
  candidates = set(graph[node])
  while candidates:
    clique.append(min(candidates & uncovered or candidates))
    candidates &= set(graph[clique[-1]])
  return tuple(sorted(clique))


def _cover(graph, cliques, max_cliques):
  """Returns maximal cliques that hold every node, at most `max_cliques` if possible.

  The greedy algorithm for set cover (Chvatal: "A greedy heuristic for the
  set-covering problem", Mathematics of Operations Research, 1979), then the largest
  of the remaining cliques.

  Args:
    graph: The graph.
    cliques: Some or all of its maximal cliques.
    max_cliques: How many to return. The cover is never cut: more are returned
      where it has more.
  """
  uncovered = set(graph)
  chosen = []
  # By the number of uncovered nodes. It can only fall, so the first clique whose
  # number is up to date is the best one.
  heap = [(-len(clique), -len(clique), clique) for clique in cliques]
  heapq.heapify(heap)
  while uncovered:
    best_gain = 0
    while heap:
      negative_gain, negative_size, clique = heap[0]
      best_gain = len(uncovered.intersection(clique))
      if best_gain == -negative_gain:
        break
      heapq.heapreplace(heap, (-best_gain, negative_size, clique))
    # Better only if the enumeration was cut short: those seen are much alike then.
    grown = _grow(graph, min(uncovered), uncovered)
    if best_gain >= len(uncovered.intersection(grown)):
      chosen.append(heapq.heappop(heap)[2])
    else:
      chosen.append(grown)
    uncovered.difference_update(chosen[-1])
  spare = set(cliques).difference(chosen)
  return chosen + heapq.nsmallest(
      max_cliques - len(chosen), spare, key=lambda clique: (-len(clique), clique)
  )


def cluster_neighbours(
    neighbours, max_clusters, max_cliques=_MAX_CLIQUES
) -> cluster_assignment.ClusterAssignment:
  """Returns the clusters of a neighbour graph.

  Up to `max_clusters` maximal cliques are all used. Beyond that, the clique with the
  most clients not yet covered is taken next, until all are covered. (Always the largest
  clique next often takes more than twice as many for a hundred clients.) The largest of
  the remaining ones follow, up to `max_clusters`.
  Ties go to the clique that is larger as a whole, then to the lowest client ids. If
  that takes more than `max_clusters` before every client is in one, they are used
  all the same. A warning says what was done.

  Args:
    neighbours: From every client's id to its neighbours' ids.
    max_clusters: Most clusters, unless more are needed to hold every client.
    max_cliques: Bound on the number of cliques looked at. If there are more, the
      clusters are chosen among those, and among maximal cliques grown from clients
      that they leave out.
  """
  import networkx  # pylint: disable=g-import-not-at-top

  ids = sorted(neighbours)
  node_of = {client_id: node for node, client_id in enumerate(ids)}
  # Integers, as strings would be walked through in another order in every process.
  graph = networkx.Graph()
  graph.add_nodes_from(range(len(ids)))
  for client_id in ids:
    graph.add_edges_from(
        (node_of[client_id], node_of[neighbour])
        for neighbour in neighbours[client_id]
        if neighbour != client_id
    )
  cliques, are_all = _enumerate(graph, max_cliques)
  warning = None
  if not are_all or len(cliques) > max_clusters:
    chosen = _cover(graph, cliques, max_clusters)
    warning = (
        f"The neighbour graph has {'' if are_all else 'more than '}{len(cliques)} "
        f"maximal cliques, `max_clusters`={max_clusters}: {len(chosen)} of them are used."
    )
    if len(chosen) > max_clusters:
      warning += " Fewer would leave clients without a cluster."
    cliques = chosen
  return cluster_assignment.ClusterAssignment.from_clusters(
      tuple(neighbours), [[ids[node] for node in clique] for clique in cliques], warning
  )


@dataclasses.dataclass(frozen=True)
class DynamicDistance:
  """The dynamic distance-based grouping, with Euclidean distances.

  A function (ClientWeights, rng) -> ClusterAssignment.

  Attributes:
    distance_threshold: The largest distance of neighbours: `mean` (of the
      distances of all pairs), a number, or a quantile of them such as `q0.3`.
    max_clusters: Most clusters, as of `cluster_neighbours`.
    representation: What of the weights is grouped, one of
      `client_weights.REPRESENTATIONS`.
    overlap_training: How the clusters train afterwards, which the grouping itself does
      not use: `shared` or `separate`, see `methods/one_shot.py`.
  """

  distance_threshold: Union[str, float] = thresholds.distance_threshold_option(
      "Largest distance of two clients in one cluster: `mean` of all pairwise distances, a "
      "number, or a quantile of them such as `q0.3`. dynamic_distance takes it in L2.",
      default="mean",
  )
  max_clusters: int = options.option(int, "Most clusters.", default=32)
  representation: str = grouping.representation_option()
  overlap_training: str = options.option(
      str,
      "How clients in several clusters train: `shared`, once in a round, from the mean of "
      "their clusters' models, as in the article; or `separate`, once for each of them.",
      default="shared",
      values=("shared", "separate"),
  )

  def __post_init__(self):
    thresholds.parse_threshold(self.distance_threshold)
    validate.integer(1, max_clusters=self.max_clusters)
    validate.one_of(("shared", "separate"), overlap_training=self.overlap_training)
    validate.one_of(client_weights_lib.REPRESENTATIONS, representation=self.representation)

  def __call__(self, client_weights, rng):
    """Groups the clients.

    Args:
      client_weights: The clients' own weights, a `ClientWeights` of N clients.
      rng: A `np.random.Generator`, not used.

    Returns:
      A `ClusterAssignment` of all N clients, with a warning if each is alone or all are in one
      cluster.
    """
    del rng  # Nothing here is random.
    ids, distances = distances_lib.client_distances(
        client_weights, self.representation, "l2"
    )
    within = distances <= thresholds.largest_distance_within(self.distance_threshold, distances)
    rows = {
        client_id: np.flatnonzero(row)
        for client_id, row in zip(ids, distances_lib.square(within))
    }
    neighbours = {
        client_id: [ids[i] for i in rows[client_id]]
        for client_id in client_weights.client_ids
    }
    assignment = cluster_neighbours(neighbours, self.max_clusters)
    return thresholds.with_warning(assignment, self.distance_threshold)
