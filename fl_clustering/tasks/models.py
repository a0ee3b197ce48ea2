"""The models: small convolutional networks as pure functions of their parameters.

`logits` is a TensorFlow function of (parameters, images, dropout seed) that
keeps no state, so that it runs eagerly, in a `tf.function` and inside a TFF
computation alike, and many models can share one graph.

`cnn` is the network with dropout of TFF's EMNIST baselines
(`tff.simulation.baselines.emnist`); `cnn_small` has a twentieth of its
parameters.
"""

import dataclasses
import math
from typing import Callable

import numpy as np

from clustering_basics import validate

# TensorFlow is imported where it is needed and not here: the command line reads
# this module's registry, and `--help` or a misspelt flag should not have to wait
# the seconds which that import takes.


@dataclasses.dataclass(frozen=True, eq=False)
class ImageModel:
  """A model of images, without its parameters.

  Attributes:
    name: Its name in `MODELS`.
    input_shape: (height, width, channels) of one image.
    num_classes: Number of outputs.
    parameter_shapes: Shape of every parameter by name, in the order of all
      lists of parameters.
    uses_dropout: Whether a dropout seed changes the output.
    logits: Function of (parameters, images, dropout_seed): a list of float32
      tensors shaped as in `parameter_shapes`; float32 images of shape
      (batch, height, width, channels) with ink = 1; an int32 tensor of shape
      (2,), or None for evaluation, without dropout.  Returns float32 of shape
      (batch, num_classes); a batch may be empty.
  """

  name: str
  input_shape: tuple[int, int, int]
  num_classes: int
  parameter_shapes: dict[str, tuple[int, ...]]
  uses_dropout: bool
  logits: Callable

  @property
  def num_parameters(self):
    """The number of all parameters together."""
    return sum(math.prod(shape) for shape in self.parameter_shapes.values())

  def initial_parameters(self, rng):
    """Returns a list of float32 arrays: Glorot-uniform kernels, zero biases.

    Args:
      rng: A `np.random.Generator`.
    """
    return [_initial_values(shape, rng) for shape in self.parameter_shapes.values()]


def _initial_values(shape, rng):
  if len(shape) == 1:
    return np.zeros(shape, np.float32)
  receptive_field = math.prod(shape[:-2])
  limit = math.sqrt(6 / (receptive_field * (shape[-2] + shape[-1])))
  return rng.uniform(-limit, limit, shape).astype(np.float32)


def build_cnn_small(input_shape, num_classes):
  """Returns two 3x3 convolutions, each pooled, and two dense layers.

  56,714 parameters for images of 28x28x1 and ten classes.

  Args:
    input_shape: (height, width, channels) of one image.
    num_classes: Number of outputs, at least two.

  Raises:
    ValueError: If the images are too small for the layers.
  """
  _check_size("cnn_small", 10, input_shape, num_classes)
  height, width, channels = input_shape
  num_features = _pooled(_pooled(height - 2) - 2) * _pooled(_pooled(width - 2) - 2) * 32

  def logits(parameters, images, dropout_seed=None):
    del dropout_seed  # There is no dropout in this model.
    (kernel_1, bias_1, kernel_2, bias_2, *dense) = parameters
    hidden = _max_pool(_convolution(images, kernel_1, bias_1))
    hidden = _max_pool(_convolution(hidden, kernel_2, bias_2))
    return _two_dense_layers(hidden, dense)

  return ImageModel(
      name="cnn_small",
      input_shape=(height, width, channels),
      num_classes=num_classes,
      parameter_shapes=_shapes((channels, 16, 32), (num_features, 64, num_classes)),
      uses_dropout=False,
      logits=_for_any_batch(logits),
  )


def build_cnn(input_shape, num_classes):
  """Returns TFF's EMNIST baseline: two 3x3 convolutions, pooling, dropout, dense.

  1,199,882 parameters for images of 28x28x1 and ten classes.

  Args:
    input_shape: (height, width, channels) of one image.
    num_classes: Number of outputs, at least two.

  Raises:
    ValueError: If the images are too small for the layers.
  """
  _check_size("cnn", 6, input_shape, num_classes)
  height, width, channels = input_shape
  num_features = _pooled(height - 4) * _pooled(width - 4) * 64

  def logits(parameters, images, dropout_seed=None):
    (kernel_1, bias_1, kernel_2, bias_2, *dense) = parameters
    hidden = _convolution(images, kernel_1, bias_1)
    hidden = _max_pool(_convolution(hidden, kernel_2, bias_2))
    return _two_dense_layers(hidden, dense, dropout_seed, dropout_rates=(0.25, 0.5))

  return ImageModel(
      name="cnn",
      input_shape=(height, width, channels),
      num_classes=num_classes,
      parameter_shapes=_shapes((channels, 32, 64), (num_features, 128, num_classes)),
      uses_dropout=True,
      logits=_for_any_batch(logits),
  )


def _check_size(model, minimum, input_shape, num_classes):
  validate.integer(minimum=2, num_classes=num_classes)
  if len(input_shape) != 3 or min(input_shape[:2]) < minimum or input_shape[2] < 1:
    raise validate.error(
        "input_shape",
        f"be (height, width, channels) of at least {minimum}x{minimum}x1 for the model {model}",
        tuple(input_shape),
    )


def _pooled(length):
  return length // 2


def _shapes(channels, units):
  """Returns the parameters' shapes: two convolutions, then two dense layers."""
  shapes = {}
  for i in (0, 1):
    shapes[f"conv_{i + 1}/kernel"] = (3, 3, channels[i], channels[i + 1])
    shapes[f"conv_{i + 1}/bias"] = (channels[i + 1],)
  for i in (0, 1):
    shapes[f"dense_{i + 1}/kernel"] = (units[i], units[i + 1])
    shapes[f"dense_{i + 1}/bias"] = (units[i + 1],)
  return shapes


def _for_any_batch(logits):
  """Returns a model's function of at least one image as one that takes none as well.

  oneDNN's convolution of no images has the shape of its input, and the next operation
  fails.  So a batch of none is computed as one blank image, whose logits are dropped.
  """

  def logits_of_any_batch(parameters, images, dropout_seed=None):
    import tensorflow as tf

    num_images, *image_shape = images.shape
    if num_images:
      return logits(parameters, images, dropout_seed)
    num_images = tf.shape(images)[0]
    # Neither padding, which oneDNN takes into the convolution, nor a condition, which
    # makes evaluations a fifth slower.
    blank = tf.zeros((tf.cast(num_images < 1, tf.int32), *image_shape))
    return logits(parameters, tf.concat([images, blank], 0), dropout_seed)[:num_images]

  return logits_of_any_batch


def _convolution(images, kernel, bias):
  import tensorflow as tf

  # bias_add, not `+`: its gradient has a kernel of its own, which is faster than
  # the sum over all other dimensions that comes with a broadcast addition.
  return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(images, kernel, 1, "VALID"), bias))


def _max_pool(hidden):
  import tensorflow as tf

  return tf.nn.max_pool2d(hidden, 2, 2, "VALID")


def _two_dense_layers(hidden, parameters, dropout_seed=None, dropout_rates=(0, 0)):
  """Returns the logits; each layer's input is dropped out at the rate given."""
  import tensorflow as tf

  kernel_1, bias_1, kernel_2, bias_2 = parameters
  hidden = _dropout(hidden, dropout_rates[0], dropout_seed, 0)
  hidden = tf.reshape(hidden, (-1, kernel_1.shape[0]))
  hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(hidden, kernel_1), bias_1))
  hidden = _dropout(hidden, dropout_rates[1], dropout_seed, 1)
  return tf.nn.bias_add(tf.matmul(hidden, kernel_2), bias_2)


def _dropout(hidden, rate, seed, layer):
  if seed is None or not rate:
    return hidden
  import tensorflow as tf

  # Hashed, not added: callers may count their seeds up, and layer 1 of one step
  # must not draw what layer 0 of the next step draws.
  layer_seed = tf.random.experimental.stateless_fold_in(seed, layer)
  keep = tf.random.stateless_uniform(tf.shape(hidden), layer_seed) >= rate
  return tf.where(keep, hidden / (1 - rate), 0.0)


@dataclasses.dataclass(frozen=True)
class ModelEntry:
  """A row of `MODELS`; it is called with the shape of an image and the number of classes.

  Attributes:
    build: A function from these two to an `ImageModel`.
    about: What it is, in a few words.
  """

  build: Callable[[tuple[int, int, int], int], ImageModel]
  about: str

  def __call__(self, input_shape, num_classes):
    return self.build(input_shape, num_classes)


MODELS = {
    "cnn_small": ModelEntry(build_cnn_small, "about 57,000 parameters"),
    "cnn": ModelEntry(build_cnn, "the EMNIST baseline with dropout, 1.2 million parameters"),
}
