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

from clustering_basics import randomness
from fl_clustering.engine import divergence
from fl_clustering.engine import heads as heads_lib
from fl_clustering.engine import model_jobs

if TYPE_CHECKING:
  from fl_clustering.engine import client_files
  from fl_clustering.engine import client_update
  from fl_clustering.engine import participation
  from fl_clustering.tasks import federated_task

Clusters = Sequence[tuple[str, ...]]
Losses = dict[str, float]
# Of a head: the weighted sum of the members' parameters, their number of examples, their losses.
_HeadResult = tuple[np.ndarray, float, Losses]


def _new_models(
    vectors: np.ndarray,
    heads: Sequence[heads_lib.Head],
    head_results: Iterable[_HeadResult],
    number: int,
) -> tuple[np.ndarray, list[Losses]]:
  """Returns the clusters' models after the round of this number, and per cluster the losses."""
  missing = collections.Counter(head.cluster for head in heads)
  # In float64 only until a cluster's last head is there: all of them would be gigabytes.
  sums: dict[int, np.ndarray] = {}
  totals = np.zeros(len(vectors))
  losses: list[Losses] = [{} for _ in vectors]
  vectors = vectors.copy()
  for head, (weighted_sum, total, head_losses) in zip(heads, head_results):
    cluster = head.cluster
    sums[cluster] = sums.get(cluster, 0) + np.asarray(weighted_sum, np.float64)
    totals[cluster] += total
    losses[cluster].update(head_losses)
    missing[cluster] -= 1
    if not missing[cluster]:
      of_cluster = sums.pop(cluster)
      if totals[cluster]:
        vectors[cluster] = of_cluster / totals[cluster]
  where = [f"round {number}"]
  if len(vectors) > 1:
    where = [f"round {number}, cluster {cluster}" for cluster in range(len(vectors))]
  for place, cluster_losses in zip(where, losses):
    divergence.check_losses(cluster_losses, place)
  for cluster in np.flatnonzero(totals):
    divergence.check_vector(vectors[cluster], where[cluster])
  return vectors, losses


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
    self._files = files.train
    self._local_training = local_training
    self._seed = seed

  def train(
      self, vectors: np.ndarray, clusters: Clusters, round_: participation.Round
  ) -> tuple[np.ndarray, list[Losses]]:
    """Does what `Engine.train` does; a cluster without members that take part keeps its model."""
    heads = heads_lib.plan_heads(clusters, self._files)
    jobs, members_of_job = self._jobs(heads, round_)
    results = model_jobs.results(
        heads_lib.build_sums(self._model, self._local_training), vectors, jobs,
        [vectors.shape[1]] * len(jobs),
    )
    head_results = (
        (weighted_sum, total, dict(zip(members, map(float, losses))))
        for (weighted_sum, total, losses), members in zip(results, members_of_job)
    )
    return _new_models(vectors, heads, head_results, round_.number)

  def train_members(
      self, vectors: np.ndarray, clusters: Clusters, round_: participation.Round
  ) -> tuple[np.ndarray, list[dict[str, np.ndarray]], list[Losses]]:
    """Does what `Engine.train_members` does."""
    heads = heads_lib.plan_heads(clusters, self._files)
    trained = {
        (cluster, member): (vector, loss)
        for cluster, member, vector, loss in self._own_models(heads, vectors, round_)
    }
    own: list[dict[str, np.ndarray]] = [{} for _ in clusters]

    def head_results() -> Iterator[_HeadResult]:
      for head in heads:
        weighted_sum, total, losses = np.zeros(vectors.shape[1], np.float32), 0, {}
        for member in head.members:
          if (head.cluster, member) in trained:
            own[head.cluster][member], losses[member] = trained[head.cluster, member]
            num_examples = self._files[member].num_examples
            weighted_sum += np.float32(num_examples) * own[head.cluster][member]
            total += num_examples
        yield weighted_sum, total, losses

    new_vectors, losses = _new_models(vectors, heads, head_results(), round_.number)
    return new_vectors, own, losses

  def train_each(
      self, vectors: np.ndarray, client_ids: Sequence[str], round_: participation.Round
  ) -> tuple[np.ndarray, Losses]:
    """Does what `Engine.train_each` does."""
    if vectors.strides[0] == 0:
      clusters = [tuple(client_ids)]
    else:
      clusters = [(client_id,) for client_id in client_ids]
    heads = heads_lib.plan_heads(clusters, self._files)
    everyone = dataclasses.replace(round_, client_ids=tuple(client_ids))
    row = {client_id: i for i, client_id in enumerate(client_ids)}
    own, losses = np.empty(vectors.shape, np.float32), {}
    for _, client_id, vector, loss in self._own_models(heads, vectors, everyone):
      own[row[client_id]], losses[client_id] = vector, loss
    divergence.check_losses(losses, f"round {round_.number}")
    for client_id, vector in zip(client_ids, own):
      divergence.check_vector(vector, f"round {round_.number}, client {client_id!r}")
    return own, losses

  def _jobs(
      self, heads: Sequence[heads_lib.Head], round_: participation.Round
  ) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """Returns what the heads are sent, and per head its members that take part.

    A head without any has a job all the same: TFF prepares itself anew for every number of
    clients that it has not seen lately.
    """
    taking_part = set(round_.client_ids)
    jobs, members_of_job = [], []
    for head in heads:
      members = [m for m in head.members if m in taking_part]
      members_of_job.append(members)
      seeds = [
          randomness.stateless_seed(self._seed, "local_training", round_.number, m)
          for m in members
      ]
      jobs.append({
          "model": head.cluster,
          "paths": np.array([self._files[m].path for m in members], np.bytes_),
          "seeds": np.array(seeds, np.int32).reshape(-1, 2),
          "num_epochs": round_.num_epochs,
      })
    return jobs, members_of_job

  def _own_models(
      self, heads: Sequence[heads_lib.Head], vectors: np.ndarray, round_: participation.Round
  ) -> Iterator[tuple[int, str, np.ndarray, float]]:
    """Yields (cluster, client id, trained parameters, loss) of all members that take part."""
    parts = heads_lib.cut(heads, vectors.shape[1])
    jobs, members_of_job = self._jobs(parts, round_)
    results = model_jobs.results(
        heads_lib.build_own_models(self._model, self._local_training), vectors, jobs,
        [vectors.shape[1] * len(part.members) for part in parts],
    )
    for part, members, (own, losses) in zip(parts, members_of_job, results):
      for member, vector, loss in zip(members, own, losses):
        yield part.cluster, member, vector, float(loss)
