"""The convolutional networks, models of images."""

import dataclasses
from typing import Any, ClassVar, Sequence

from clustering_basics import validate
from fl_clustering.tasks import model as model_lib

# TensorFlow is imported where it is needed: see `model.py`.


def _takes_images(input_shape: tuple[int, ...], input_dtype: str) -> bool:
  return len(input_shape) == 3 and input_dtype != "int32"


@dataclasses.dataclass(frozen=True)
class CnnSmall:
  """Two 3x3 convolutions, each pooled, and two dense layers; see `models.MODELS`.

  56,714 parameters for images of 28x28x1 and ten classes.
  """

  about: ClassVar[str] = "convolutions, about 57,000 parameters, for images"
  takes = staticmethod(_takes_images)

  def __call__(
      self, input_shape: tuple[int, ...], num_classes: int, input_dtype: str
  ) -> model_lib.Model:
    _check_size("cnn_small", 10, input_shape, num_classes)
    height, width, channels = input_shape
    num_features = _pooled(_pooled(height - 2) - 2) * _pooled(_pooled(width - 2) - 2) * 32

    def logits(parameters: Sequence[Any], images: Any, unused_dropout_seed: Any = None) -> Any:
      (kernel_1, bias_1, kernel_2, bias_2, *dense) = parameters
      hidden = _max_pool(_convolution(images, kernel_1, bias_1))
      hidden = _max_pool(_convolution(hidden, kernel_2, bias_2))
      return _two_dense_layers(hidden, dense)

    return model_lib.Model(
        name="cnn_small",
        input_shape=(height, width, channels),
        input_dtype=input_dtype,
        num_classes=num_classes,
        parameter_shapes=_shapes((channels, 16, 32), (num_features, 64, num_classes)),
        uses_dropout=False,
        logits=model_lib.for_any_batch(logits),
        head=_HEAD,
    )


@dataclasses.dataclass(frozen=True)
class Cnn:
  """Two 3x3 convolutions, pooling, dropout and two dense layers; see `models.MODELS`.

  It is the network with dropout of TFF's EMNIST baselines (`tff.simulation.baselines.emnist`):
  1,199,882 parameters for images of 28x28x1 and ten classes.
  """

  about: ClassVar[str] = (
      "the EMNIST baseline with dropout, 1.2 million parameters, for images"
  )
  takes = staticmethod(_takes_images)

  def __call__(
      self, input_shape: tuple[int, ...], num_classes: int, input_dtype: str
  ) -> model_lib.Model:
    _check_size("cnn", 6, input_shape, num_classes)
    height, width, channels = input_shape
    num_features = _pooled(height - 4) * _pooled(width - 4) * 64

    def logits(parameters: Sequence[Any], images: Any, dropout_seed: Any = None) -> Any:
      (kernel_1, bias_1, kernel_2, bias_2, *dense) = parameters
      hidden = _convolution(images, kernel_1, bias_1)
      hidden = _max_pool(_convolution(hidden, kernel_2, bias_2))
      return _two_dense_layers(hidden, dense, dropout_seed, dropout_rates=(0.25, 0.5))

    return model_lib.Model(
        name="cnn",
        input_shape=(height, width, channels),
        input_dtype=input_dtype,
        num_classes=num_classes,
        parameter_shapes=_shapes((channels, 32, 64), (num_features, 128, num_classes)),
        uses_dropout=True,
        logits=model_lib.for_any_batch(logits),
        head=_HEAD,
    )


def _check_size(model: str, minimum: int, input_shape: tuple[int, ...], num_classes: int) -> None:
  validate.integer(minimum=2, num_classes=num_classes)
  if len(input_shape) != 3 or min(input_shape[:2]) < minimum or input_shape[2] < 1:
    raise validate.error(
        "input_shape",
        f"be (height, width, channels) of at least {minimum}x{minimum}x1 for the model {model}",
        tuple(input_shape),
    )


def _pooled(length: int) -> int:
  return length // 2


_HEAD = ("dense_2/kernel", "dense_2/bias")


def _shapes(channels: tuple[int, ...], units: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
  """Returns the parameters' shapes: two convolutions, then two dense layers."""
  shapes: dict[str, tuple[int, ...]] = {}
  for i in (0, 1):
    shapes[f"conv_{i + 1}/kernel"] = (3, 3, channels[i], channels[i + 1])
    shapes[f"conv_{i + 1}/bias"] = (channels[i + 1],)
  for i in (0, 1):
    shapes[f"dense_{i + 1}/kernel"] = (units[i], units[i + 1])
    shapes[f"dense_{i + 1}/bias"] = (units[i + 1],)
  return shapes


def _convolution(images: Any, kernel: Any, bias: Any) -> Any:
  import tensorflow as tf

  # bias_add, not `+`: its gradient has a kernel of its own, which is faster than
  # the sum over all other dimensions that comes with a broadcast addition.
  return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(images, kernel, 1, "VALID"), bias))


def _max_pool(hidden: Any) -> Any:
  import tensorflow as tf

  return tf.nn.max_pool2d(hidden, 2, 2, "VALID")


def _two_dense_layers(
    hidden: Any, parameters: Sequence[Any], dropout_seed: Any = None,
    dropout_rates: tuple[float, float] = (0, 0),
) -> Any:
  """Returns the logits; each layer's input is dropped out at the rate given."""
  import tensorflow as tf

  kernel_1, bias_1, kernel_2, bias_2 = parameters
  hidden = _dropout(hidden, dropout_rates[0], dropout_seed, 0)
  hidden = tf.reshape(hidden, (-1, kernel_1.shape[0]))
  hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(hidden, kernel_1), bias_1))
  hidden = _dropout(hidden, dropout_rates[1], dropout_seed, 1)
  return tf.nn.bias_add(tf.matmul(hidden, kernel_2), bias_2)


def _dropout(hidden: Any, rate: float, seed: Any, layer: int) -> Any:
  if seed is None or not rate:
    return hidden
  import tensorflow as tf

  # Hashed, not added: callers may count their seeds up, and layer 1 of one step
  # must not draw what layer 0 of the next step draws.
  layer_seed = tf.random.experimental.stateless_fold_in(seed, layer)
  keep = tf.random.stateless_uniform(tf.shape(hidden), layer_seed) >= rate
  return tf.where(keep, hidden / (1 - rate), 0.0)
