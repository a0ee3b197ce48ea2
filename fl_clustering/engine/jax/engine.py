"""The engine on an accelerator: thousands of clients train side by side.

It offers what methods need that train models of clusters, or of clients alone.  Where no random
numbers are drawn, its results are those of the engine in `tff/` up to rounding.  Elsewhere they are
as random, and the same again on the same device, whatever JAX's settings are, unless the user
changes how XLA compiles, as by `XLA_FLAGS`.
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence, TYPE_CHECKING

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
from fl_clustering.engine.jax import sketches as sketches_lib
from fl_clustering.tasks import pooled_examples

if TYPE_CHECKING:
  from fl_clustering.tasks import federated_task
  from fl_clustering.tasks import model as model_lib

_TRAIN, _TEST, _VALIDATION, _GLOBAL = "train", "test", "validation", "global test"


class Engine(engine.Engine):
  """Trains and evaluates models on the clients of one task."""

  def __init__(
      self,
      model: model_lib.Model,
      parts: dict[str, client_pool.ClientPool],
      client_ids: Sequence[str],
      batch_size: int,
      learning_rate: float,
      seed: int,
      blocks: blocks_lib.Blocks,
      schedule: participation.Schedule | None = None,
      num_new_clients: int = 0,
  ):
    """Takes the clients' data, which are on the devices of `blocks` (see `engine_of_task`).

    Args:
      parts: The clients' `train` and `test` examples.  There may be a `global test`, of a single
        owner, and `validation`, in which a client without any has none.
      client_ids: The clients' ids, new clients at the end.
      batch_size: The examples of a step of training; a pass's last one may have fewer.
      learning_rate: Of plain stochastic gradient descent.
      seed: The run's seed, from which each local training gets its random numbers.
      blocks: How work is cut, and where it is done.
      schedule: The run's rounds.
      num_new_clients: How many of the clients come after the training.

    Raises:
      ValueError: For a model that only TensorFlow can compute.
    """
    if not model.layers and model.jax_logits is None:
      raise validate.error("engine", f"be tff for the model {model.name!r}", "jax")
    validated = parts[_VALIDATION].counts if _VALIDATION in parts else ()
    super().__init__(
        model, client_ids, num_new_clients, parts[_TRAIN].counts, np.flatnonzero(validated),
        batch_size, seed, schedule,
    )
    self._parts = parts
    self._blocks = blocks
    self._how = client_training.How(
        model, 1, batch_size, learning_rate, int(self.num_examples.max()), blocks
    )

  def _key(self, number: int) -> jax.Array:
    seed = randomness.stateless_seed(self.seed, "local_training", number)
    return jax.device_put(seed.view(np.uint32), self._blocks.shared)

  def _cut(
      self, clients: np.ndarray, models: np.ndarray
  ) -> Iterator[tuple[np.ndarray, list[np.ndarray], np.int32]]:
    """Yields blocks of clients, the largest clients first.

    Args:
      models: The model of each.

    Yields:
      Their positions in `clients`; what `client_training.Members` holds of them; and the steps that
      the largest takes in a pass.
    """
    order = np.argsort(-self.num_examples[clients], kind="stable")
    ordered = clients[order]
    size = min(self._how.batch_size, self._how.most_examples)
    starts, counts = self._parts[_TRAIN].starts[ordered], self.num_examples[ordered]
    for place, block in self._blocks.cut(ordered, starts, counts, models[order]):
      steps = np.int32(-(-int(block[2].max()) // size))
      # Who only fills the block up reads the first row, and has no examples.
      block[1:3] = (np.maximum(part, 0) for part in block[1:3])
      yield order[place], block, steps

  def _members(self, block: Sequence[np.ndarray]) -> client_training.Members:
    return client_training.Members(*self._blocks.put(*block))

  @own_settings.own()
  def _train(
      self, vectors: np.ndarray, members: participation.Clusters, round_: participation.Round
  ) -> tuple[np.ndarray, list[participation.ClientLosses]]:
    taking_part = [round_.among(of_model) for of_model in members]
    numbers = list(map(len, taking_part))
    clients = np.concatenate(taking_part)
    models = np.repeat(np.arange(len(vectors)), numbers)
    sent, sums = jax.device_put((vectors, np.zeros_like(vectors)), self._blocks.shared)
    key, found = self._key(round_.number), []
    how = self._how._replace(num_epochs=round_.num_epochs)
    for places, block, steps in self._cut(clients, models):
      sums, of_block = client_training.add_updates(
          how, sums, sent, self._parts[_TRAIN].pool, self._members(block), key, steps,
      )
      found.append((places, of_block))
    values = np.empty(len(clients), np.float32)
    for places, of_block in jax.device_get(found):
      values[places] = of_block[: len(places)]
    totals = np.bincount(models, self.num_examples[clients], len(vectors)).astype(np.float32)
    trained = vectors + jax.device_get(sums) / np.maximum(totals, 1)[:, None]
    of_models = np.split(values, np.cumsum(numbers)[:-1])
    return trained, list(map(participation.ClientLosses, taking_part, of_models))

  @own_settings.own()
  def _train_each(
      self, vectors: np.ndarray, clients: np.ndarray, round_: participation.Round
  ) -> tuple[np.ndarray, np.ndarray]:
    own, values = np.empty(vectors.shape, np.float32), np.empty(len(clients), np.float32)
    is_one_model = vectors.strides[0] == 0
    key = self._key(round_.number)
    how = self._how._replace(num_epochs=round_.num_epochs)
    for places, block, steps in self._cut(clients, np.arange(len(clients))):
      sent, block[3] = self._of_block(vectors[:1] if is_one_model else vectors, block[3])
      trained, of_block = client_training.own_models(
          how, sent, self._parts[_TRAIN].pool, self._members(block), key, steps,
      )
      own[places] = trained[: len(places)]
      values[places] = of_block[: len(places)]
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
      self, vectors: np.ndarray, rounds: Sequence[participation.Round]
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    num_classes = self.model.num_classes
    takes_part = np.stack([np.isin(self.clients, round_.clients) for round_ in rounds])
    losses = np.empty(takes_part.shape)
    confusions = np.empty((*takes_part.shape, num_classes, num_classes), np.int64)
    keys = [self._key(round_.number) for round_ in rounds]
    if not vectors.flags.writeable:
      vectors = vectors.copy()
    for places, block, steps in self._cut(self.clients, self.clients):
      sent, block[3] = self._of_block(vectors, block[3])
      counts = block[2]
      for r, round_ in enumerate(rounds):
        # Without examples a client keeps its model.
        block[2] = np.where(np.append(takes_part[r], False)[block[0]], counts, 0)
        how = self._how._replace(num_epochs=round_.num_epochs)
        sent, of_block = client_training.own_models(
            how, sent, self._parts[_TRAIN].pool, self._members(block), keys[r], steps,
        )
        losses[r, places] = of_block[: len(places)]
        confusions[r, places] = self._of_pairs(sent, np.arange(len(places)), places, _TEST)
      vectors[places] = sent[: len(places)]
    return vectors, losses, confusions

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
      self, vectors: Any, models: np.ndarray, clients: np.ndarray, part: str
  ) -> Iterator[evaluation.Outputs]:
    return evaluation.outputs(
        self.model, self._blocks, vectors, self._parts[part], models, clients
    )

  def _of_pairs(
      self, vectors: Any, models: np.ndarray, clients: np.ndarray, part: str
  ) -> np.ndarray:
    """Returns the confusion matrices of pairs of a model and a client, whose models are in order.

    Args:
      part: Whose examples, as of `__init__`.
    """
    num_classes = self.model.num_classes
    found = np.empty((len(models), num_classes, num_classes), np.int64)
    for of_pairs in self._outputs(vectors, models, clients, part):
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
        self._blocks, self.model.num_classes, self._parts[_TRAIN], clients, size
    )


@own_settings.own()
def engine_of_task(
    task: federated_task.FederatedTask,
    batch_size: int,
    learning_rate: float,
    seed: int,
    schedule: participation.Schedule | None = None,
    devices: Sequence[Any] | None = None,
    clients_per_block: int | None = None,
) -> Engine:
  """Returns the engine over the clients of a task.

  Args:
    task: The clients and their model.
    batch_size: As of `Engine`, and so is all that is not told here.
    devices: As of `blocks.plan`, and so is `clients_per_block`.
  """
  blocks = blocks_lib.plan(task.model, batch_size, devices, clients_per_block)

  sent: dict[int, Any] = {}

  def pool(examples: pooled_examples.PooledExamples) -> client_pool.ClientPool:
    of_pool = examples.pool
    if id(of_pool) not in sent:
      sent[id(of_pool)] = jax.device_put(of_pool.features, blocks.shared)
    return client_pool.ClientPool(
        sent[id(of_pool)], of_pool.labels, examples.rows, examples.counts, blocks.shared
    )

  pooled = {part: task.pooled(part) for part in (_TRAIN, _TEST, _VALIDATION)}
  if not len(pooled[_VALIDATION].rows):
    del pooled[_VALIDATION]
  pooled[_GLOBAL] = pooled_examples.PooledExamples.of_examples([task.global_test])
  parts = {part: pool(examples) for part, examples in pooled.items()}
  return Engine(
      task.model, parts, (*task.client_ids, *task.new_client_ids), batch_size, learning_rate, seed,
      blocks, schedule, len(task.new_clients),
  )
