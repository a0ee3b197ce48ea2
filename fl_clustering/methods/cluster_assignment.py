"""Clusters of clients, as what groups clients returns them."""

import collections
import dataclasses
import functools
from typing import Mapping, Optional

import numpy as np

from clustering_basics import validate

_SETS_AT_A_TIME = 512


def clusters_of(clusters):
  """Returns the indices, ascending, of the clusters that each client is in.

  Args:
    clusters: Tuples of client ids; they may overlap or be empty.

  Returns:
    A dict from client id to a tuple of ints.
  """
  indices = collections.defaultdict(list)
  for k, members in enumerate(clusters):
    for client_id in members:
      indices[client_id].append(k)
  return {client_id: tuple(of_client) for client_id, of_client in indices.items()}


def clients_alike(clusters, client_ids):
  """Yields the clients by the set of clusters that they are in, some sets at a time.

  The models of all sets at once are gigabytes for large models and thousands of clients.

  Args:
    clusters: Tuples of client ids; they may overlap or be empty.
    client_ids: Every client's id, the order that the sets and their clients follow.

  Yields:
    Dicts of at most 512 items from a tuple of indices of clusters to a tuple of client ids.
  """
  found = clusters_of(clusters)
  alike = {}
  for client_id in client_ids:
    alike.setdefault(found[client_id], []).append(client_id)
  items = [(indices, tuple(clients)) for indices, clients in alike.items()]
  for start in range(0, len(items), _SETS_AT_A_TIME):
    yield dict(items[start : start + _SETS_AT_A_TIME])


def mean_vectors(vectors, sets):
  """Returns the mean of each set of clusters' models.

  Args:
    vectors: Cluster models, of shape (num_clusters, P).
    sets: Tuples of indices of clusters.

  Returns:
    An array of the same type, of shape (len(sets), P).
  """
  means = np.empty((len(sets), vectors.shape[1]), vectors.dtype)
  for mean, indices in zip(means, sets):
    mean[:] = vectors[list(indices)].mean(axis=0, dtype=np.float64)
  return means


def check_covers(found, client_ids):
  """Checks that clusters hold all of these clients and nobody else.

  Args:
    found: The ids of the clusters' members, a set or a dict's keys.
    client_ids: Every client's id.

  Raises:
    ValueError: If a client is in no cluster, or a cluster holds an unknown one.
  """
  missing = [c for c in client_ids if c not in found]
  if missing:
    raise ValueError(f"`clusters` must hold every client, got none with {missing[0]!r}.")
  unknown = sorted(set(found).difference(client_ids))
  if unknown:
    raise validate.error("clusters", "hold only known clients", unknown[0])


@dataclasses.dataclass(frozen=True)
class ClusterAssignment:
  """Clusters of clients; a client may be in several.

  No cluster is empty or part of another one.

  Attributes:
    clusters: The clusters, each a tuple of client ids.
    warning: What a reader of the clusters should know about them, or `None`.
  """

  clusters: tuple[tuple[str, ...], ...]
  warning: Optional[str] = None

  def __post_init__(self):
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

  def _check_no_subsets(self):
    sets = list(map(frozenset, self.clusters))
    for k, members in enumerate(self.clusters):
      # Few other clusters hold the first member, so this is quick for many clusters.
      for other in self.clusters_of(members[0]):
        if other != k and sets[k] <= sets[other]:
          raise validate.error(
              "clusters", f"hold no part of the cluster {self.clusters[other]}", members
          )

  @classmethod
  def from_clusters(cls, client_ids, clusters, warning=None):
    """Returns an assignment in a canonical order.

    Args:
      client_ids: Every client's id. Members follow this order; clusters follow
        the order of their first members, then of their second ones, and so on.
      clusters: Collections of client ids, in any order.
      warning: What a reader of the clusters should know about them, or `None`.
    """
    rank = {client_id: i for i, client_id in enumerate(client_ids)}
    ordered = sorted(sorted(rank[member] for member in members) for members in clusters)
    return cls(tuple(tuple(client_ids[i] for i in ranks) for ranks in ordered), warning)

  @classmethod
  def from_labels(cls, client_ids, label_of: Mapping, warning=None):
    """Returns clusters of clients with equal labels, in canonical order.

    Args:
      client_ids: Every client's id, in the order that members and clusters follow.
      label_of: From every client's id to a label.
      warning: What a reader of the clusters should know about them, or `None`.
    """
    members = collections.defaultdict(list)
    for client_id in client_ids:
      members[label_of[client_id]].append(client_id)
    return cls.from_clusters(client_ids, members.values(), warning)

  @functools.cached_property
  def _clusters_of(self):
    return clusters_of(self.clusters)

  @property
  def overlapping(self):
    """Whether a client is in several clusters."""
    return any(len(indices) > 1 for indices in self._clusters_of.values())

  def clusters_of(self, client_id):
    """Returns the indices of the clusters that the client is in, ascending."""
    if client_id not in self._clusters_of:
      raise validate.error("client_id", "be in a cluster", client_id)
    return self._clusters_of[client_id]

  def check_covers(self, client_ids):
    """Checks that the clusters hold all of these clients and nobody else.

    Args:
      client_ids: Every client's id.

    Raises:
      ValueError: If a client is in no cluster, or a cluster holds an unknown one.
    """
    check_covers(self._clusters_of, client_ids)
