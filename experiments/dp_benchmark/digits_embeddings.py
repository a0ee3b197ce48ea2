"""Embeddings of handwritten digits, from the second to last layer of a small network.

The network has two convolutions, each pooled, a layer of 40 units and one of ten.  It
is trained to tell the digits apart; a picture's embedding is the output of the 40 units.
"""

import math
from typing import Any, Callable, Sequence

import numpy as np

from clustering_basics import randomness
from fl_clustering.tasks import digits

DIM = 40
_SHAPES = (
    (3, 3, 1, 16), (16,), (3, 3, 16, 32), (32,), (5 * 5 * 32, DIM), (DIM,), (DIM, 10), (10,),
)
_EPOCHS = 6
_BATCH_SIZE = 50
_LEARNING_RATE = 0.02
_MOMENTUM = 0.9
_DECAY = 0.7  # Of the learning rate, per epoch.


def _initial_parameters(rng: np.random.Generator) -> list[np.ndarray]:
  """Returns He-normal kernels and zero biases."""
  return [
      np.zeros(shape, np.float32) if len(shape) == 1
      else rng.normal(0, math.sqrt(2 / math.prod(shape[:-1])), shape).astype(np.float32)
      for shape in _SHAPES
  ]


def _embedded(images: Any, parameters: Sequence[Any]) -> Any:
  """Returns the output of the 40 units, of shape (num_images, 40)."""
  import tensorflow as tf

  hidden = images
  for kernel, bias in (parameters[0:2], parameters[2:4]):
    hidden = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(hidden, kernel, 1, "VALID"), bias))
    hidden = tf.nn.max_pool2d(hidden, 2, 2, "VALID")
  hidden = tf.reshape(hidden, (-1, _SHAPES[4][0]))
  return tf.nn.relu(tf.nn.bias_add(tf.matmul(hidden, parameters[4]), parameters[5]))


def _build_step(variables: Sequence[Any]) -> Callable[..., None]:
  """Returns a function of (images, labels, rate): one step of SGD with momentum."""
  import tensorflow as tf

  velocities = [tf.Variable(tf.zeros_like(variable)) for variable in variables]

  @tf.function(reduce_retracing=True)
  def step(images: Any, labels: Any, rate: Any) -> None:
    with tf.GradientTape() as tape:
      logits = tf.matmul(_embedded(images, variables), variables[6]) + variables[7]
      loss = tf.reduce_mean(
          tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
      )
    for variable, velocity, gradient in zip(
        variables, velocities, tape.gradient(loss, variables)
    ):
      velocity.assign(_MOMENTUM * velocity - rate * gradient)
      variable.assign_add(velocity)

  return step


def _trained_parameters(
    images: np.ndarray, labels: np.ndarray, seed: int, epochs: int
) -> list[np.ndarray]:
  import tensorflow as tf

  rng = randomness.generator(seed, "private benchmark: digits_embeddings")
  variables = [tf.Variable(values) for values in _initial_parameters(rng)]
  step = _build_step(variables)
  for epoch in range(epochs):
    order = rng.permutation(len(images))
    rate = tf.constant(_LEARNING_RATE * _DECAY**epoch)
    for start in range(0, len(order), _BATCH_SIZE):
      batch = order[start : start + _BATCH_SIZE]
      step(tf.constant(images[batch]), tf.constant(labels[batch].astype(np.int32)), rate)
  return [variable.numpy() for variable in variables]


def _as_floats(images: np.ndarray) -> np.ndarray:
  return images.astype(np.float32) / 255


def embeddings(seed: int, epochs: int = _EPOCHS) -> tuple[np.ndarray, float, str]:
  """Trains the network and returns the embeddings of the digits.

  Returns:
    The embeddings, non-negative float64 of shape (5000, 40) with the digits that the network
    was trained on before the 1,000 others; the network's accuracy on those 1,000; and one
    line on where the digits come from.
  """
  # Imported late: it takes seconds, and only this data set needs it.
  import tensorflow as tf

  # Otherwise the order of additions, and so the last digits, would depend on the threads.
  tf.config.experimental.enable_op_determinism()
  data = digits.load()
  parameters = _trained_parameters(_as_floats(data.pool.features), data.pool.labels, seed, epochs)
  images = _as_floats(np.concatenate([data.pool.features, data.global_test.features]))
  points = _embedded(tf.constant(images), parameters).numpy()
  logits = points[len(data.pool) :] @ parameters[6] + parameters[7]
  accuracy = float((logits.argmax(axis=1) == data.global_test.labels).mean())
  return points.astype(np.float64), accuracy, data.source
