"""The engine on an accelerator: thousands of clients train side by side.

Where no random numbers are drawn, its results are those of the engine in `tff/` up to rounding.
Elsewhere they are as random, and the same again on the same device, whatever JAX's settings are,
unless the user changes how XLA compiles, as by `XLA_FLAGS`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterator, Sequence, TYPE_CHECKING

import jax
import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.engine import engine
from fl_clustering.engine import participation
from fl_clustering.engine.jax import blocks as blocks_lib
from fl_clustering.engine.jax import client_pool
from fl_clustering.engine.jax import client_training
from fl_clustering.engine.jax import evaluation
from fl_clustering.engine.jax import own_settings
from fl_clustering.engine.jax import personal_training
from fl_clustering.engine.jax import sketches as sketches_lib
from fl_clustering.tasks import pooled_examples

if TYPE_CHECKING:
  from fl_clustering.engine import personalization
  from fl_clustering.tasks import federated_task

_TRAIN, _TEST, _VALIDATION, _GLOBAL = "train", "test", "validation", "global test"


class Engine(engine.Engine):
  """Trains and evaluates models on the clients of one task."""

  @own_settings.own()
  def __init__(
      self,
      task: federated_task.FederatedTask,
      batch_size: int,
      learning_rate: float,
      seed: int,
      schedule: participation.Schedule | None = None,
      devices: Sequence[Any] | None = None,
      clients_per_block: int | None = None,
  ):
    """Sends the clients' examples to the devices.

    Args:
      task: The clients and their model.
      batch_size: The examples of a step of training; a pass's last one may have fewer.
      learning_rate: Of plain stochastic gradient descent.
      seed: The run's seed, from which each local training gets its random numbers.
      schedule: The run's rounds.
      devices: As of `blocks.plan`, and so is `clients_per_block`.

    Raises:
      ValueError: For a model that only TensorFlow can compute.
    """
    if not task.model.layers and task.model.jax_logits is None:
      raise validate.error("engine", f"be tff for the model {task.model.name!r}", "jax")
    super().__init__(task, batch_size, seed, schedule)
    self._blocks = blocks_lib.plan(task.model, batch_size, devices, clients_per_block)
    pooled = {part: task.pooled(part) for part in (_TRAIN, _TEST, _VALIDATION)}
    if not len(pooled[_VALIDATION].rows):
      del pooled[_VALIDATION]
    pooled[_GLOBAL] = pooled_examples.PooledExamples.of_examples([task.global_test])
    self._parts = dict(zip(pooled, client_pool.sent(pooled.values(), self._blocks.shared)))
    self._how = client_training.How(
        task.model, batch_size, learning_rate, int(self.num_examples.max()), self._blocks
    )

  def _passes(self, round_: participation.Round, head_epochs: int = 0) -> client_training.Passes:
    """Returns what clients do in a round, without the steps of any block."""
    seed = randomness.stateless_seed(self.seed, "local_training", round_.number)
    key = jax.device_put(seed.view(np.uint32), self._blocks.shared)
    return client_training.Passes(key, np.int32(head_epochs + round_.num_epochs), None)

  def _of_blocks(
      self, work: Callable[[np.ndarray, list[np.ndarray], np.int32], Any], clients: np.ndarray,
      models: np.ndarray,
  ) -> Iterator[tuple[np.ndarray, Any]]:
    """Yields what work returns of blocks of clients, the largest clients first.

    Args:
      work: It takes positions in `clients`, what `client_training.Members` holds of the clients
        there, and the steps that the largest takes in a pass; on a CPU, in threads.
      models: The model of each client.

    Yields:
      The positions, and what work returns.
    """
    def with_places(places: np.ndarray, *block: Any) -> tuple[np.ndarray, Any]:
      return places, work(places, *block)

    return self._blocks.results(with_places, self._cut(clients, models))

  def _cut(
      self, clients: np.ndarray, models: np.ndarray
  ) -> Iterator[tuple[np.ndarray, list[np.ndarray], np.int32]]:
    """Yields what the work of `_of_blocks` takes."""
    order = np.argsort(-self.num_examples[clients], kind="stable")
    ordered = clients[order]
    size = min(self._how.batch_size, self._how.most_examples)
    starts, counts = self._parts[_TRAIN].examples.starts[ordered], self.num_examples[ordered]
    for place, block in self._blocks.cut(ordered, starts, counts, models[order]):
      steps = np.int32(-(-int(block[2].max()) // size))
      # Who only fills the block up reads the first row, and has no examples.
      block[1:3] = (np.maximum(part, 0) for part in block[1:3])
      yield order[place], block, steps

  def _members(self, block: Sequence[np.ndarray]) -> client_training.Members:
    return client_training.Members(*self._blocks.put(*block))

  @own_settings.own()
  def _train(
      self, vectors: np.ndarray, members: participation.Clusters, round_: participation.Round,
      keeps_own: bool,
  ) -> tuple[np.ndarray, list[np.ndarray], list[participation.ClientLosses]]:
    taking_part = [round_.among(of_model) for of_model in members]
    ends = np.cumsum(list(map(len, taking_part)))
    clients = np.concatenate(taking_part)
    models = np.repeat(np.arange(len(vectors)), np.diff(ends, prepend=0))
    sent, sums = jax.device_put((vectors, np.zeros_like(vectors)), self._blocks.shared)
    passes, found = self._passes(round_), []

    def work(unused_places: np.ndarray, block: list[np.ndarray], steps: np.int32) -> Any:
      return client_training.summed_updates(
          self._how, keeps_own, sent, self._parts[_TRAIN].pool, self._members(block),
          passes._replace(steps=steps),
      )

    own = np.empty((keeps_own * len(clients), vectors.shape[1]), np.float32)
    for places, (updates, of_block, own_of_block) in self._of_blocks(work, clients, models):
      sums += updates
      found.append((places, of_block))
      if keeps_own:
        own[places] = np.asarray(own_of_block)[: len(places)]
    values = np.empty(len(clients), np.float32)
    for places, of_block in jax.device_get(found):
      values[places] = of_block[: len(places)]
    totals = np.bincount(models, self.num_examples[clients], len(vectors)).astype(np.float32)
    trained = vectors + jax.device_get(sums) / np.maximum(totals, 1)[:, None]
    losses = map(participation.ClientLosses, taking_part, np.split(values, ends[:-1]))
    return trained, np.split(own, ends[:-1]), list(losses)

  @own_settings.own()
  def _train_each(
      self, vectors: np.ndarray, clients: np.ndarray, round_: participation.Round
  ) -> tuple[np.ndarray, np.ndarray]:
    own, values = np.empty(vectors.shape, np.float32), np.empty(len(clients), np.float32)
    is_one_model = vectors.strides[0] == 0
    passes = self._passes(round_)

    def work(unused_places: np.ndarray, block: list[np.ndarray], steps: np.int32) -> Any:
      sent, block[3] = self._of_block(vectors[:1] if is_one_model else vectors, block[3])
      return client_training.own_models(
          self._how, sent, self._parts[_TRAIN].pool, self._members(block),
          passes._replace(steps=steps),
      )

    for places, (trained, of_block) in self._of_blocks(work, clients, np.arange(len(clients))):
      own[places], values[places] = (
          part[: len(places)] for part in jax.device_get((trained, of_block))
      )
    return own, values

  def _of_block(
      self, vectors: np.ndarray, models: np.ndarray
  ) -> tuple[jax.Array, np.ndarray]:
    """Returns the models that a block's clients start from, and which of these each takes."""
    if len(vectors) > 1:
      vectors, models = vectors[np.maximum(models, 0)], np.arange(len(models), dtype=np.int32)
    return jax.device_put(vectors, self._blocks.shared), models

  @own_settings.own()
  def _train_alone(
      self, vectors: np.ndarray, trained: np.ndarray, rounds: Sequence[participation.Round]
  ) -> tuple[np.ndarray, np.ndarray]:
    num_classes = self.model.num_classes
    takes_part = np.stack([np.isin(self.clients, round_.clients) for round_ in rounds])
    losses = np.empty(takes_part.shape)
    confusions = np.empty((*takes_part.shape, num_classes, num_classes), np.int64)
    passes = list(map(self._passes, rounds))
    # A block has a core of its own already.
    on_one_core = dataclasses.replace(self._blocks, cores=1)

    def work(places: np.ndarray, block: list[np.ndarray], steps: np.int32) -> None:
      sent, block[3] = self._of_block(vectors, block[3])
      counts = block[2]
      for r in range(len(rounds)):
        # Without examples a client keeps its model.
        block[2] = np.where(np.append(takes_part[r], False)[block[0]], counts, 0)
        sent, of_block = client_training.own_models(
            self._how, sent, self._parts[_TRAIN].pool, self._members(block),
            passes[r]._replace(steps=steps),
        )
        losses[r, places] = np.asarray(of_block)[: len(places)]
        confusions[r, places] = self._of_pairs(
            sent, np.arange(len(places)), places, _TEST, on_one_core
        )
      trained[places] = np.asarray(sent)[: len(places)]

    for _ in self._of_blocks(work, self.clients, self.clients):
      pass
    return losses, confusions

  @own_settings.own()
  def _train_own(
      self,
      vectors: np.ndarray,
      shares: np.ndarray,
      clients: np.ndarray,
      round_: participation.Round,
      common: np.ndarray,
      how: personalization.Personalization,
  ) -> np.ndarray:
    rows = np.flatnonzero(np.isin(clients, round_.clients))
    passes, values = self._passes(round_, how.head_epochs or 0), np.zeros(len(clients))
    sent = jax.device_put(common, self._blocks.shared)

    def work(unused_places: np.ndarray, block: list[np.ndarray], steps: np.int32) -> Any:
      of_block = np.maximum(block[3], 0)
      return personal_training.own_models(
          self._how, how, *self._blocks.put(vectors[of_block], shares[of_block]), sent,
          self._parts[_TRAIN].pool, self._members(block), passes._replace(steps=steps),
      )

    for places, found in self._of_blocks(work, clients[rows], rows):
      # No other block reads these models.
      of_block = rows[places]
      vectors[of_block], shares[of_block], values[of_block] = (
          part[: len(places)] for part in jax.device_get(found)
      )
    return values

  @own_settings.own()
  def _losses(self, vectors: np.ndarray, clients: np.ndarray) -> np.ndarray:
    num_models = len(vectors)
    found = np.empty(num_models * len(clients), np.float32)
    for of_pairs in self._outputs(
        vectors, np.repeat(np.arange(num_models), len(clients)), np.tile(clients, num_models),
        _TRAIN,
    ):
      found[of_pairs.pairs] = evaluation.mean_losses(of_pairs)
    return found.reshape(num_models, len(clients))

  def _outputs(
      self, vectors: Any, models: np.ndarray, clients: np.ndarray, part: str,
      blocks: blocks_lib.Blocks | None = None,
  ) -> Iterator[evaluation.Outputs]:
    return evaluation.outputs(
        self.model, blocks or self._blocks, vectors, self._parts[part], models, clients
    )

  def _of_pairs(
      self, vectors: Any, models: np.ndarray, clients: np.ndarray, part: str,
      blocks: blocks_lib.Blocks | None = None,
  ) -> np.ndarray:
    """Returns the confusion matrices of pairs of a model and a client, whose models are in order.

    Args:
      part: Whose examples, as of `__init__`.
      blocks: By default those of the engine.
    """
    num_classes = self.model.num_classes
    found = np.empty((len(models), num_classes, num_classes), np.int64)
    for of_pairs in self._outputs(vectors, models, clients, part, blocks):
      found[of_pairs.pairs] = evaluation.confusions(of_pairs, num_classes)
    return found

  @own_settings.own()
  def _confusions(
      self, vectors: Any, members: participation.Clusters, part: str
  ) -> list[np.ndarray]:
    numbers = list(map(len, members))
    models = np.repeat(np.arange(len(members)), numbers)
    found = self._of_pairs(vectors, models, np.concatenate(members), part)
    return np.split(found, np.cumsum(numbers)[:-1])

  @own_settings.own()
  def _global_confusions(self, vectors: Any) -> np.ndarray:
    models = np.arange(len(vectors))
    return self._of_pairs(vectors, models, np.zeros_like(models), _GLOBAL)[:, np.newaxis]

  @own_settings.own()
  def _sketches(self, clients: np.ndarray, size: int) -> np.ndarray:
    return sketches_lib.sketches(
        lambda unused_most: self._blocks, self.model.num_classes, self._parts[_TRAIN], clients, size
    )

  @own_settings.own()
  def _moments(self, vector: np.ndarray, clients: np.ndarray, by_label: bool) -> np.ndarray:
    num_classes = self.model.num_classes
    found = np.empty((len(clients), 1 + by_label * num_classes, 2, num_classes), np.float32)
    for of_pairs in evaluation.outputs(
        self.model, self._blocks, vector[np.newaxis], self._parts[_TRAIN],
        np.zeros_like(clients), clients, keeps_logits=True,
    ):
      found[of_pairs.pairs] = evaluation.moments(of_pairs, by_label * num_classes)
    return found
