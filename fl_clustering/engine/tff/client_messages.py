"""The messages of `engine/bounded_sums.py` as TensorFlow functions.

Every function reads the client's own file of examples, and public numbers.
"""

from __future__ import annotations

import math
from typing import Any, Callable

import tensorflow as tf

from fl_clustering.engine import bounded_sums
from fl_clustering.engine.tff import client_sketches
from fl_clustering.engine.tff import client_update
from fl_clustering.tasks import model as model_lib

_Examples = client_sketches.Examples


def in_steps(message: tf.Tensor) -> tf.Tensor:
  """Returns a float64 message as integers, int64, whose norm in steps is below its own."""
  return tf.cast(message * (bounded_sums.STEPS * bounded_sums.INSIDE), tf.int64)


def read(model: model_lib.Model, path: tf.Tensor) -> _Examples:
  """Returns the examples of a file."""
  features, labels = client_update.decode_examples(model, tf.io.read_file(path))
  return client_update.model_inputs(features), labels


def _nearest(own: tf.Tensor, centers: tf.Tensor) -> tf.Tensor:
  distances = tf.reduce_sum((own - centers) ** 2, axis=1)
  return tf.argmin(distances, output_type=tf.int32)


def least_loss(model: model_lib.Model, vectors: tf.Tensor, examples: _Examples) -> tf.Tensor:
  """Returns the index of the model of least loss; a loss that is not a number is infinite."""
  losses = tf.map_fn(
      lambda vector: tf.reduce_mean(
          client_sketches.losses(model, client_update.unflatten(model, vector), examples)
      ),
      vectors,
  )
  losses = tf.where(tf.math.is_nan(losses), math.inf, losses)
  return tf.argmin(losses, output_type=tf.int32)


def slot_of(
    model: model_lib.Model, public: Any, sketch_path: tf.Tensor, examples: _Examples
) -> tf.Tensor:
  """Returns the slot of a client; it never leaves the client.

  Args:
    public: `bounded_sums.Public` by its names.
    sketch_path: The client's own file with its centered sketch.
  """
  if public["vectors"].shape[0] == 1:
    return tf.constant(0)
  return tf.cond(
      public["is_locked"],
      lambda: _nearest(
          tf.io.decode_raw(tf.io.read_file(sketch_path), tf.float64), public["centers"]
      ),
      lambda: least_loss(model, public["vectors"], examples),
  )


def update_of(
    model: model_lib.Model, vector: tf.Tensor, examples: _Examples, local_steps: int,
    learning_rate: float, own_labels: bool,
) -> tf.Tensor:
  """Returns the client's update of a model, float64 (P,); zeros if it is not finite.

  Plain FedAvg is over all labels: without `own_labels`.
  """
  num_examples = tf.shape(examples[1])[0]
  weights = tf.fill([num_examples], 1 / tf.cast(num_examples, tf.float32))
  update = client_sketches.descended(
      model, vector, examples, weights, local_steps, learning_rate, own_labels
  )
  wide = tf.cast(update, tf.float64)
  return tf.where(tf.reduce_all(tf.math.is_finite(wide)), wide, tf.zeros_like(wide))


def _in_slot(slot: tf.Tensor, num_slots: int, part: tf.Tensor) -> tf.Tensor:
  """Returns zeros of shape (num_slots, width) with `part` in one slot."""
  return tf.one_hot(slot, num_slots, dtype=tf.float64)[:, tf.newaxis] * part


def round_message(update: tf.Tensor, slot: tf.Tensor, num_slots: int, clip_norm: Any) -> tf.Tensor:
  """Returns what a client sends in a round, float64 of shape (num_slots (P + 1) + 1,).

  Its norm is at most `bounded_sums.ROUND.sensitivity`, whatever the update, float64 (P,), is.
  """
  norm = tf.norm(update)
  clipped = tf.math.divide_no_nan(update, tf.maximum(norm, clip_norm))
  part = tf.concat([clipped, [tf.constant(bounded_sums.COUNT_WEIGHT, tf.float64)]], axis=0)
  bit = tf.where(norm <= clip_norm, 0.5, -0.5)
  return tf.concat(
      [
          tf.reshape(_in_slot(slot, num_slots, part), [-1]),
          [tf.cast(bit, tf.float64) * bounded_sums.BIT_WEIGHT],
      ],
      axis=0,
  )


def norm_message(update: tf.Tensor) -> tf.Tensor:
  """Returns a one for the place of an update's norm in `bounded_sums.NORM_BINS`, float64."""
  place = tf.reduce_sum(tf.cast(tf.norm(update) >= bounded_sums.NORM_BINS, tf.int32))
  return tf.one_hot(place, len(bounded_sums.NORM_BINS) + 1, dtype=tf.float64)


def accuracy(model: model_lib.Model, vector: tf.Tensor, test: _Examples) -> tf.Tensor:
  """Returns the share of examples that a model (P,) names rightly, by finite outputs; float64."""
  features, labels = test
  parameters = client_update.unflatten(model, vector)
  outputs = model.logits(parameters, features, None)
  # In the graphs of TFF, `==` would compare the tensors as objects.
  is_right = tf.equal(tf.argmax(outputs, axis=1, output_type=tf.int32), labels)
  is_right &= tf.reduce_all(tf.math.is_finite(outputs), axis=1)
  return tf.reduce_mean(tf.cast(is_right, tf.float64))


def report_message(
    model: model_lib.Model, vectors: tf.Tensor, slot: tf.Tensor, test: _Examples
) -> tf.Tensor:
  """Returns accuracy - 1/2 on the client's test data, and a half, in its slot; float64 (2 K,)."""
  part = tf.stack([accuracy(model, vectors[slot], test) - 0.5, tf.constant(0.5, tf.float64)])
  return tf.reshape(_in_slot(slot, vectors.shape[0], part), [-1])


def or_zeros(message: Callable[[], tf.Tensor], size: int, *examples: _Examples) -> tf.Tensor:
  """Returns a message in steps, int64 of shape (size,); zeros if a set of examples is empty."""
  is_there = tf.reduce_all([tf.size(labels) > 0 for _, labels in examples])
  found = tf.cond(is_there, lambda: in_steps(message()), lambda: tf.zeros([size], tf.int64))
  return tf.ensure_shape(found, [size])
