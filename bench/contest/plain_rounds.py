"""The limit: FedAvg and evaluations in plain TensorFlow, without any framework."""

from __future__ import annotations

import concurrent.futures
from typing import Any, Callable, Mapping, Sequence, TYPE_CHECKING

import numpy as np
import tensorflow as tf

from bench.contest import contestant_process
from bench.contest import job as job_lib

if TYPE_CHECKING:
  from fl_clustering.tasks import model as model_lib

Parameters = list[np.ndarray]


def build_train(
    model: model_lib.Model, batch_size: int, learning_rate: float
) -> Callable[..., list[tf.Tensor]]:
  """Returns a client's training, one pass of plain SGD, as a `tf.function`.

  It is a function of the parameters, the images, the labels and a seed, int32 of shape (2,), and
  returns the parameters after the pass.  The dropout of a step follows from the seed as in
  `engine/client_update.py`.
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
        logits = model.logits(parameters, images[i : i + batch_size], dropout_seed)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=labels[i : i + batch_size], logits=logits
            )
        )
      gradients = tape.gradient(loss, parameters)
      parameters = [p - learning_rate * g for p, g in zip(parameters, gradients)]
    return parameters

  return train


class PlainTensorFlow:
  """Trains and evaluates clients without any framework."""

  def __init__(
      self, model: model_lib.Model, batch_size: int, learning_rate: float, num_cores: int
  ) -> None:
    """Builds the functions, which are called from as many threads as there are cores."""
    self._pool = concurrent.futures.ThreadPoolExecutor(num_cores)
    self._clients: dict[str, tuple[tf.Tensor, tf.Tensor]] = {}

    @tf.function(reduce_retracing=True)
    def confusion(
        parameters: list[tf.Tensor], images: tf.Tensor, labels: tf.Tensor
    ) -> tf.Tensor:
      predicted = tf.argmax(model.logits(parameters, images, None), axis=1)
      return tf.math.confusion_matrix(labels, predicted, model.num_classes)

    # One call per client for all models: with batches this small, calls cost much.
    @tf.function(reduce_retracing=True)
    def losses(
        models_parameters: list[list[tf.Tensor]], images: tf.Tensor, labels: tf.Tensor
    ) -> list[tf.Tensor]:
      return [
          tf.reduce_mean(
              tf.nn.sparse_softmax_cross_entropy_with_logits(
                  labels=labels, logits=model.logits(parameters, images, None)
              )
          )
          for parameters in models_parameters
      ]

    self._train = build_train(model, batch_size, learning_rate)
    self._confusion = confusion
    self._losses = losses

  def take_clients(self, clients: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Takes clients' images, float32, and labels, int32, into memory, in place of earlier ones."""
    self._clients.update({
        client_id: (tf.constant(images), tf.constant(labels))
        for client_id, (images, labels) in clients.items()
    })

  def average(
      self,
      parameters: Parameters,
      clusters: Sequence[Sequence[str]],
      seeds: Mapping[str, np.ndarray] | None = None,
  ) -> list[Parameters]:
    """Trains every member of every cluster; returns each cluster's average.

    Args:
      parameters: The parameters to start from.
      clusters: Client ids.
      seeds: From a client's id to the seed of its dropout; None for the same for all.
    """
    def train(client_id: str) -> tuple[Parameters, int]:
      images, labels = self._clients[client_id]
      seed = (0, 0) if seeds is None else seeds[client_id]
      trained = self._train(parameters, images, labels, tf.constant(seed, tf.int32))
      return [p.numpy() for p in trained], len(labels)

    # The largest first, so that no thread is left waiting.
    pairs = [(client_id, k) for k, members in enumerate(clusters) for client_id in members]
    pairs.sort(key=lambda pair: -len(self._clients[pair[0]][1]))
    sums = [[np.zeros(p.shape, np.float32) for p in parameters] for _ in clusters]
    totals = np.zeros(len(clusters))
    trained = self._pool.map(train, [client_id for client_id, _ in pairs])
    for (_, k), (result, num_examples) in zip(pairs, trained):
      for total, p in zip(sums[k], result):
        total += np.float32(num_examples) * p
      totals[k] += num_examples
    return [[p / total for p in parts] for parts, total in zip(sums, totals)]

  def confusions(
      self, models_parameters: Sequence[Parameters], images: tf.Tensor, labels: tf.Tensor
  ) -> list[np.ndarray]:
    """Returns every model's confusion matrix on the same images."""
    return list(self._pool.map(
        lambda parameters: self._confusion(parameters, images, labels).numpy(), models_parameters
    ))

  def losses(self, models_parameters: Sequence[Parameters]) -> list[list[np.ndarray]]:
    """Returns per client, the largest first, every model's loss on its training data."""
    def of_client(client: tuple[tf.Tensor, tf.Tensor]) -> list[np.ndarray]:
      return [loss.numpy() for loss in self._losses(models_parameters, *client)]

    clients = sorted(self._clients.values(), key=lambda client: -len(client[1]))
    return list(self._pool.map(of_client, clients))


def serve(job: job_lib.Job, answer_requests: Callable[[Any], None]) -> None:
  """Answers requests; see `contestant_process.py`."""
  num_cores = contestant_process.limit_threads(tf)
  plain = PlainTensorFlow(job.model(), job.batch_size, job.learning_rate, num_cores)
  parameters = job.parameters(job.vector)

  def prepare(number: int) -> Callable[[], np.ndarray]:
    ids = {job.client_ids[client]: client for client in job.clients_of(number)}
    seeds = {name: job.dropout_seed(client, number) for name, client in ids.items()}
    plain.take_clients({name: job.examples(client, number) for name, client in ids.items()})

    def run_round() -> np.ndarray:
      nonlocal parameters
      (parameters,) = plain.average(parameters, [list(ids)], seeds)
      return job_lib.flat(parameters)

    return run_round

  answer_requests(prepare)
