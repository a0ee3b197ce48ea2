"""FedAvg in many clusters at once, which may overlap.

The heads of `heads.py` train the members and return weighted sums, which the server adds up.

Where the members' own models are asked for, heads return these.  The server takes the sums in the
same order, so that the clusters' models are the same to the last bit.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, Iterable, Iterator, Sequence, TYPE_CHECKING

import numpy as np

from fl_clustering.engine import divergence
from fl_clustering.engine import participation
from fl_clustering.engine.tff import heads as heads_lib
from fl_clustering.engine.tff import model_jobs

if TYPE_CHECKING:
  from fl_clustering.engine.tff import client_files
  from fl_clustering.engine.tff import client_update
  from fl_clustering.tasks import federated_task

# Of a head: the weighted sum of the members' parameters, their number of examples, their losses.
_HeadResult = tuple[np.ndarray, float, participation.ClientLosses]


class ClusterTraining:
  """FedAvg in every cluster on its own; a client may be in several clusters."""

  def __init__(
      self,
      task: federated_task.FederatedTask,
      files: client_files.ClientFiles,
      local_training: client_update.LocalTraining,
      seed: int,
  ):
    """Takes the run's seed, from which each local training gets its random numbers."""
    self._model = task.model
    self._files = files
    self._local_training = local_training
    self._seed = seed

  def train(
      self, vectors: np.ndarray, clusters: participation.Clusters, round_: participation.Round
  ) -> tuple[np.ndarray, list[participation.ClientLosses]]:
    """Does what `Engine.train` does; a cluster without members that take part keeps its model."""
    heads = heads_lib.plan_heads(clusters, self._files.num_examples)
    jobs, members_of_job = self._jobs(heads, round_)
    results = model_jobs.results(
        heads_lib.build_sums(self._model, self._local_training), vectors, jobs,
        [vectors.shape[1]] * len(jobs),
    )
    head_results = (
        (weighted_sum, total, participation.ClientLosses(members, losses))
        for (weighted_sum, total, losses), members in zip(results, members_of_job)
    )
    return self._new_models(vectors, heads, head_results, round_.number)

  def train_members(
      self, vectors: np.ndarray, clusters: participation.Clusters, round_: participation.Round
  ) -> tuple[np.ndarray, list[np.ndarray], list[participation.ClientLosses]]:
    """Does what `Engine.train_members` does."""
    heads = heads_lib.plan_heads(clusters, self._files.num_examples)
    _, members_of_head = self._jobs(heads, round_)
    sizes = np.zeros(len(vectors), int)
    for head, members in zip(heads, members_of_head):
      sizes[head.cluster] += len(members)
    own = [np.empty((size, vectors.shape[1]), np.float32) for size in sizes]
    values = [np.empty(size) for size in sizes]
    # The members of a cluster come head after head.
    ends = np.zeros(len(vectors), int)
    for cluster, members, trained, of_members in self._own_models(heads, vectors, round_):
      rows = slice(ends[cluster], ends[cluster] + len(members))
      own[cluster][rows], values[cluster][rows] = trained, of_members
      ends[cluster] = rows.stop

    def head_results() -> Iterator[_HeadResult]:
      ends[:] = 0
      for head, members in zip(heads, members_of_head):
        rows = slice(ends[head.cluster], ends[head.cluster] + len(members))
        ends[head.cluster] = rows.stop
        weighted_sum, num_examples = np.zeros(vectors.shape[1], np.float32), 0
        for vector, number in zip(own[head.cluster][rows], self._files.num_examples[members]):
          weighted_sum += np.float32(number) * vector
          num_examples += number
        of_head = participation.ClientLosses(members, values[head.cluster][rows])
        yield weighted_sum, num_examples, of_head

    new_vectors, losses = self._new_models(vectors, heads, head_results(), round_.number)
    return new_vectors, own, losses

  def train_each(
      self, vectors: np.ndarray, clients: np.ndarray, round_: participation.Round
  ) -> tuple[np.ndarray, participation.ClientLosses]:
    """Does what `Engine.train_each` does."""
    is_one_model = vectors.strides[0] == 0
    clusters = clients[None] if is_one_model else clients[:, None]
    heads = heads_lib.plan_heads(clusters, self._files.num_examples)
    everyone = dataclasses.replace(round_, clients=clients)
    row = np.empty(len(self._files.train), int)
    row[clients] = np.arange(len(clients))
    own, values = np.empty(vectors.shape, np.float32), np.empty(len(clients))
    for _, members, trained, of_members in self._own_models(heads, vectors, everyone):
      own[row[members]], values[row[members]] = trained, of_members
    losses = participation.ClientLosses(clients, values)
    divergence.check_losses(losses, f"round {round_.number}", self._files.client_ids)
    for client, vector in zip(clients, own):
      client_id = self._files.client_ids[client]
      divergence.check_vector(vector, f"round {round_.number}, client {client_id!r}")
    return own, losses

  def _new_models(
      self, vectors: np.ndarray, heads: Sequence[heads_lib.Head],
      head_results: Iterable[_HeadResult], number: int,
  ) -> tuple[np.ndarray, list[participation.ClientLosses]]:
    """Returns the clusters' models after the round of this number, and per cluster the losses."""
    missing = collections.Counter(head.cluster for head in heads)
    # In float64 only until a cluster's last head is there: all of them would be gigabytes.
    sums: dict[int, np.ndarray] = {}
    totals = np.zeros(len(vectors))
    losses_of: list[list[participation.ClientLosses]] = [[] for _ in vectors]
    vectors = vectors.copy()
    for head, (weighted_sum, total, head_losses) in zip(heads, head_results):
      cluster = head.cluster
      sums[cluster] = sums.get(cluster, 0) + np.asarray(weighted_sum, np.float64)
      totals[cluster] += total
      losses_of[cluster].append(head_losses)
      missing[cluster] -= 1
      if not missing[cluster]:
        of_cluster = sums.pop(cluster)
        if totals[cluster]:
          vectors[cluster] = of_cluster / totals[cluster]
    losses = list(map(participation.joined, losses_of))
    where = [f"round {number}"]
    if len(vectors) > 1:
      where = [f"round {number}, cluster {cluster}" for cluster in range(len(vectors))]
    for place, cluster_losses in zip(where, losses):
      divergence.check_losses(cluster_losses, place, self._files.client_ids)
    for cluster in np.flatnonzero(totals):
      divergence.check_vector(vectors[cluster], where[cluster])
    return vectors, losses

  def _jobs(
      self, heads: Sequence[heads_lib.Head], round_: participation.Round
  ) -> tuple[list[dict[str, Any]], list[np.ndarray]]:
    """Returns what the heads are sent, and per head its members that take part.

    A head without any has a job all the same: TFF prepares itself anew for every number of
    clients that it has not seen lately.
    """
    takes_part = np.zeros(len(self._files.train), bool)
    takes_part[round_.clients] = True
    members_of_job = [head.members[takes_part[head.members]] for head in heads]
    jobs = [
        {
            "model": head.cluster,
            "paths": self._files.train_paths(members),
            "seeds": self._files.seeds(self._seed, round_.number, members),
            "num_epochs": round_.num_epochs,
        }
        for head, members in zip(heads, members_of_job)
    ]
    return jobs, members_of_job

  def _own_models(
      self, heads: Sequence[heads_lib.Head], vectors: np.ndarray, round_: participation.Round
  ) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Yields (cluster, members that take part, their trained parameters and losses), in parts."""
    parts = heads_lib.cut(heads, vectors.shape[1])
    jobs, members_of_job = self._jobs(parts, round_)
    results = model_jobs.results(
        heads_lib.build_own_models(self._model, self._local_training), vectors, jobs,
        [vectors.shape[1] * len(part.members) for part in parts],
    )
    for part, members, (own, losses) in zip(parts, members_of_job, results):
      yield part.cluster, members, own, losses
