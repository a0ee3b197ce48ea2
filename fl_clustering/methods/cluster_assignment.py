"""Clusters of clients, as what groups clients returns them.

A client is its place among all clients of the task.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, Iterable, Iterator, TYPE_CHECKING

import numpy as np

from clustering_basics import agreement
from clustering_basics import validate

if TYPE_CHECKING:
  from fl_clustering.engine import participation

SETS_AT_A_TIME = 512


def as_arrays(clusters: Iterable[Any]) -> tuple[np.ndarray, ...]:
  """Returns clusters, sequences of clients, as int64 arrays."""
  found = []
  for members in clusters:
    array = np.asarray(members)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
      raise TypeError(f"`clusters` must be sequences of clients, which are ints, got {members!r}.")
    found.append(array.astype(np.int64, copy=False))
  return tuple(found)


def of_labels(labels: np.ndarray, num_clusters: int) -> tuple[np.ndarray, ...]:
  """Returns the clients with each of the labels 0 to num_clusters - 1, given every client's."""
  order = np.argsort(labels, kind="stable")
  sizes = np.bincount(labels, minlength=num_clusters)
  return tuple(np.split(order, np.cumsum(sizes)[:-1]))


def labels_of(clusters: participation.Clusters) -> np.ndarray:
  """Returns every client's cluster, given clusters that together are 0 to N - 1."""
  labels = np.empty(sum(map(len, clusters)), np.int64)
  for k, members in enumerate(clusters):
    labels[members] = k
  return labels


def clusters_of(clusters: participation.Clusters) -> dict[int, tuple[int, ...]]:
  """Returns the indices, ascending, of the clusters that each client is in, by client.

  The clusters may overlap or be empty.
  """
  indices = collections.defaultdict(list)
  for k, members in enumerate(clusters):
    for client in members.tolist():
      indices[client].append(k)
  return {client: tuple(of_client) for client, of_client in indices.items()}


def are_disjoint(clusters: participation.Clusters) -> bool:
  """Returns whether no client is in two clusters, nor twice in one."""
  clients = np.concatenate(clusters)
  return len(np.unique(clients)) == len(clients)


def clients_alike(
    vectors: Any, clusters: participation.Clusters, clients: np.ndarray
) -> Iterator[tuple[dict[tuple[int, ...], np.ndarray], np.ndarray]]:
  """Yields the clients by the set of clusters that they are in, with the mean of each set's models.

  The models of all sets at once are gigabytes for large models and thousands of clients.

  Args:
    vectors: Cluster models, an array of shape (num_clusters, P) or what acts like one.
    clusters: The clusters, which may overlap or be empty.
    clients: The clients, the order that the sets and their clients follow.

  Yields:
    Pairs of a dict of at most 512 items, from indices of clusters to clients, and the means, of
    the models' type and shape (num_items, P).
  """
  found = clusters_of(clusters)
  alike: dict[tuple[int, ...], list[int]] = {}
  for client in clients.tolist():
    alike.setdefault(found[client], []).append(client)
  items = [(indices, np.array(of_set)) for indices, of_set in alike.items()]
  for start in range(0, len(items), SETS_AT_A_TIME):
    sets = dict(items[start : start + SETS_AT_A_TIME])
    means = np.empty((len(sets), vectors.shape[1]), vectors.dtype)
    for mean, indices in zip(means, sets):
      mean[:] = vectors[list(indices)].mean(axis=0, dtype=np.float64)
    yield sets, means


def whole_clusters(clusters: participation.Clusters) -> list[int]:
  """Returns the places of clusters that are neither empty nor part of another one.

  Of equal clusters, the first counts.
  """
  places = [k for k, members in enumerate(clusters) if len(members)]
  if are_disjoint(clusters):
    return places
  sets = [frozenset(members.tolist()) for members in clusters]
  indices = clusters_of(clusters)
  return [
      k for k in places
      # Few other clusters hold the first member, so this is quick for many clusters.
      if not any(
          sets[k] < sets[other] or (sets[k] == sets[other] and other < k)
          for other in indices[clusters[k][0]]
      )
  ]


def check_covers(clusters: participation.Clusters, clients: np.ndarray) -> None:
  """Checks that clusters hold all of these clients and nobody else.

  Raises:
    ValueError: If a client is in no cluster, or a cluster holds an unknown one.
  """
  found = np.concatenate(clusters)
  missing = clients[~np.isin(clients, found)]
  if len(missing):
    raise ValueError(f"`clusters` must hold every client, got none with {missing.min()}.")
  unknown = found[~np.isin(found, clients)]
  if len(unknown):
    raise validate.error("clusters", "hold only known clients", int(unknown.min()))


@dataclasses.dataclass(frozen=True, eq=False)
class ClusterAssignment:
  """Clusters of clients, int64 arrays; a client may be in several.

  No cluster is empty or part of another one.  A `warning` says what a reader of the clusters
  should know about them.
  """

  clusters: tuple[np.ndarray, ...]
  warning: str | None = None

  def __post_init__(self) -> None:
    object.__setattr__(self, "clusters", as_arrays(self.clusters))
    if not self.clusters:
      raise validate.error("clusters", "hold at least one cluster", self.clusters)
    for members in self.clusters:
      if not len(members):
        raise validate.error("clusters", "hold no empty cluster", self.clusters)
    if are_disjoint(self.clusters):
      return
    whole = set(whole_clusters(self.clusters))
    for k, members in enumerate(self.clusters):
      if not are_disjoint([members]):
        raise validate.error("clusters", "hold a client once per cluster", members.tolist())
      if k not in whole:
        raise validate.error("clusters", "hold no part of another one", members.tolist())

  @classmethod
  def from_clusters(
      cls, clusters: Iterable[Any], warning: str | None = None
  ) -> ClusterAssignment:
    """Returns an assignment in a canonical order.

    Members are in ascending order; clusters follow the order of their first members, then of
    their second ones, and so on.
    """
    ordered = sorted((np.sort(members) for members in as_arrays(clusters)), key=np.ndarray.tolist)
    return cls(tuple(ordered), warning)

  @classmethod
  def from_labels(
      cls, clients: np.ndarray, labels: Any, warning: str | None = None
  ) -> ClusterAssignment:
    """Returns clusters of clients with equal labels, in the order of `from_clusters`.

    Args:
      clients: Of shape (n,).
      labels: Their labels, integers >= 0 of shape (n,).
    """
    labels = np.asarray(labels)
    if labels.shape != (len(clients),):
      raise validate.error("labels", f"have shape (num_clients={len(clients)},)", labels.shape)
    are_integers = labels.dtype.kind in "iu"
    if not are_integers or np.any(labels < 0):
      raise validate.error(
          "labels", "be integers >= 0 (who is in no cluster, as DBSCAN's label -1 says, needs one: "
          "the nearest, or one alone)", int(labels.min()) if are_integers else labels.dtype.name,
      )
    names, found = np.unique(labels, return_inverse=True)
    clusters = [np.asarray(clients)[places] for places in of_labels(found, len(names))]
    return cls.from_clusters(clusters, warning)

  @property
  def overlapping(self) -> bool:
    """Whether a client is in several clusters."""
    return not are_disjoint(self.clusters)

  def adjusted_rand_index(self, true_groups: np.ndarray) -> float | None:
    """Returns how well the true groups of all clients are found: 1 = exactly, about 0 = chance.

    Hubert, Arabie: "Comparing partitions", Journal of Classification, 1985.  It is not defined
    for overlapping clusters (`None`).
    """
    if self.overlapping:
      return None
    groups = [true_groups[members] for members in self.clusters]
    labels = np.repeat(np.arange(len(groups)), list(map(len, groups)))
    return agreement.adjusted_rand_index(np.concatenate(groups), labels)

  def purity(self, true_groups: np.ndarray) -> float | None:
    """Returns the share of clients that are of their cluster's most frequent true group.

    Manning, Raghavan, Schütze: "Introduction to Information Retrieval", 2008, section 16.3.  It
    is not defined for overlapping clusters (`None`).
    """
    if self.overlapping:
      return None
    groups = [true_groups[members] for members in self.clusters]
    num_right = sum(np.unique(group, return_counts=True)[1].max() for group in groups)
    return float(num_right) / sum(map(len, groups))
