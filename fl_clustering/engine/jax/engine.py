"""The engine on an accelerator: thousands of clients train side by side.

Where no random numbers are drawn, its results are those of the engine in `tff/` up to rounding.
Elsewhere they are as random, and the same again on the same device, whatever JAX's settings are,
unless the user changes how XLA compiles, as by `XLA_FLAGS`.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Sequence, TYPE_CHECKING

import jax
import numpy as np

from clustering_basics import randomness
from fl_clustering.engine import engine
from fl_clustering.engine import engines
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
      learning_rate: Of plain stochastic gradient descent.
      devices, clients_per_block: As of `blocks.plan`.
      task, batch_size, seed, schedule: As of `engine.Engine`.

    Raises:
      ValueError: For a model that only TensorFlow can compute.
    """
    engines.check_model(engines.JAX, task.model)
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

  def _of_blocks(
      self, work: Callable[..., Any], clients: np.ndarray, models: np.ndarray, number: int,
      num_epochs: int,
  ) -> Iterator[tuple[np.ndarray, Any]]:
    """Yields what clients do in a round, the largest first.

    Args:
      work: It takes `client_training.Members` and `client_training.Passes` of a block of clients;
        on a CPU, in threads.
      clients: The clients.
      models: The model of each client.
      number: The round's number.
      num_epochs: Passes of a client over its data.

    Yields:
      Positions in `clients`, and what work returns.
    """
    seed = randomness.stateless_seed(self.seed, "local_training", number)
    key = jax.device_put(seed.view(np.uint32), self._blocks.shared)
    order = np.argsort(-self.num_examples[clients], kind="stable")
    ordered = clients[order]
    starts, counts = self._parts[_TRAIN].examples.starts[ordered], self.num_examples[ordered]

    def of_block(place: slice, block: list[np.ndarray]) -> tuple[np.ndarray, Any]:
      size = min(self._how.batch_size, self._how.most_examples)
      steps = np.int32(-(-int(block[2].max()) // size))
      # Who only fills the block up reads the first row, and has no examples.
      block[1:3] = (np.maximum(part, 0) for part in block[1:3])
      members = client_training.Members(*self._blocks.put(*block))
      passes = client_training.Passes(key, np.int32(num_epochs), steps)
      return order[place], work(members, passes)

    return self._blocks.results(
        of_block, self._blocks.cut(ordered, starts, counts, models[order])
    )

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
    found = []

    def work(block: client_training.Members, passes: client_training.Passes) -> Any:
      return client_training.summed_updates(
          self._how, keeps_own, sent, self._parts[_TRAIN].pool, block, passes
      )

    own = np.empty((keeps_own * len(clients), vectors.shape[1]), np.float32)
    for places, (updates, of_block, own_of_block) in self._of_blocks(
        work, clients, models, round_.number, round_.num_epochs
    ):
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
    values = np.zeros(len(clients))
    sent = jax.device_put(common, self._blocks.shared)

    def work(block: client_training.Members, passes: client_training.Passes) -> Any:
      of_block = np.maximum(block.models, 0)
      return personal_training.own_models(
          self._how, how, *self._blocks.put(vectors[of_block], shares[of_block]), sent,
          self._parts[_TRAIN].pool, block, passes,
      )

    for places, found in self._of_blocks(
        work, clients[rows], rows, round_.number, (how.head_epochs or 0) + round_.num_epochs
    ):
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
    for of_pairs in self._of_pairs(
        vectors, np.repeat(np.arange(num_models), len(clients)), np.tile(clients, num_models),
        _TRAIN,
    ):
      found[of_pairs.pairs] = evaluation.mean_losses(of_pairs)
    return found.reshape(num_models, len(clients))

  def _of_pairs(
      self, vectors: Any, models: np.ndarray, clients: np.ndarray, part: str,
      keeps_logits: bool = False,
  ) -> Iterator[evaluation.Outputs]:
    """Yields what `evaluation.outputs` does of a part's examples, as of `__init__`."""
    return evaluation.outputs(
        self.model, self._blocks, vectors, self._parts[part], models, clients, keeps_logits
    )

  def _matrices(
      self, vectors: Any, models: np.ndarray, clients: np.ndarray, part: str
  ) -> np.ndarray:
    """Returns the confusion matrices of pairs of a model and a client, whose models are in order."""
    num_classes = self.model.num_classes
    found = np.empty((len(models), num_classes, num_classes), np.int64)
    for of_pairs in self._of_pairs(vectors, models, clients, part):
      found[of_pairs.pairs] = evaluation.confusions(of_pairs, num_classes)
    return found

  @own_settings.own()
  def _confusions(
      self, vectors: Any, members: participation.Clusters, part: str
  ) -> list[np.ndarray]:
    numbers = list(map(len, members))
    models = np.repeat(np.arange(len(members)), numbers)
    found = self._matrices(vectors, models, np.concatenate(members), part)
    return np.split(found, np.cumsum(numbers)[:-1])

  @own_settings.own()
  def _global_confusions(self, vectors: Any) -> np.ndarray:
    models = np.arange(len(vectors))
    return self._matrices(vectors, models, np.zeros_like(models), _GLOBAL)[:, np.newaxis]

  @own_settings.own()
  def _sketches(self, clients: np.ndarray, size: int) -> np.ndarray:
    return sketches_lib.sketches(
        lambda unused_most: self._blocks, self.model.num_classes, self._parts[_TRAIN], clients, size
    )

  @own_settings.own()
  def _outputs(self, vector: np.ndarray, clients: np.ndarray) -> Iterable[np.ndarray]:
    found: list[np.ndarray] = []
    for of_pairs in self._of_pairs(
        vector[np.newaxis], np.zeros_like(clients), clients, _TRAIN, keeps_logits=True
    ):
      found += np.split(of_pairs.logits, np.cumsum(of_pairs.counts)[:-1])
    return found
