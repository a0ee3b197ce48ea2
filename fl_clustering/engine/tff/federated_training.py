"""Federated averaging by one of TFF's aggregators: clipping, differential privacy.

It is FedAvg as `fedavg.py` says it, but every TFF client is a client here, because aggregators take
single updates.

Every client's random numbers are a function of (seed, round, client id): see
`randomness.py`.
"""

from __future__ import annotations

import collections
import functools
from typing import Any, TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.engine import divergence
from fl_clustering.engine import fedavg
from fl_clustering.engine import participation
from fl_clustering.engine.tff import client_update as client_update_lib
from fl_clustering.engine.tff import model_jobs

if TYPE_CHECKING:
  from fl_clustering.engine.tff import client_files
  from fl_clustering.tasks import federated_task
  from fl_clustering.tasks import model as model_lib


@functools.cache
def build_aggregated_round(
    model: model_lib.Model,
    local_training: client_update_lib.LocalTraining,
    aggregator: Any,
    num_clients: int,
) -> tuple[tff.Computation, tff.Computation]:
  """Returns (initialize, next) of FedAvg with an aggregator as TFF computations.

  Args:
    model: The model.
    local_training: How a client trains.
    aggregator: A `tff.aggregators` factory, weighted or not, for the clients'
      updates (trained minus sent).
    num_clients: Number of clients of the task; their indices are below it.

  Returns:
    `initialize: ( -> aggregator_state@SERVER)` and `next: (vector@SERVER,
    aggregator_state@SERVER, {job}@CLIENTS) -> (vector@SERVER,
    aggregator_state@SERVER, losses@SERVER)`, with the clients' losses, of shape
    (num_clients,), at their indices and zero elsewhere.
  """
  client_update = client_update_lib.build_client_update(model, local_training)
  vector_type = tff.TensorType(np.float32, [model.num_parameters])
  job_type = model_jobs.job_type(
      ("index", np.int32),
      ("path", np.str_),
      ("seed", tff.TensorType(np.int32, [2])),
      ("num_epochs", np.int32),
  )

  @tff.tensorflow.computation(vector_type, job_type)
  def local_update(vector: tf.Tensor, job: Any) -> tuple:
    trained, loss, num_examples = client_update(
        client_update_lib.unflatten(model, vector), job["path"], job["seed"], job["num_epochs"]
    )
    # A sum of such vectors costs less than a value that every client returns.
    losses = tf.scatter_nd([[job["index"]]], [loss], [num_clients])
    return client_update_lib.flatten(trained) - vector, num_examples, losses

  @tff.tensorflow.computation(vector_type, vector_type)
  def apply_update(vector: tf.Tensor, update: tf.Tensor) -> tf.Tensor:
    return vector + update

  weight_type: tuple[tff.Type, ...] = ()
  if isinstance(aggregator, tff.aggregators.WeightedAggregationFactory):
    weight_type = (tff.TensorType(np.float32),)
  process = aggregator.create(vector_type, *weight_type)

  @tff.federated_computation(
      tff.FederatedType(vector_type, tff.SERVER),
      process.initialize.type_signature.result,
      tff.FederatedType(job_type, tff.CLIENTS),
  )
  def next_round(vector: Any, aggregator_state: Any, jobs: Any) -> tuple:
    updates, weights, losses = tff.federated_map(
        local_update, (tff.federated_broadcast(vector), jobs)
    )
    weight = (weights,) if weight_type else ()
    output = process.next(aggregator_state, updates, *weight)
    new_vector = tff.federated_map(apply_update, (vector, output.result))
    return new_vector, output.state, tff.federated_sum(losses)

  return process.initialize, next_round


def _leaves(aggregator_state: Any) -> tuple[np.ndarray, ...]:
  return tuple(map(np.asarray, tf.nest.flatten(aggregator_state)))


class FedAvg:
  """FedAvg over all clients of a task, as of `fedavg.FedAvg`."""

  def __init__(
      self,
      task: federated_task.FederatedTask,
      files: client_files.ClientFiles,
      local_training: client_update_lib.LocalTraining,
      aggregator: Any,
      seed: int,
      is_private: bool = False,
  ):
    """Builds the TFF computations.

    Args:
      task: The clients and their model.
      files: Where their data are.
      local_training: How a client trains.
      aggregator: A `tff.aggregators` factory.
      seed: The run's seed.
      is_private: Whether the aggregator protects the clients.  Then a loss that is not finite
        ends nothing: an error would tell of a client.
    """
    self._is_private = is_private
    self._seed = seed
    self._model = task.model
    self._files = files
    initialize, self._next_round = build_aggregated_round(
        task.model, local_training, aggregator, len(task.clients)
    )
    self._initial_aggregator_state = initialize()

  def initialize(self) -> fedavg.FedAvgState:
    """Returns the state before the first round."""
    vector = fedavg.initial_vector(self._model, self._seed)
    return fedavg.FedAvgState(vector, _leaves(self._initial_aggregator_state))

  def next(
      self, state: fedavg.FedAvgState, round_: participation.Round
  ) -> tuple[fedavg.FedAvgState, participation.ClientLosses]:
    """Runs one round; returns the state after it and the clients' mean training losses.

    Raises:
      divergence.TrainingDiverged: If a loss or weight is not finite.
    """
    seeds = self._files.seeds(self._seed, round_.number, round_.clients)
    jobs = [
        collections.OrderedDict(
            index=np.int32(client), path=self._files.train[client].path, seed=seed,
            num_epochs=round_.num_epochs,
        )
        for client, seed in zip(round_.clients, seeds)
    ]
    aggregator_state = tf.nest.pack_sequence_as(
        self._initial_aggregator_state, state.aggregator_state
    )
    vector, aggregator_state, all_losses = self._next_round(state.vector, aggregator_state, jobs)
    losses = participation.ClientLosses(round_.clients, np.asarray(all_losses)[round_.clients])
    after = fedavg.FedAvgState(np.asarray(vector), _leaves(aggregator_state))
    if not self._is_private:
      divergence.check_losses(losses, f"round {round_.number}", self._files.client_ids)
    divergence.check_vector(after.vector, f"round {round_.number}")
    return after, losses
