"""Federated averaging over all clients of a task, as a TFF computation.

FedAvg (McMahan et al., "Communication-Efficient Learning of Deep Networks from
Decentralized Data", AISTATS 2017, Algorithm 1): every client trains the model
it is sent on its own examples, the server averages the results weighted by the
number of examples.

The weighted mean is the training of one cluster, see `cluster_training.py`: it needs the
sums of a bounded number of heads.  With one of TFF's aggregators (clipping, differential
privacy), every TFF client is a client, because they take single updates.

Every client's random numbers are a function of (seed, round, client id): see
`randomness.py`.
"""

import collections
import dataclasses
import functools

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from clustering_basics import randomness
from fl_clustering.engine import client_update as client_update_lib
from fl_clustering.engine import divergence
from fl_clustering.engine import site_training


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
def build_aggregated_round(model, local_training, aggregator, num_clients):
  """Returns (initialize, next) of FedAvg with an aggregator as TFF computations.

  Args:
    model: A `model.Model`.
    local_training: How a client trains, a `client_update.LocalTraining`.
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
  job_type = _client_job_type()

  @tff.tensorflow.computation(vector_type, job_type)
  def local_update(vector, job):
    trained, loss, num_examples = client_update(
        client_update_lib.unflatten(model, vector), job["path"], job["seed"], job["num_epochs"]
    )
    # A sum of such vectors costs less than a value that every client returns.
    losses = tf.scatter_nd([[job["index"]]], [loss], [num_clients])
    return client_update_lib.flatten(trained) - vector, num_examples, losses

  @tff.tensorflow.computation(vector_type, vector_type)
  def apply_update(vector, update):
    return vector + update

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


@dataclasses.dataclass(frozen=True)
class FedAvgState:
  """The server's state between rounds.

  Attributes:
    vector: The global model, float32 of shape (P,).
    aggregator_state: The leaves of the aggregator's own state, as arrays.
  """

  vector: np.ndarray
  aggregator_state: tuple[np.ndarray, ...]


class _AggregatedRounds:
  """FedAvg's rounds with one of TFF's aggregators."""

  def __init__(self, task, files, local_training, aggregator, seed):
    self._files = files
    self._seed = seed
    self._index = {client_id: i for i, client_id in enumerate(task.client_ids)}
    initialize, self._next_round = build_aggregated_round(
        task.model, local_training, aggregator, len(task.client_ids)
    )
    self._initial_aggregator_state = initialize()

  def initial_state(self, vector):
    return FedAvgState(vector, self._leaves(self._initial_aggregator_state))

  def _leaves(self, aggregator_state):
    return tuple(map(np.asarray, tf.nest.flatten(aggregator_state)))

  def next(self, state, round_):
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
    return FedAvgState(np.asarray(vector), self._leaves(aggregator_state)), losses


class _MeanRounds:
  """FedAvg's own rounds, with the mean weighted by examples."""

  def __init__(self, task, files, local_training, seed):
    self._training = site_training.build_training(task, files, local_training, seed)
    self._client_ids = task.client_ids

  def initial_state(self, vector):
    return FedAvgState(vector, ())

  def next(self, state, round_):
    vectors, (losses,) = self._training.next(
        state.vector[None], (self._client_ids,), round_
    )
    return FedAvgState(vectors[0], ()), losses


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
    self._is_private = is_private
    self._seed = seed
    self._model = task.model
    if aggregator is None:
      self._rounds = _MeanRounds(task, files, local_training, seed)
    else:
      self._rounds = _AggregatedRounds(task, files, local_training, aggregator, seed)

  def initialize(self):
    """Returns the `FedAvgState` before the first round."""
    parameters = self._model.initial_parameters(
        randomness.generator(self._seed, "initial_parameters")
    )
    return self._rounds.initial_state(np.concatenate([p.ravel() for p in parameters]))

  def next(self, state, round_):
    """Runs one round.

    Args:
      state: The state before.
      round_: A `participation.Round`.

    Returns:
      The `FedAvgState` after, and a dict of client id to mean training loss.

    Raises:
      divergence.TrainingDiverged: If a loss or weight is not finite.
    """
    after, losses = self._rounds.next(state, round_)
    if not self._is_private:
      divergence.check_losses(losses, f"round {round_.number}")
    divergence.check_vector(after.vector, f"round {round_.number}")
    return after, losses
