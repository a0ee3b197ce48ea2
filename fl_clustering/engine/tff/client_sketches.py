"""Clients' sketches, as `engine/sketch.py` says them.

Clients are told apart by them without a model of each.  Private clusters sum the same sketches up
(`private_clusters/grouping.py`).
"""

from __future__ import annotations

import functools
from typing import Any, Sequence, TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.engine import sketch as sketch_lib
from fl_clustering.engine.tff import client_update
from fl_clustering.engine.tff import model_jobs
from fl_clustering.tasks import networks

if TYPE_CHECKING:
  from fl_clustering.tasks import model as model_lib

# Features, and labels as int32 of shape (n,).
Examples = tuple[tf.Tensor, tf.Tensor]


def unit(vector: tf.Tensor) -> tf.Tensor:
  """Returns float64 of norm 1, or zeros for a vector that is not finite or has no direction."""
  wide = tf.cast(vector, tf.float64)
  wide = tf.where(tf.reduce_all(tf.math.is_finite(wide)), wide, tf.zeros_like(wide))
  norm = tf.norm(wide)
  least = sketch_lib.LEAST_NORM
  return tf.where(norm > least, wide / tf.maximum(norm, least), tf.zeros_like(wide))


def _own_logits(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
  """Returns the logits with those of labels that the client lacks far below."""
  num_classes = logits.shape[1]
  is_own = tf.reduce_any(tf.one_hot(labels, num_classes, True, False), axis=0)
  return tf.where(is_own, logits, sketch_lib.FAR_BELOW)


def losses(
    model: model_lib.Model, parameters: Sequence[tf.Tensor], examples: Examples,
    own_labels: bool = True,
) -> tf.Tensor:
  """Returns the loss of every example, of shape (n,)."""
  features, labels = examples
  logits = model.logits(parameters, features, None)
  if own_labels:
    logits = _own_logits(logits, labels)
  return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def descended(
    model: model_lib.Model, vector: tf.Tensor, examples: Examples, weights: tf.Tensor,
    num_steps: int, rate: float, own_labels: bool = True,
) -> tf.Tensor:
  """Returns the update (P,) of so many gradient steps on all examples, with weights (n,)."""

  def step(number: tf.Tensor, trained: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    with tf.GradientTape() as tape:
      tape.watch(trained)
      of_examples = losses(
          model, client_update.unflatten(model, trained), examples, own_labels
      )
      loss = tf.reduce_sum(weights * of_examples)
    return number + 1, trained - rate * tf.convert_to_tensor(tape.gradient(loss, trained))

  _, trained = tf.while_loop(lambda number, _: number < num_steps, step, (0, vector))
  return trained - vector


def sketch(model: model_lib.Model, examples: Examples, size: int = sketch_lib.SIZE) -> tf.Tensor:
  """Returns a client's sketch, float64 of norm 1."""
  features, labels = tf.cast(examples[0], tf.float32), examples[1]
  probe = networks.Logistic()(model.input_shape, model.num_classes, "float32")
  counts = tf.math.bincount(labels, minlength=model.num_classes, dtype=tf.float32)
  num_labels = tf.math.count_nonzero(counts, dtype=tf.float32)
  weights = 1 / (tf.gather(counts, labels) * num_labels)
  squares = tf.reduce_mean(features**2, axis=list(range(1, features.shape.rank)))
  features = tf.math.divide_no_nan(features, tf.sqrt(tf.reduce_sum(weights * squares)))
  update = descended(
      probe, tf.zeros([probe.num_parameters]), (features, labels), weights, sketch_lib.STEPS,
      sketch_lib.RATE,
  )
  projection = tf.random.stateless_normal((probe.num_parameters, size), sketch_lib.PROJECTION_SEED)
  return unit(tf.linalg.matvec(projection, update, transpose_a=True))


@functools.cache
def build_sketches(model: model_lib.Model, size: int) -> tff.Computation:
  """Returns the computation of `model_jobs.on_clients` whose results are sketches, (size,)."""

  @tf.function
  def of_client(unused_common: tf.Tensor, job: Any) -> tuple[tf.Tensor]:
    features, labels = client_update.decode_examples(model, tf.io.read_file(job["path"]))
    examples = client_update.model_inputs(features), labels
    return (tf.cast(sketch(model, examples, size), tf.float32),)

  return model_jobs.on_clients(of_client, tff.TensorType(np.int32), ("path", np.str_))
