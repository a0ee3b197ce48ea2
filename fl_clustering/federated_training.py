"""Federated averaging over one cluster or many, as TFF computations.

FedAvg (McMahan et al., "Communication-Efficient Learning of Deep Networks from
Decentralized Data", AISTATS 2017, Algorithm 1): every client trains the model
it is sent on its own examples, the server averages the results weighted by the
number of examples.

From top to bottom: the client's work as a pure TensorFlow function; then two
ways to place it with TFF; then the objects that a program calls round by
round.

*   `FedAvg`: one model, every TFF client is a client.  TFF's aggregators plug
    in here (clipping, differential privacy).
*   `ClusterTraining`: many models, overlapping clusters.  Every TFF client is
    a *cluster head*, which trains some members of one cluster in turn and
    returns their weighted sum, so only one vector a head crosses TFF's
    messages, and no message holds more than a bounded number of heads.

A model's parameters travel as one flat float32 vector.  Every client's random
numbers are a function of (seed, round, client id): see `randomness.py`.
"""

import collections
import dataclasses
import math

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering import randomness

# About 1/16 of a round's work is the most that one cluster head does: small
# enough that no core waits long for the last one, whatever the cluster sizes.
_HEADS_PER_ROUND = 16
# Model vectors in one TFF message, in bytes (TFF's limit is 1.9 GB).
_MESSAGE_BYTES = 256 * 2**20


class TrainingDiverged(RuntimeError):
  """A client's loss or weights are no longer finite."""


@dataclasses.dataclass(frozen=True)
class LocalTraining:
  """How a client trains: plain stochastic gradient descent.

  Attributes:
    batch_size: Examples per step; an epoch's last batch may be smaller.
    learning_rate: Step size.
  """

  batch_size: int
  learning_rate: float


# The client's work, in TensorFlow.


def unflatten(model, vector):
  """Returns the parameters of `model` from a flat vector of shape (P,)."""
  shapes = list(model.parameter_shapes.values())
  pieces = tf.split(vector, [math.prod(shape) for shape in shapes])
  return [tf.reshape(piece, shape) for piece, shape in zip(pieces, shapes)]


def flatten(parameters):
  """Returns one vector of shape (P,) from a model's parameters."""
  return tf.concat([tf.reshape(p, [-1]) for p in parameters], axis=0)


def decode_examples(model, contents):
  """Returns (uint8 images (n, h, w, 1), int32 labels (n,)) of `client_files.py`'s rows."""
  num_pixels = math.prod(model.input_shape)
  rows = tf.reshape(tf.io.decode_raw(contents, tf.uint8), [-1, num_pixels + 1])
  images = tf.reshape(rows[:, :num_pixels], [-1, *model.input_shape])
  return images, tf.cast(rows[:, num_pixels], tf.int32)


def build_client_update(model, options):
  """Returns the client's work: (parameters, path, seed, num_epochs) -> result.

  Args:
    model: An `ImageModel`.
    options: `LocalTraining`.

  Returns:
    A `tf.function`. It takes the parameters as a list, the path of the client's
    file, an int32 seed of shape (2,) and the number of passes over the data; it
    returns the trained parameters, the mean loss over the last pass (before
    each step, as usual) and the number of examples.
  """

  def loss_fn(parameters, images, labels, dropout_seed):
    logits = model.logits(parameters, images, dropout_seed)
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )

  @tf.function
  def client_update(parameters, path, seed, num_epochs):
    images, labels = decode_examples(model, tf.io.read_file(path))
    num_examples = tf.shape(labels)[0]
    num_steps = (num_examples + options.batch_size - 1) // options.batch_size
    loss_sum = 0.0
    for epoch in tf.range(num_epochs):
      epoch_seed = tf.random.experimental.stateless_fold_in(seed, epoch)
      order = tf.random.experimental.stateless_shuffle(
          tf.range(num_examples), epoch_seed
      )
      loss_sum = 0.0
      for step in tf.range(num_steps):
        batch = order[step * options.batch_size : (step + 1) * options.batch_size]
        batch_images = tf.cast(tf.gather(images, batch), tf.float32) / 255.0
        dropout_seed = None
        if model.uses_dropout:
          dropout_seed = tf.random.experimental.stateless_fold_in(epoch_seed, step + 1)
        with tf.GradientTape() as tape:
          tape.watch(parameters)
          loss = loss_fn(parameters, batch_images, tf.gather(labels, batch), dropout_seed)
        gradients = tape.gradient(loss, parameters)
        parameters = [
            p - options.learning_rate * g for p, g in zip(parameters, gradients)
        ]
        loss_sum += loss * tf.cast(tf.size(batch), tf.float32)
    num_examples = tf.cast(num_examples, tf.float32)
    return parameters, loss_sum / num_examples, num_examples

  return client_update


# Placement with TFF.


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


def _head_job_type(num_parameters):
  return tff.StructWithPythonType(
      [
          ("index", np.int32),
          ("vector", tff.TensorType(np.float32, [num_parameters])),
          ("paths", tff.TensorType(np.str_, [None])),
          ("seeds", tff.TensorType(np.int32, [None, 2])),
          ("num_epochs", np.int32),
      ],
      collections.OrderedDict,
  )


def build_fedavg_round(model, options, aggregator, num_clients):
  """Returns (initialize, next) of FedAvg as TFF computations.

  Args:
    model: An `ImageModel`.
    options: `LocalTraining`.
    aggregator: A `tff.aggregators` factory, weighted or not, for the clients'
      updates (trained minus sent); `None` is their mean weighted by examples.
    num_clients: Number of clients of the task; their indices are below it.

  Returns:
    `initialize: ( -> aggregator_state@SERVER)` and `next: (vector@SERVER,
    aggregator_state@SERVER, {job}@CLIENTS) -> (vector@SERVER,
    aggregator_state@SERVER, losses@SERVER)`, with the clients' losses, of shape
    (num_clients,), at their indices and zero elsewhere.
  """
  client_update = build_client_update(model, options)
  vector_type = tff.TensorType(np.float32, [model.num_parameters])
  job_type = _client_job_type()

  def train(vector, job):
    trained, loss, num_examples = client_update(
        unflatten(model, vector), job["path"], job["seed"], job["num_epochs"]
    )
    # A sum of such vectors costs less than a value that every client returns.
    losses = tf.scatter_nd([[job["index"]]], [loss], [num_clients])
    return flatten(trained) - vector, num_examples, losses

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


def build_train_heads(model, options):
  """Returns the TFF computation of a round of cluster heads.

  Args:
    model: An `ImageModel`.
    options: `LocalTraining`.

  Returns:
    The computation `{job}@CLIENTS -> {(index, weighted sum of the members'
    parameters, their number of examples, loss of every member)}@CLIENTS`.
  """
  client_update = build_client_update(model, options)

  @tf.function
  def train_members(vector, paths, seeds, num_epochs):
    parameters = unflatten(model, vector)
    weighted_sum = [tf.zeros_like(p) for p in parameters]
    total = 0.0
    losses = tf.TensorArray(tf.float32, tf.shape(paths)[0])
    for i in tf.range(tf.shape(paths)[0]):
      trained, loss, num_examples = client_update(
          parameters, paths[i], seeds[i], num_epochs
      )
      weighted_sum = [s + num_examples * t for s, t in zip(weighted_sum, trained)]
      total += num_examples
      losses = losses.write(i, loss)
    return flatten(weighted_sum), total, losses.stack()

  @tff.tensorflow.computation(_head_job_type(model.num_parameters))
  def train_head(job):
    weighted_sum, total, losses = train_members(
        job["vector"], job["paths"], job["seeds"], job["num_epochs"]
    )
    return job["index"], weighted_sum, total, losses

  @tff.federated_computation(
      tff.FederatedType(_head_job_type(model.num_parameters), tff.CLIENTS)
  )
  def train_heads(jobs):
    return tff.federated_map(train_head, jobs)

  return train_heads


# What a program calls, round by round.


def batches_by_size(jobs, bytes_per_job):
  """Cuts a list of jobs into lists that fit one TFF message each."""
  size = max(1, _MESSAGE_BYTES // bytes_per_job)
  return [jobs[i : i + size] for i in range(0, len(jobs), size)]


def _check_losses(losses, where):
  for client_id, loss in losses.items():
    if not math.isfinite(loss):
      raise TrainingDiverged(
          f"the training loss is {loss} in {where}, client {client_id!r}; "
          "a lower --learning_rate may help."
      )


def _check_vector(vector, where):
  if not np.all(np.isfinite(vector)):
    raise TrainingDiverged(
        f"the averaged weights are not finite after {where}; "
        "a lower --learning_rate may help."
    )


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

  def __init__(self, task, files, options, aggregator, seed):
    """Builds the TFF computations.

    Args:
      task: A `FederatedTask`.
      files: The task's `ClientFiles`.
      options: `LocalTraining`.
      aggregator: A `tff.aggregators` factory, or `None` for the weighted mean.
      seed: The run's seed.
    """
    self._files = files
    self._seed = seed
    self._model = task.model
    self._index = {client_id: i for i, client_id in enumerate(task.client_ids)}
    initialize, self._next_round = build_fedavg_round(
        task.model, options, aggregator, len(task.client_ids)
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

  def next(self, state, client_ids, num_epochs, round_num):
    """Runs one round.

    Args:
      state: The state before.
      client_ids: The clients that take part.
      num_epochs: Passes over a client's data.
      round_num: The round's number, for random numbers and messages.

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
                self._seed, "local_training", round_num, client_id
            ),
            num_epochs=num_epochs,
        )
        for client_id in client_ids
    ]
    vector, aggregator_state, all_losses = self._next_round(
        state.vector,
        tf.nest.pack_sequence_as(
            self._initial_aggregator_state, state.aggregator_state
        ),
        jobs,
    )
    losses = {c: float(all_losses[self._index[c]]) for c in client_ids}
    _check_losses(losses, f"round {round_num}")
    vector = np.asarray(vector)
    _check_vector(vector, f"round {round_num}")
    return FedAvgState(vector, self._leaves(aggregator_state)), losses


@dataclasses.dataclass(frozen=True)
class _Head:
  """Some members of one cluster, whom one TFF client trains in turn."""

  cluster: int
  members: tuple[str, ...]


def plan_heads(clusters, num_examples):
  """Cuts clusters into heads of about equal work, the largest first.

  The plan depends on the clusters alone, not on the machine, so that sums are
  taken in the same order everywhere.

  Args:
    clusters: A sequence of tuples of client ids.
    num_examples: A mapping from client id to its number of training examples.

  Returns:
    A list of heads; the heads of a cluster hold its members once each.
  """
  work = lambda members: sum(num_examples[m] for m in members)
  limit = sum(work(members) for members in clusters) / _HEADS_PER_ROUND
  heads = []
  for cluster, members in enumerate(clusters):
    num_heads = min(len(members), math.ceil(work(members) / limit))
    # Dealing the clients out by size keeps the heads of a cluster alike.
    by_size = sorted(members, key=lambda m: -num_examples[m])
    for i in range(num_heads):
      heads.append(_Head(cluster, tuple(by_size[i::num_heads])))
  return sorted(heads, key=lambda head: -work(head.members))


class ClusterTraining:
  """FedAvg in every cluster on its own; a client may be in several clusters."""

  def __init__(self, task, files, options, seed):
    """Builds the TFF computation; arguments as for `FedAvg`."""
    self._files = files
    self._seed = seed
    self._num_parameters = task.model.num_parameters
    self._train_heads = build_train_heads(task.model, options)

  def next(self, vectors, clusters, client_ids, num_epochs, round_num):
    """Runs one round of every cluster.

    Args:
      vectors: The clusters' models, float32 of shape (num_clusters, P).
      clusters: A sequence of tuples of client ids, aligned with `vectors`.
      client_ids: The clients that take part; a cluster without any keeps its
        model.
      num_epochs: Passes over a client's data.
      round_num: The round's number, for random numbers and messages.

    Returns:
      The new models of shape (num_clusters, P), and per cluster a dict of client
      id to mean training loss.

    Raises:
      TrainingDiverged: If a loss or weight is not finite.
    """
    taking_part = set(client_ids)
    heads = plan_heads(
        clusters, {c: file.num_examples for c, file in self._files.train.items()}
    )
    jobs, members_of_job = [], []
    for i, head in enumerate(heads):
      members = [m for m in head.members if m in taking_part]
      members_of_job.append(members)
      # A head without members is sent all the same: TFF prepares itself anew
      # for every number of clients that it has not seen lately.
      seeds = [
          randomness.stateless_seed(self._seed, "local_training", round_num, m)
          for m in members
      ]
      jobs.append(
          collections.OrderedDict(
              index=i,
              vector=vectors[head.cluster],
              paths=np.array([self._files.train[m].path for m in members], np.str_),
              seeds=np.array(seeds, np.int32).reshape(-1, 2),
              num_epochs=num_epochs,
          )
      )
    sums = np.zeros(vectors.shape, np.float64)
    totals = np.zeros(len(clusters))
    losses = [{} for _ in clusters]
    for batch in batches_by_size(jobs, 4 * self._num_parameters):
      # Sorted, because TFF may return results in the order of completion.
      for i, weighted_sum, total, job_losses in sorted(
          self._train_heads(batch), key=lambda result: result[0]
      ):
        cluster = heads[i].cluster
        sums[cluster] += weighted_sum
        totals[cluster] += total
        losses[cluster].update(zip(members_of_job[i], map(float, job_losses)))
    for cluster, cluster_losses in enumerate(losses):
      _check_losses(cluster_losses, f"round {round_num}, cluster {cluster}")
    new_vectors = vectors.copy()
    trained = totals > 0
    new_vectors[trained] = sums[trained] / totals[trained, None]
    for cluster in np.flatnonzero(trained):
      _check_vector(new_vectors[cluster], f"round {round_num}, cluster {cluster}")
    return new_vectors, losses
