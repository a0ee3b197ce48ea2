"""The networks: layers in a row, with ReLU after every convolution and dense layer but the last.

`cnn` is the network with dropout of TFF's EMNIST baselines (`tff.simulation.baselines.emnist`).
`mlp` with its default of 200 hidden units is the network 784-200-10 of IFCA (Ghosh, Chung, Yin,
Ramchandran. An Efficient Framework for Clustered Federated Learning. NeurIPS 2020, section 6).
"""

import collections
import dataclasses
import math
from typing import Any, ClassVar, Sequence

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.tasks import model as model_lib

# More make no sense in a client, and a slip of the hand shall not fill the memory.
_MAX_HIDDEN_UNITS = 100_000


def _widths(hidden_units: str) -> list[int]:
  widths = [
      int(part) if part.strip().isdecimal() else 0 for part in str(hidden_units).split(",")
  ]
  if not all(1 <= width <= _MAX_HIDDEN_UNITS for width in widths):
    raise validate.error(
        "hidden_units",
        f"be integers in [1, {_MAX_HIDDEN_UNITS}] with commas between, such as 200,100",
        hidden_units,
    )
  return widths


# A kind of layer and its size: the outputs of "conv" (3x3) and "dense", the rate of "dropout".
# "pool" takes the largest of each square of this side.
_Layers = Sequence[tuple[str, Any]]


def _shapes(layers: _Layers, input_shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
  """Returns the parameters' shapes by name: a kernel and a bias for each layer that has outputs."""
  shapes: dict[str, tuple[int, ...]] = {}
  numbers: collections.Counter[str] = collections.Counter()
  shape = kernel = input_shape
  for kind, size in layers:
    if kind == "pool":
      shape = (shape[0] // size, shape[1] // size, shape[2])
    elif kind == "conv":
      shape, kernel = (shape[0] - 2, shape[1] - 2, size), (3, 3, shape[2], size)
    elif kind == "dense":
      shape, kernel = (size,), (math.prod(shape), size)
    if kind in ("conv", "dense"):
      numbers[kind] += 1
      shapes[f"{kind}_{numbers[kind]}/kernel"] = kernel
      shapes[f"{kind}_{numbers[kind]}/bias"] = (size,)
  return shapes


def _logits(layers: _Layers, parameters: Sequence[Any], inputs: Any, dropout_seed: Any) -> Any:
  import tensorflow as tf  # Not on top: see `model.py`.

  hidden, pairs = tf.cast(inputs, tf.float32), zip(parameters[::2], parameters[1::2])
  num_dropouts = 0
  for place, (kind, size) in enumerate(layers, 1):
    if kind == "pool":
      hidden = tf.nn.max_pool2d(hidden, size, size, "VALID")
    elif kind == "dropout":
      hidden = _dropout(hidden, size, dropout_seed, num_dropouts)
      num_dropouts += 1
    else:
      kernel, bias = next(pairs)
      if kind == "conv":
        hidden = tf.nn.conv2d(hidden, kernel, 1, "VALID")
      else:
        hidden = tf.matmul(tf.reshape(hidden, (-1, kernel.shape[0])), kernel)
      # bias_add, not `+`: its gradient has a kernel of its own, which is faster than the sum
      # over all other dimensions that comes with a broadcast addition.
      hidden = tf.nn.bias_add(hidden, bias)
      if place < len(layers):
        hidden = tf.nn.relu(hidden)
  return hidden


def _dropout(hidden: Any, rate: float, seed: Any, number: int) -> Any:
  if seed is None:
    return hidden
  import tensorflow as tf

  # Hashed, not added: callers may count their seeds up, and the second layer with dropout must
  # not draw in one step what the first one draws in the next.
  own_seed = tf.random.experimental.stateless_fold_in(seed, number)
  keep = tf.random.stateless_uniform(tf.shape(hidden), own_seed) >= rate
  return tf.where(keep, hidden / (1 - rate), 0.0)


@dataclasses.dataclass(frozen=True)
class _Network(options.Settings):
  """A row of `models.MODELS`.  Integers count as numbers.

  Attributes:
    name: Its name there.
    about: What it is.
    min_side: The smallest image's height and width; None for features of any shape.
  """

  name: ClassVar[str]
  about: ClassVar[str]
  min_side: ClassVar[int | None] = None

  @property
  def layers(self) -> _Layers:
    """All layers but the last, which is a dense one."""
    return ()

  @classmethod
  def takes(cls, input_shape: tuple[int, ...], input_dtype: str) -> bool:
    """Returns whether examples may have such features."""
    return cls.min_side is None or len(input_shape) == 3 and input_dtype != "int32"

  def __call__(
      self, input_shape: tuple[int, ...], num_classes: int, input_dtype: str
  ) -> model_lib.Model:
    side = self.min_side
    if side is not None and (min(input_shape[:2]) < side or input_shape[2] < 1):
      raise validate.error(
          "input_shape",
          f"be (height, width, channels) of at least {side}x{side}x1 for the model {self.name}",
          input_shape,
      )
    layers = (*self.layers, ("dense", num_classes))
    shapes = _shapes(layers, input_shape)

    def logits(parameters: Sequence[Any], inputs: Any, dropout_seed: Any = None) -> Any:
      return _logits(layers, parameters, inputs, dropout_seed)

    return model_lib.Model(
        name=self.name,
        input_shape=input_shape,
        input_dtype=input_dtype,
        num_classes=num_classes,
        parameter_shapes=shapes,
        uses_dropout=any(kind == "dropout" for kind, _ in layers),
        logits=logits if side is None else model_lib.for_any_batch(logits),
        head=tuple(shapes)[-2:],
        layers=layers,
    )


class CnnSmall(_Network):
  """Convolutions, each pooled: 56,714 parameters for images of 28x28x1 and ten classes."""

  name = "cnn_small"
  about = "convolutions, about 57,000 parameters, for images"
  min_side = 10
  layers = (("conv", 16), ("pool", 2), ("conv", 32), ("pool", 2), ("dense", 64))


class Cnn(_Network):
  """Convolutions and dropout: 1,199,882 parameters for images of 28x28x1 and ten classes."""

  name = "cnn"
  about = "the EMNIST baseline with dropout, 1.2 million parameters, for images"
  min_side = 6
  layers = (
      ("conv", 32), ("conv", 64), ("pool", 2), ("dropout", 0.25), ("dense", 128), ("dropout", 0.5)
  )


class Logistic(_Network):
  """Softmax regression."""

  name = "logistic"
  about = "softmax regression, for images and tables"


@dataclasses.dataclass(frozen=True)
class Mlp(_Network):
  """Dense layers.

  Attributes:
    hidden_units: The widths of its hidden layers, positive integers with commas between.
  """

  name = "mlp"
  about = "dense layers, for images and tables"

  hidden_units: str = options.option(
      str, "Widths of the model's hidden layers, comma-separated.", default="200", rule=_widths
  )

  @property
  def layers(self) -> _Layers:
    return tuple(("dense", width) for width in _widths(self.hidden_units))
