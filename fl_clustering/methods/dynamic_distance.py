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

The article compares the clients' weights, by L2 distance; so does the default, since the updates
differ from the weights by the same model for all.  `--representation=normalized_update` is ours:
it compares the directions of the updates, so that the number of a client's steps doesn't count.
"""

from __future__ import annotations

import dataclasses
import heapq
from typing import Iterator, Sequence, TYPE_CHECKING

import numpy as np
import tqdm

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import distances as distances_lib
from fl_clustering.methods import grouping

if TYPE_CHECKING:
  from fl_clustering.methods import client_weights as client_weights_lib

# Bounds of the enumeration: seconds for hundreds of clients, a few minutes for thousands.
_MAX_CLIQUES = 100_000
MAX_MEMBERSHIPS = 10_000_000
# From this number on, the enumeration has a progress bar.
_MANY_CLIENTS = 500


# A set of clients is an int with a bit for every client, so that intersections are fast and take
# n / 8 bytes.  The first client has the highest bit: of sets of equal size, the one with the first
# clients is the largest number.  A graph is every client's neighbours, so those of the client
# with a bit are `graph[-bit.bit_length()]`.
_Graph = Sequence[int]


def _graph_of(is_edge: np.ndarray) -> _Graph:
  """Returns the graph of a symmetric matrix, bools of shape (n, n); the diagonal doesn't count."""
  is_edge = is_edge & ~np.eye(len(is_edge), dtype=bool)
  # The digits of a binary number, as text.
  return [int((row + np.uint8(ord("0"))).tobytes(), 2) for row in is_edge]


def _first(members: int) -> int:
  """Returns the bit of a set's first client."""
  return 1 << (members.bit_length() - 1)


def _pivot_neighbours(graph: _Graph, candidates: int, excluded: int) -> int:
  """Returns the neighbours of a client that has as many candidates among them as can be."""
  best, most = 0, -1
  rest = candidates | excluded
  enough = candidates.bit_count()
  while rest:
    bit = _first(rest)
    rest ^= bit
    adjacent = graph[-bit.bit_length()]
    count = (candidates & adjacent).bit_count()
    if count > most:
      best, most = adjacent, count
      # No candidate is its own neighbour.
      if count >= enough - bool(bit & candidates):
        break
  return best


def _maximal_cliques(graph: _Graph) -> Iterator[int]:
  """Yields all maximal cliques as sets.

  Tomita, Tanaka, Takahashi: "The worst-case time complexity for generating all maximal
  cliques and computational experiments", Theoretical Computer Science, 2006.
  """
  # Per level: the clique so far, who may join it, who was tried before, who is to be tried.
  levels: list[list[int]] = []

  def enter(clique: int, candidates: int, excluded: int) -> bool:
    to_try = candidates & ~_pivot_neighbours(graph, candidates, excluded) if candidates else 0
    levels.append([clique, candidates, excluded, to_try])
    return not candidates and not excluded

  enter(0, (1 << len(graph)) - 1, 0)
  while levels:
    clique, candidates, excluded, to_try = level = levels[-1]
    if not to_try:
      levels.pop()
      continue
    bit = _first(to_try)
    level[1:] = candidates ^ bit, excluded | bit, to_try ^ bit
    adjacent = graph[-bit.bit_length()]
    if enter(clique | bit, candidates & adjacent, excluded & adjacent):
      yield clique | bit


def _enumerate(graph: _Graph, max_cliques: int) -> tuple[list[int], bool]:
  """Returns maximal cliques, as sets, and whether these are all."""
  cliques: list[int] = []
  num_memberships = 0
  with tqdm.tqdm(
      desc=f"maximal cliques of {len(graph):,} clients (at most {max_cliques:,})",
      unit="clique", disable=len(graph) < _MANY_CLIENTS,
  ) as bar:
    for clique in _maximal_cliques(graph):
      if len(cliques) == max_cliques or num_memberships > MAX_MEMBERSHIPS:
        return cliques, False
      cliques.append(clique)
      num_memberships += clique.bit_count()
      bar.update()
  return cliques, True


def _grow(graph: _Graph, uncovered: int) -> int:
  """Returns a maximal clique that holds the first uncovered client, and where it can others."""
  clique = _first(uncovered)
  candidates = graph[-clique.bit_length()]
  while candidates:
    bit = _first(candidates & uncovered or candidates)
    clique |= bit
    candidates &= graph[-bit.bit_length()]
  return clique


def _cover(graph: _Graph, cliques: list[int], max_cliques: int) -> list[int]:
  """Returns maximal cliques that hold every client, at most `max_cliques` if possible.

  The greedy algorithm for set cover (Chvatal: "A greedy heuristic for the
  set-covering problem", Mathematics of Operations Research, 1979), then the largest
  of the remaining cliques.  The cover is never cut: more are returned where it has more.

  `cliques` are some or all of the graph's maximal ones.
  """
  uncovered, chosen = (1 << len(graph)) - 1, []
  # By the number of uncovered clients. It can only fall, so the first clique whose
  # number is up to date is the best one.
  heap = [(-clique.bit_count(), -clique.bit_count(), -clique) for clique in cliques]
  heapq.heapify(heap)
  while uncovered:
    best_gain = 0
    while heap:
      negative_gain, negative_size, negative = heap[0]
      best_gain = (uncovered & -negative).bit_count()
      if best_gain == -negative_gain:
        break
      heapq.heapreplace(heap, (-best_gain, negative_size, negative))
    # Better only if the enumeration was cut short: those seen are much alike then.
    grown = _grow(graph, uncovered)
    if best_gain >= (uncovered & grown).bit_count():
      chosen.append(-heapq.heappop(heap)[2])
    else:
      chosen.append(grown)
    uncovered &= ~chosen[-1]
  spare = set(cliques).difference(chosen)
  return chosen + heapq.nsmallest(
      max_cliques - len(chosen), spare, key=lambda clique: (-clique.bit_count(), -clique)
  )


def cluster_neighbours(
    is_edge: np.ndarray, max_clusters: int, max_cliques: int = _MAX_CLIQUES
) -> tuple[list[list[int]], str | None]:
  """Returns the clusters of a neighbour graph.

  Up to `max_clusters` maximal cliques are all used. Beyond that, the clique with the
  most clients not yet covered is taken next, until all are covered. (Always the largest
  clique next often takes more than twice as many for a hundred clients.) The largest of
  the remaining ones follow, up to `max_clusters`.
  Ties go to the clique that is larger as a whole, then to the first clients. If
  that takes more than `max_clusters` before every client is in one, they are used
  all the same.

  Args:
    is_edge: Whether two clients are neighbours, a symmetric matrix of bools, (N, N).
    max_clusters: Most clusters, unless more are needed to hold every client.
    max_cliques: Bound on the number of cliques looked at. If there are more, the
      clusters are chosen among those, and among maximal cliques grown from clients
      that they leave out.

  Returns:
    The positions of every cluster's clients, and a warning if not all cliques are used.
  """
  graph = _graph_of(is_edge)
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
  texts = (f"{clique:0{len(graph)}b}".encode() for clique in cliques)
  return [np.flatnonzero(np.frombuffer(t, np.uint8) == ord("1")).tolist() for t in texts], warning


@dataclasses.dataclass(frozen=True)
class DynamicDistance(options.Settings):
  """The dynamic distance-based grouping, with Euclidean distances.

  It does not use `overlap_training` itself, see `one_shot.py`.
  """

  distance_threshold: str | float = grouping.distance_threshold_option(
      "Largest distance of two clients in one cluster: `mean` of all pairwise distances, a "
      "number, or a quantile of them such as `q0.3`. dynamic_distance takes it in L2.",
      default="mean",
  )
  max_clusters: int = options.option(
      int, "Most clusters.", default=32, rule=validate.AT_LEAST_ONE
  )
  representation: str = grouping.representation_option()
  overlap_training: str = options.option(
      str,
      "How clients in several clusters train: `shared`, once in a round, from the mean of "
      "their clusters' models, as in the article; or `separate`, once for each of them.",
      default="shared",
      values=("shared", "separate"),
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    grouping.check_is_of_weights(self.representation)

  def __call__(
      self, client_weights: client_weights_lib.ClientWeights, rng: np.random.Generator
  ) -> cluster_assignment.ClusterAssignment:
    """Groups the clients; warns if each is alone or all are in one cluster."""
    del rng  # Nothing here is random.
    clients, distances = distances_lib.client_distances(
        client_weights, self.representation, "l2"
    )
    within = distances <= grouping.largest_distance_within(self.distance_threshold, distances)
    places, warning = cluster_neighbours(distances_lib.square(within), self.max_clusters)
    assignment = cluster_assignment.ClusterAssignment.from_clusters(
        [clients[of_cluster] for of_cluster in places], warning
    )
    return grouping.with_threshold_warning(assignment, self.distance_threshold)
