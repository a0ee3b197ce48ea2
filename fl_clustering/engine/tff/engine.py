"""The engine in TensorFlow Federated: jobs for computations, of which each kind has a file.

Clusters may overlap.  The heads of `heads.py` train their members and return weighted sums, which
the server adds up.  Where the members' own models are asked for, heads return these.  The server
takes the sums in the same order, so that the clusters' models are the same to the last bit.
"""

from __future__ import annotations

import collections
from typing import Any, Callable, Iterable, Iterator, Sequence, TYPE_CHECKING

import numpy as np

from fl_clustering.engine import engine
from fl_clustering.engine import engines
from fl_clustering.engine import participation
from fl_clustering.engine import personalization
from fl_clustering.engine.tff import client_files
from fl_clustering.engine.tff import client_sketches
from fl_clustering.engine.tff import evaluation
from fl_clustering.engine.tff import heads as heads_lib
from fl_clustering.engine.tff import model_jobs
from fl_clustering.engine.tff import personal_training

if TYPE_CHECKING:
  from fl_clustering.tasks import federated_task

# Of a head: the weighted sum of the members' parameters, their number of examples, their losses.
_HeadResult = tuple[np.ndarray, float, participation.ClientLosses]


class Engine(engine.Engine):
  """Trains and evaluates models on the clients of one task.

  Attributes:
    files: Where each client's data are.
  """

  def __init__(
      self,
      task: federated_task.FederatedTask,
      data_dir: str,
      batch_size: int,
      learning_rate: float,
      seed: int,
      schedule: participation.Schedule | None = None,
  ):
    """Writes the clients' files.

    Args:
      data_dir: An existing folder for the clients' files.  It must stay as long as
        the engine is used.
      learning_rate: Of plain stochastic gradient descent.
      task, batch_size, seed, schedule: As of `engine.Engine`.

    Raises:
      ValueError: For a model that only JAX can compute.
    """
    engines.check_model(engines.TFF, task.model)
    self.files = client_files.write_client_files(task, data_dir)
    super().__init__(task, batch_size, seed, schedule)
    self._how = task.model, batch_size, learning_rate

  def _train(
      self, vectors: np.ndarray, members: participation.Clusters, round_: participation.Round,
      keeps_own: bool,
  ) -> tuple[np.ndarray, list[np.ndarray], list[participation.ClientLosses]]:
    heads = heads_lib.plan_heads(members, self.num_examples)
    members_of_head = self._taking_part(heads, round_)
    own: list[np.ndarray] = []
    if keeps_own:
      own, results = self._own_and_sums(vectors, heads, members_of_head, round_)
    else:
      jobs = [
          {"model": head.cluster, **self._of_members(trainers, round_)}
          for head, trainers in zip(heads, members_of_head)
      ]
      results = model_jobs.results(
          heads_lib.build_sums(*self._how), vectors, jobs, [vectors.shape[1]] * len(jobs)
      )
    head_results = (
        (weighted_sum, total, participation.ClientLosses(trainers, losses))
        for (weighted_sum, total, losses), trainers in zip(results, members_of_head)
    )
    new_vectors, losses = self._new_models(vectors, heads, head_results)
    return new_vectors, own, losses

  def _own_and_sums(
      self, vectors: np.ndarray, heads: Sequence[heads_lib.Head],
      members_of_head: Sequence[np.ndarray], round_: participation.Round,
  ) -> tuple[list[np.ndarray], Iterator[Any]]:
    """Returns per cluster the own models of the members, and what `heads_lib.build_sums` would."""
    ends = np.zeros(len(vectors), int)
    # The members of a cluster come head after head.
    rows_of_head = []
    for head, trainers in zip(heads, members_of_head):
      rows_of_head.append(slice(ends[head.cluster], ends[head.cluster] + len(trainers)))
      ends[head.cluster] += len(trainers)
    own = [np.empty((size, vectors.shape[1]), np.float32) for size in ends]
    values = [np.empty(size) for size in ends]
    ends[:] = 0

    def start_of(head: heads_lib.Head, trainers: np.ndarray) -> dict[str, np.ndarray]:
      models = np.full(len(trainers) + 1, head.cluster)
      return {"model": models, "shares": np.ones(len(trainers), np.float32)}

    for cluster, trainers, trained, _, of_members in self._own_models(
        heads, vectors, start_of, round_
    ):
      rows = slice(ends[cluster], ends[cluster] + len(trainers))
      own[cluster][rows], values[cluster][rows] = trained, of_members
      ends[cluster] = rows.stop

    def sums() -> Iterator[Any]:
      for head, trainers, rows in zip(heads, members_of_head, rows_of_head):
        numbers = self.num_examples[trainers]
        weighted_sum = np.zeros(vectors.shape[1], np.float32)
        for vector, number in zip(own[head.cluster][rows], numbers):
          weighted_sum += np.float32(number) * vector
        yield weighted_sum, numbers.sum(), values[head.cluster][rows]

    return own, sums()

  def _new_models(
      self, vectors: np.ndarray, heads: Sequence[heads_lib.Head],
      head_results: Iterable[_HeadResult],
  ) -> tuple[np.ndarray, list[participation.ClientLosses]]:
    """Returns the clusters' models after the round, and per cluster the losses."""
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
    return vectors, list(map(participation.joined, losses_of))

  def _taking_part(
      self, heads: Sequence[heads_lib.Head], round_: participation.Round
  ) -> list[np.ndarray]:
    """Returns per head its members that take part.

    A head without any has a job all the same: TFF prepares itself anew for every number of
    clients that it has not seen lately.
    """
    takes_part = np.zeros(len(self.num_examples), bool)
    takes_part[round_.clients] = True
    return [head.members[takes_part[head.members]] for head in heads]

  def _of_members(
      self, members: np.ndarray, round_: participation.Round, more_epochs: int = 0
  ) -> dict[str, Any]:
    """Returns `heads_lib.MEMBER_FIELDS` of clients in a round."""
    return {
        "paths": self.files.train_paths(members),
        "seeds": self.files.seeds(self.seed, round_.number, members),
        "num_epochs": more_epochs + round_.num_epochs,
    }

  def _row_of(self, clients: np.ndarray) -> np.ndarray:
    """Returns the place in `clients` of each client of the task that is there."""
    row = np.empty(len(self.num_examples), int)
    row[clients] = np.arange(len(clients))
    return row

  def _own_models(
      self, heads: Sequence[heads_lib.Head], models: Any,
      start_of: Callable[[heads_lib.Head, np.ndarray], dict[str, np.ndarray]],
      round_: participation.Round,
      how: personalization.Personalization = personalization.Personalization(),
  ) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Yields what members of heads train on their own, in parts.

    Args:
      models: As of `model_jobs.results`.
      start_of: From a part of a head and its members that take part to the fields `model` and
        `shares` of its job.

    Yields:
      The cluster, the members that take part, and their parameters, shares and losses.
    """
    size = self.model.num_parameters + 2
    parts = heads_lib.cut(heads, size)
    members_of_part = self._taking_part(parts, round_)
    jobs = [
        {**start_of(part, members), **self._of_members(members, round_, how.head_epochs or 0)}
        for part, members in zip(parts, members_of_part)
    ]
    results = model_jobs.results(
        personal_training.build_own_models(*self._how, how), models, jobs,
        [size * len(members) for members in members_of_part],
    )
    for part, members, found in zip(parts, members_of_part, results):
      yield part.cluster, members, *found

  def _train_own(
      self,
      vectors: np.ndarray,
      shares: np.ndarray,
      clients: np.ndarray,
      round_: participation.Round,
      common: np.ndarray,
      how: personalization.Personalization,
  ) -> np.ndarray:
    row = self._row_of(clients)

    def start_of(unused_head: heads_lib.Head, members: np.ndarray) -> dict[str, np.ndarray]:
      return {"model": np.append(row[members], len(clients)), "shares": shares[row[members]]}

    losses = np.zeros(len(clients))
    for _, members, own, of_members, of_losses in self._own_models(
        heads_lib.plan_heads((clients,), self.num_examples),
        personal_training.WithCommon(vectors, common), start_of, round_, how,
    ):
      # These models are in no other message.
      vectors[row[members]], shares[row[members]] = own, of_members
      losses[row[members]] = of_losses
    return losses

  def _confusions(
      self, vectors: Any, members: participation.Clusters, part: str
  ) -> list[np.ndarray]:
    files: Any = {"test": self.files.test, "validation": self.files.validation}[part]
    of_models = [[files[client] for client in clients] for clients in members]
    return evaluation.confusions(self.model, vectors, of_models)

  def _global_confusions(self, vectors: Any) -> np.ndarray:
    of_models = [self.files.global_test] * len(vectors)
    return np.stack(evaluation.confusions(self.model, vectors, of_models))

  def _losses(self, vectors: np.ndarray, clients: np.ndarray) -> np.ndarray:
    row, heads = self._row_of(clients), heads_lib.plan_heads((clients,), self.num_examples)
    jobs = [{"paths": self.files.train_paths(head.members)} for head in heads]
    found = np.empty((len(vectors), len(clients)), np.float32)
    if not jobs:
      return found
    for batch in model_jobs.batches([vectors.shape[1]] * len(vectors)):
      results = model_jobs.in_order(evaluation.build_losses(self.model), vectors[batch], jobs)
      for head, (of_head,) in zip(heads, results):
        found[batch, row[head.members]] = of_head
    return found

  def _outputs(self, vector: np.ndarray, clients: np.ndarray) -> Iterable[np.ndarray]:
    return model_jobs.on_files(
        evaluation.build_logits(self.model), vector, self.files.train_paths(clients),
        self.model.num_classes * self.num_examples[clients],
    )

  def _sketches(self, clients: np.ndarray, size: int) -> np.ndarray:
    found = model_jobs.on_files(
        client_sketches.build_sketches(self.model, size), np.int32(0),
        self.files.train_paths(clients), np.full(len(clients), size),
    )
    return np.array(list(found), np.float32).reshape(-1, size)
