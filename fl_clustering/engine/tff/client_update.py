"""What a client does in a round, as a pure TensorFlow function.

It reads its own file of examples and passes over them in batches.  With each, it takes a
step: usually of plain stochastic gradient descent, from the parameters it is sent.  A model's
parameters travel as one flat float32 vector.  The client's random numbers (the order of its
examples, dropout) follow from the seed it is sent.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Callable, Sequence, TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
  from fl_clustering.tasks import model as model_lib


def unflatten(model: model_lib.Model, vector: tf.Tensor) -> list[tf.Tensor]:
  """Returns the parameters of `model` from a flat vector of shape (P,)."""
  shapes = list(model.parameter_shapes.values())
  pieces = tf.split(vector, [math.prod(shape) for shape in shapes])
  return [tf.reshape(piece, shape) for piece, shape in zip(pieces, shapes)]


def flatten(parameters: Sequence[tf.Tensor]) -> tf.Tensor:
  """Returns one vector of shape (P,) from a model's parameters."""
  return tf.concat([tf.reshape(p, [-1]) for p in parameters], axis=0)


def bytes_per_example(model: model_lib.Model) -> int:
  """Returns the length of a row of `client_files.py`'s files."""
  return (math.prod(model.input_shape) + 1) * tf.as_dtype(model.input_dtype).size


def decode_examples(model: model_lib.Model, contents: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns features (n, *input_shape) and int32 labels (n,) of `client_files.py`'s rows."""
  num_features = math.prod(model.input_shape)
  rows = tf.reshape(tf.io.decode_raw(contents, model.input_dtype), [-1, num_features + 1])
  features = tf.reshape(rows[:, :num_features], [-1, *model.input_shape])
  return features, tf.cast(rows[:, num_features], tf.int32)


def model_inputs(features: tf.Tensor) -> tf.Tensor:
  """Returns features as a model takes them: bytes in [0, 1], other numbers as they are."""
  if features.dtype == tf.uint8:
    return tf.cast(features, tf.float32) / 255.0
  return features


# A model's mean loss on a batch, and its gradients.
LossAndGradients = Callable[[list[tf.Tensor]], tuple[tf.Tensor, list[tf.Tensor]]]
# What a client does with a batch: a function of what it trains, a `LossAndGradients` and the
# number of the pass, from 0.  It returns what it has trained, and the loss.
Step = Callable[[Any, LossAndGradients, tf.Tensor], tuple[Any, tf.Tensor]]


def build_passes(model: model_lib.Model, batch_size: int, do_step: Step) -> Callable:
  """Returns a client's passes over its data as a `tf.function`.

  It takes what the client trains, the path of its file, an int32 seed of shape (2,) and the
  number of passes.  It returns what was trained, the mean loss over the last pass (before each
  step, as usual) and the number of examples, a float32.
  """

  def loss_and_gradients(
      inputs: tf.Tensor, labels: tf.Tensor, dropout_seed: tf.Tensor | None,
      parameters: list[tf.Tensor],
  ) -> tuple[tf.Tensor, list[tf.Tensor]]:
    with tf.GradientTape() as tape:
      tape.watch(parameters)
      logits = model.logits(parameters, inputs, dropout_seed)
      loss = tf.reduce_mean(
          tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
      )
    # An embedding's gradient is sparse.
    return loss, list(map(tf.convert_to_tensor, tape.gradient(loss, parameters)))

  @tf.function
  def do_passes(trained: Any, path: Any, seed: Any, num_epochs: Any) -> tuple:
    features, labels = decode_examples(model, tf.io.read_file(path))
    num_examples = tf.shape(labels)[0]
    num_steps = (num_examples + batch_size - 1) // batch_size
    loss_sum = 0.0
    for epoch in tf.range(num_epochs):
      epoch_seed = tf.random.experimental.stateless_fold_in(seed, epoch)
      order = tf.random.experimental.stateless_shuffle(tf.range(num_examples), epoch_seed)
      loss_sum = 0.0
      for step in tf.range(num_steps):
        batch = order[step * batch_size : (step + 1) * batch_size]
        inputs = model_inputs(tf.gather(features, batch))
        dropout_seed = None
        if model.uses_dropout:
          dropout_seed = tf.random.experimental.stateless_fold_in(epoch_seed, step + 1)
        on_batch = functools.partial(
            loss_and_gradients, inputs, tf.gather(labels, batch), dropout_seed
        )
        trained, loss = do_step(trained, on_batch, epoch)
        loss_sum += loss * tf.cast(tf.size(batch), tf.float32)
    num_examples = tf.cast(num_examples, tf.float32)
    return trained, loss_sum / num_examples, num_examples

  return do_passes


def build_client_update(
    model: model_lib.Model, batch_size: int, learning_rate: float
) -> Callable:
  """Returns the `build_passes` in which a client trains a model, its parameters as a list."""

  def do_step(
      parameters: list[tf.Tensor], on_batch: LossAndGradients, epoch: tf.Tensor
  ) -> tuple[list[tf.Tensor], tf.Tensor]:
    del epoch  # All passes are alike.
    loss, gradients = on_batch(parameters)
    return [p - learning_rate * g for p, g in zip(parameters, gradients)], loss

  return build_passes(model, batch_size, do_step)
