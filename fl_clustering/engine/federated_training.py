"""Federated averaging over all clients of a task, as a TFF computation.

FedAvg (McMahan et al., "Communication-Efficient Learning of Deep Networks from
Decentralized Data", AISTATS 2017, Algorithm 1): every client trains the model
it is sent on its own examples, the server averages the results weighted by the
number of examples.  Every TFF client is a client, so TFF's aggregators plug in
(clipping, differential privacy).  Many clusters at once: `cluster_training.py`.

Every client's random numbers are a function of (seed, round, client id): see
`randomness.py`.
"""

import collections
import dataclasses
import functools
import math

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from clustering_basics import randomness
from fl_clustering.engine import client_update as client_update_lib


class TrainingDiverged(RuntimeError):
  """A client's loss or weights are no longer finite."""


def check_losses(losses, where):
  """Raises `TrainingDiverged` unless all losses (by client id) are finite."""
  for client_id, loss in losses.items():
    if not math.isfinite(loss):
      raise TrainingDiverged(
          f"the training loss is {loss} in {where}, client {client_id!r}; "
          "a lower learning rate may help."
      )


def check_vector(vector, where):
  """Raises `TrainingDiverged` unless the averaged weights are finite."""
  if not np.all(np.isfinite(vector)):
    raise TrainingDiverged(
        f"the averaged weights are not finite after {where}; "
        "a lower learning rate may help."
    )


def _client_job_type():
  return tff.StructWithPythonType(
      [
          ("index", np.int32),
          ("path", np.str_),
          ("seed", tff.TensorType(np.int32, [2])),
          ("num_epochs", np.int32),
      ],
      collections.OrderedDict,
  )


@functools.cache
def build_fedavg_round(model, local_training, aggregator, num_clients):
  """Returns (initialize, next) of FedAvg as TFF computations.

  Args:
    model: A `model.Model`.
    local_training: How a client trains, a `client_update.LocalTraining`.
    aggregator: A `tff.aggregators` factory, weighted or not, for the clients'
      updates (trained minus sent); `None` is their mean weighted by examples.
    num_clients: Number of clients of the task; their indices are below it.

  Returns:
    `initialize: ( -> aggregator_state@SERVER)` and `next: (vector@SERVER,
    aggregator_state@SERVER, {job}@CLIENTS) -> (vector@SERVER,
    aggregator_state@SERVER, losses@SERVER)`, with the clients' losses, of shape
    (num_clients,), at their indices and zero elsewhere.
  """
  client_update = client_update_lib.build_client_update(model, local_training)
  vector_type = tff.TensorType(np.float32, [model.num_parameters])
  job_type = _client_job_type()

  def train(vector, job):
    trained, loss, num_examples = client_update(
        client_update_lib.unflatten(model, vector), job["path"], job["seed"], job["num_epochs"]
    )
    # A sum of such vectors costs less than a value that every client returns.
    losses = tf.scatter_nd([[job["index"]]], [loss], [num_clients])
    return client_update_lib.flatten(trained) - vector, num_examples, losses

  @tff.tensorflow.computation(vector_type, vector_type)
  def apply_update(vector, update):
    return vector + update

  if aggregator is None:
    return _build_weighted_mean_round(vector_type, job_type, train)

  @tff.tensorflow.computation(vector_type, job_type)
  def local_update(vector, job):
    return train(vector, job)

  weight_type = ()
  if isinstance(aggregator, tff.aggregators.WeightedAggregationFactory):
    weight_type = (tff.TensorType(np.float32),)
  process = aggregator.create(vector_type, *weight_type)

  @tff.federated_computation(
      tff.FederatedType(vector_type, tff.SERVER),
      process.initialize.type_signature.result,
      tff.FederatedType(job_type, tff.CLIENTS),
  )
  def next_round(vector, aggregator_state, jobs):
    updates, weights, losses = tff.federated_map(
        local_update, (tff.federated_broadcast(vector), jobs)
    )
    weight = (weights,) if weight_type else ()
    output = process.next(aggregator_state, updates, *weight)
    new_vector = tff.federated_map(apply_update, (vector, output.result))
    return new_vector, output.state, tff.federated_sum(losses)

  return process.initialize, next_round


def _build_weighted_mean_round(vector_type, job_type, train):
  """Returns (initialize, next) of FedAvg by sums alone, without a state.

  It equals the round with `tff.aggregators.MeanFactory`, which visits every client
  once more to weight its update; here the client does that with its training.
  """

  @tff.tensorflow.computation(vector_type, job_type)
  def local_update(vector, job):
    update, num_examples, losses = train(vector, job)
    return num_examples * update, num_examples, losses

  @tff.tensorflow.computation(vector_type, vector_type, np.float32)
  def apply_sums(vector, weighted_sum, total):
    return vector + weighted_sum / total

  @tff.federated_computation
  def initialize():
    return tff.federated_value((), tff.SERVER)

  @tff.federated_computation(
      tff.FederatedType(vector_type, tff.SERVER),
      initialize.type_signature.result,
      tff.FederatedType(job_type, tff.CLIENTS),
  )
  def next_round(vector, state, jobs):
    results = tff.federated_map(local_update, (tff.federated_broadcast(vector), jobs))
    weighted_sum, total, losses = tff.federated_sum(results)
    return tff.federated_map(apply_sums, (vector, weighted_sum, total)), state, losses

  return initialize, next_round


@dataclasses.dataclass(frozen=True)
class FedAvgState:
  """The server's state between rounds.

  Attributes:
    vector: The global model, float32 of shape (P,).
    aggregator_state: The leaves of the aggregator's own state, as arrays.
  """

  vector: np.ndarray
  aggregator_state: tuple[np.ndarray, ...]


class FedAvg:
  """FedAvg over all clients of a task: `initialize`, then `next` every round."""

  def __init__(self, task, files, local_training, aggregator, seed, is_private=False):
    """Builds the TFF computations.

    Args:
      task: A `FederatedTask`.
      files: The task's `ClientFiles`.
      local_training: How a client trains, a `client_update.LocalTraining`.
      aggregator: A `tff.aggregators` factory, or `None` for the weighted mean.
      seed: The run's seed.
      is_private: Whether the aggregator protects the clients.  Then a loss that is not finite
        ends nothing: an error would tell of a client.
    """
    self._files = files
    self._is_private = is_private
    self._seed = seed
    self._model = task.model
    self._index = {client_id: i for i, client_id in enumerate(task.client_ids)}
    initialize, self._next_round = build_fedavg_round(
        task.model, local_training, aggregator, len(task.client_ids)
    )
    self._initial_aggregator_state = initialize()

  def initialize(self):
    """Returns the `FedAvgState` before the first round."""
    parameters = self._model.initial_parameters(
        randomness.generator(self._seed, "initial_parameters")
    )
    vector = np.concatenate([p.ravel() for p in parameters])
    return FedAvgState(vector, self._leaves(self._initial_aggregator_state))

  def _leaves(self, aggregator_state):
    return tuple(map(np.asarray, tf.nest.flatten(aggregator_state)))

  def next(self, state, round_):
    """Runs one round.

    Args:
      state: The state before.
      round_: A `participation.Round`.

    Returns:
      The `FedAvgState` after, and a dict of client id to mean training loss.

    Raises:
      TrainingDiverged: If a loss or weight is not finite.
    """
    jobs = [
        collections.OrderedDict(
            index=self._index[client_id],
            path=self._files.train[client_id].path,
            seed=randomness.stateless_seed(
                self._seed, "local_training", round_.number, client_id
            ),
            num_epochs=round_.num_epochs,
        )
        for client_id in round_.client_ids
    ]
    vector, aggregator_state, all_losses = self._next_round(
        state.vector,
        tf.nest.pack_sequence_as(
            self._initial_aggregator_state, state.aggregator_state
        ),
        jobs,
    )
    losses = {c: float(all_losses[self._index[c]]) for c in round_.client_ids}
    if not self._is_private:
      check_losses(losses, f"round {round_.number}")
    vector = np.asarray(vector)
    check_vector(vector, f"round {round_.number}")
    return FedAvgState(vector, self._leaves(aggregator_state)), losses
