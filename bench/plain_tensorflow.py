"""The limit of the training engine: its arithmetic in plain TensorFlow, without any framework.

The examples are in memory as float tensors, and there is one `tf.function` per client or model,
called from as many threads as there are cores.
"""

from __future__ import annotations

from concurrent import futures
import os
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

Parameters = Sequence[Any]
# A client's images, float32, and int32 labels.
Client = tuple[tf.Tensor, tf.Tensor]


def limit_threads() -> int:
  """Gives every operation one thread; returns the number of cores.

  For what computes as many clients at a time as there are cores; before the first operation.
  """
  num_cores = len(os.sched_getaffinity(0))
  tf.config.threading.set_intra_op_parallelism_threads(1)
  tf.config.threading.set_inter_op_parallelism_threads(num_cores)
  return num_cores


def build_train(model: Any, batch_size: int, learning_rate: float) -> Callable[..., Any]:
  """Returns a client's training, one pass of plain SGD, as a `tf.function`.

  It is a function of the parameters, the images, the labels and a seed, int32 of shape (2,), and
  returns the parameters after the pass.  The dropout of a step follows from the seed as in
  `engine/tff/client_update.py`.
  """

  @tf.function(
      input_signature=[
          [tf.TensorSpec(shape) for shape in model.parameter_shapes.values()],
          tf.TensorSpec([None, *model.input_shape]),
          tf.TensorSpec([None], tf.int32),
          tf.TensorSpec([2], tf.int32),
      ]
  )
  def train(
      parameters: list[tf.Tensor], images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor
  ) -> list[tf.Tensor]:
    for i in tf.range(0, tf.shape(labels)[0], batch_size):
      dropout_seed = None
      if model.uses_dropout:
        dropout_seed = tf.random.experimental.stateless_fold_in(seed, i // batch_size + 1)
      with tf.GradientTape() as tape:
        tape.watch(parameters)
        loss = _loss(
            model, parameters, images[i : i + batch_size], labels[i : i + batch_size], dropout_seed
        )
      gradients = tape.gradient(loss, parameters)
      parameters = [p - learning_rate * g for p, g in zip(parameters, gradients)]
    return parameters

  return train


def _loss(
    model: Any, parameters: Parameters, images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor | None
) -> tf.Tensor:
  logits = model.logits(parameters, images, seed)
  return tf.reduce_mean(
      tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
  )


class PlainTensorFlow:
  """Trains and evaluates a model on clients."""

  def __init__(self, model: Any, batch_size: int, learning_rate: float, num_cores: int) -> None:
    self._pool = futures.ThreadPoolExecutor(num_cores)

    @tf.function(reduce_retracing=True)
    def confusion(parameters: Parameters, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
      predicted = tf.argmax(model.logits(parameters, images, None), axis=1)
      return tf.math.confusion_matrix(labels, predicted, model.num_classes)

    # One call per client for all models: with batches this small, calls cost much.
    @tf.function(reduce_retracing=True)
    def losses(
        models_parameters: list[Parameters], images: tf.Tensor, labels: tf.Tensor
    ) -> list[tf.Tensor]:
      return [_loss(model, one, images, labels, None) for one in models_parameters]

    self._train = build_train(model, batch_size, learning_rate)
    self._confusion = confusion
    self._losses = losses

  def average(
      self,
      parameters: Parameters,
      clients: Mapping[Any, Client],
      clusters: Any,
      seeds: Mapping[Any, Any] | None = None,
  ) -> list[list[np.ndarray]]:
    """Trains every member of every cluster; returns each cluster's average.

    Args:
      parameters: The parameters to start from.
      clients: The clients by id.
      clusters: Client ids.
      seeds: From a client's id to the seed of its dropout; None for the same for all.
    """
    def train(client_id: Any) -> list[np.ndarray]:
      seed = tf.constant((0, 0) if seeds is None else seeds[client_id], tf.int32)
      return [p.numpy() for p in self._train(parameters, *clients[client_id], seed)]

    # The largest first, so that no thread is left waiting.
    pairs = [(client_id, k) for k, members in enumerate(clusters) for client_id in members]
    sizes = {client_id: len(labels) for client_id, (_, labels) in clients.items()}
    pairs.sort(key=lambda pair: -sizes[pair[0]])
    sums = [[np.zeros(p.shape, np.float32) for p in parameters] for _ in clusters]
    totals = np.zeros(len(clusters))
    trained = self._pool.map(train, [client_id for client_id, _ in pairs])
    for (client_id, k), result in zip(pairs, trained):
      for total, p in zip(sums[k], result):
        total += np.float32(sizes[client_id]) * p
      totals[k] += sizes[client_id]
    return [[p / total for p in parts] for parts, total in zip(sums, totals)]

  def confusions(
      self, models_parameters: Sequence[Parameters], images: tf.Tensor, labels: tf.Tensor
  ) -> list[np.ndarray]:
    """Returns every model's confusion matrix on the same images."""
    return list(self._pool.map(
        lambda parameters: self._confusion(parameters, images, labels).numpy(), models_parameters
    ))

  def losses(
      self, models_parameters: Sequence[Parameters], clients: Mapping[Any, Client]
  ) -> list[list[np.ndarray]]:
    """Returns per client, the largest first, every model's loss on its data."""
    def of_client(client: Client) -> list[np.ndarray]:
      return [loss.numpy() for loss in self._losses(models_parameters, *client)]

    by_size = sorted(clients.values(), key=lambda client: -len(client[1]))
    return list(self._pool.map(of_client, by_size))
