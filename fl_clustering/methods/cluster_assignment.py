"""Clusters of clients, as what groups clients returns them."""

from __future__ import annotations

import collections
import dataclasses
import functools
import numbers
from typing import Any, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from clustering_basics import agreement
from clustering_basics import validate

SETS_AT_A_TIME = 512


def clusters_of(clusters: Iterable[Sequence[str]]) -> dict[str, tuple[int, ...]]:
  """Returns the indices, ascending, of the clusters that each client is in, by client id.

  The clusters may overlap or be empty.
  """
  indices = collections.defaultdict(list)
  for k, members in enumerate(clusters):
    for client_id in members:
      indices[client_id].append(k)
  return {client_id: tuple(of_client) for client_id, of_client in indices.items()}


def clients_alike(
    clusters: Iterable[Sequence[str]], client_ids: Sequence[str]
) -> Iterator[dict[tuple[int, ...], tuple[str, ...]]]:
  """Yields the clients by the set of clusters that they are in, some sets at a time.

  The models of all sets at once are gigabytes for large models and thousands of clients.

  Args:
    clusters: Client ids; the clusters may overlap or be empty.
    client_ids: Every client's id, the order that the sets and their clients follow.

  Yields:
    Dicts of at most 512 items from indices of clusters to client ids.
  """
  found = clusters_of(clusters)
  alike: dict[tuple[int, ...], list[str]] = {}
  for client_id in client_ids:
    alike.setdefault(found[client_id], []).append(client_id)
  items = [(indices, tuple(clients)) for indices, clients in alike.items()]
  for start in range(0, len(items), SETS_AT_A_TIME):
    yield dict(items[start : start + SETS_AT_A_TIME])


def mean_vectors(vectors: Any, sets: Sequence[tuple[int, ...]]) -> np.ndarray:
  """Returns the mean of each set of clusters' models.

  Args:
    vectors: Cluster models, an array of shape (num_clusters, P) or what acts like one.
    sets: Indices of clusters.

  Returns:
    An array of the same type, of shape (len(sets), P).
  """
  means = np.empty((len(sets), vectors.shape[1]), vectors.dtype)
  for mean, indices in zip(means, sets):
    mean[:] = vectors[list(indices)].mean(axis=0, dtype=np.float64)
  return means


def check_covers(found: Collection[str], client_ids: Sequence[str]) -> None:
  """Checks that clusters hold all of these clients and nobody else.

  Args:
    found: The ids of the clusters' members, a set or a dict's keys.

  Raises:
    ValueError: If a client is in no cluster, or a cluster holds an unknown one.
  """
  missing = [c for c in client_ids if c not in found]
  if missing:
    raise ValueError(f"`clusters` must hold every client, got none with {missing[0]!r}.")
  unknown = sorted(set(found).difference(client_ids))
  if unknown:
    raise validate.error("clusters", "hold only known clients", unknown[0])


def _names_a_cluster(label: Any) -> bool:
  """Returns whether a label is neither missing nor a number that numbers no cluster."""
  if isinstance(label, numbers.Real):
    return not label < 0 and label % 1 == 0
  return label is not None


@dataclasses.dataclass(frozen=True)
class ClusterAssignment:
  """Clusters of clients, by their ids; a client may be in several.

  No cluster is empty or part of another one.  A `warning` says what a reader of the clusters
  should know about them.
  """

  clusters: tuple[tuple[str, ...], ...]
  warning: str | None = None

  def __post_init__(self) -> None:
    for members in self.clusters:
      if isinstance(members, str):
        raise TypeError(f"`clusters` must be tuples of client ids, got {members!r}.")
    object.__setattr__(self, "clusters", tuple(map(tuple, self.clusters)))
    if not self.clusters:
      raise validate.error("clusters", "hold at least one cluster", self.clusters)
    for members in self.clusters:
      if not members:
        raise validate.error("clusters", "hold no empty cluster", self.clusters)
      if len(set(members)) != len(members):
        raise validate.error("clusters", "name a client once per cluster", members)
    self._check_no_subsets()

  def _check_no_subsets(self) -> None:
    sets = list(map(frozenset, self.clusters))
    for k, members in enumerate(self.clusters):
      # Few other clusters hold the first member, so this is quick for many clusters.
      for other in self.clusters_of(members[0]):
        if other != k and sets[k] <= sets[other]:
          raise validate.error(
              "clusters", f"hold no part of the cluster {self.clusters[other]}", members
          )

  @classmethod
  def from_clusters(
      cls, client_ids: Sequence[str], clusters: Iterable[Iterable[str]], warning: str | None = None
  ) -> ClusterAssignment:
    """Returns an assignment in a canonical order.

    Args:
      client_ids: Every client's id. Members follow this order; clusters follow
        the order of their first members, then of their second ones, and so on.
      clusters: Client ids, in any order.

    Raises:
      ValueError: If a client is in no cluster, or a cluster holds an unknown one.
    """
    clusters = [tuple(members) for members in clusters]
    check_covers({client_id for members in clusters for client_id in members}, client_ids)
    rank = {client_id: i for i, client_id in enumerate(client_ids)}
    ordered = sorted(sorted(rank[member] for member in members) for members in clusters)
    return cls(tuple(tuple(client_ids[i] for i in ranks) for ranks in ordered), warning)

  @classmethod
  def from_labels(
      cls, client_ids: Sequence[str], label_of: Mapping[str, Any], warning: str | None = None
  ) -> ClusterAssignment:
    """Returns clusters of clients with equal labels, in the order of `from_clusters`.

    Args:
      client_ids: Every client's id.
      label_of: Its label: a whole number >= 0, or text or any other key.

    Raises:
      ValueError: If a client has no such label, or there are labels of others.
    """
    others = sorted(set(label_of).symmetric_difference(client_ids), key=str)
    if others:
      raise validate.error("label_of", "have a label per client and no others", others[0])
    members = collections.defaultdict(list)
    for client_id in client_ids:
      label = label_of[client_id]
      if not _names_a_cluster(label):
        raise validate.error(
            "label_of", "hold whole numbers >= 0 or other keys (who is in no cluster, as DBSCAN's "
            f"label -1 says, needs one: the nearest, or one alone) for {client_id!r}", label,
        )
      members[label].append(client_id)
    return cls.from_clusters(client_ids, members.values(), warning)

  @functools.cached_property
  def _clusters_of(self) -> dict[str, tuple[int, ...]]:
    return clusters_of(self.clusters)

  @property
  def overlapping(self) -> bool:
    """Whether a client is in several clusters."""
    return any(len(indices) > 1 for indices in self._clusters_of.values())

  def clusters_of(self, client_id: str) -> tuple[int, ...]:
    """Returns the indices of the clusters that the client is in, ascending."""
    if client_id not in self._clusters_of:
      raise validate.error("client_id", "be in a cluster", client_id)
    return self._clusters_of[client_id]

  def check_covers(self, client_ids: Sequence[str]) -> None:
    """Checks that the clusters hold all of these clients and nobody else.

    Raises:
      ValueError: If a client is in no cluster, or a cluster holds an unknown one.
    """
    check_covers(self._clusters_of, client_ids)

  def _true_groups_of(self, true_groups: Mapping[str, Any]) -> list[list[Any]]:
    """Returns the true groups of every cluster's members."""
    for members in self.clusters:
      for client_id in members:
        if client_id not in true_groups:
          raise validate.error("true_groups", "hold every client", client_id)
    return [[true_groups[c] for c in members] for members in self.clusters]

  def adjusted_rand_index(self, true_groups: Mapping[str, Any]) -> float | None:
    """Returns how well the clients' true groups are found: 1 = exactly, about 0 = chance.

    Hubert, Arabie: "Comparing partitions", Journal of Classification, 1985.  It is not defined
    for overlapping clusters (`None`).
    """
    if self.overlapping:
      return None
    groups = self._true_groups_of(true_groups)
    labels = [k for k, members in enumerate(groups) for _ in members]
    return agreement.adjusted_rand_index(np.concatenate(groups), np.array(labels))

  def purity(self, true_groups: Mapping[str, Any]) -> float | None:
    """Returns the share of clients that are of their cluster's most frequent true group.

    Manning, Raghavan, Schütze: "Introduction to Information Retrieval", 2008, section 16.3.  It
    is not defined for overlapping clusters (`None`).
    """
    if self.overlapping:
      return None
    groups = self._true_groups_of(true_groups)
    num_clients = sum(map(len, groups))
    return sum(max(collections.Counter(g).values()) for g in groups) / num_clients
