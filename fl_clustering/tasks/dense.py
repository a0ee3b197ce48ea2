"""The models of dense layers alone, for features of any shape.

`mlp` with its default of 200 hidden units is the network 784-200-10 of IFCA (Ghosh,
Chung, Yin, Ramchandran. An Efficient Framework for Clustered Federated Learning. NeurIPS
2020, section 6); `logistic` is softmax regression.
"""

import dataclasses
import itertools
import math
from typing import Any, ClassVar, Sequence

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.tasks import model as model_lib

# More make no sense in a client, and a slip of the hand shall not fill the memory.
_MAX_HIDDEN_UNITS = 100_000


def _build_dense(
    name: str, input_shape: tuple[int, ...], num_classes: int, input_dtype: str,
    hidden_units: Sequence[int],
) -> model_lib.Model:
  """Returns dense layers with ReLU between them, over the flattened features.

  Integers count as numbers; there may be no hidden layer.
  """
  widths = (math.prod(input_shape), *hidden_units, num_classes)
  shapes: dict[str, tuple[int, ...]] = {}
  for i, (before, after) in enumerate(itertools.pairwise(widths), 1):
    shapes[f"dense_{i}/kernel"] = (before, after)
    shapes[f"dense_{i}/bias"] = (after,)

  def logits(parameters: Sequence[Any], inputs: Any, unused_dropout_seed: Any = None) -> Any:
    import tensorflow as tf

    hidden = tf.reshape(tf.cast(inputs, tf.float32), (-1, widths[0]))
    *before, last_kernel, last_bias = parameters
    for kernel, bias in zip(before[::2], before[1::2]):
      hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(hidden, kernel), bias))
    return tf.nn.bias_add(tf.matmul(hidden, last_kernel), last_bias)

  return model_lib.Model(
      name=name,
      input_shape=tuple(input_shape),
      input_dtype=input_dtype,
      num_classes=num_classes,
      parameter_shapes=shapes,
      uses_dropout=False,
      logits=logits,
      head=tuple(shapes)[-2:],
  )


def _takes_anything(unused_shape: tuple[int, ...], unused_dtype: str) -> bool:
  return True


@dataclasses.dataclass(frozen=True)
class Mlp:
  """A network of dense layers; see `models.MODELS`.

  Attributes:
    hidden_units: The widths of its hidden layers, positive integers with commas between.
  """

  about: ClassVar[str] = "dense layers, for images and tables"
  takes = staticmethod(_takes_anything)

  hidden_units: str = options.option(
      str, "Widths of the model's hidden layers, comma-separated.", default="200"
  )

  def __post_init__(self) -> None:
    self.widths()

  def widths(self) -> list[int]:
    """Returns the widths of the hidden layers."""
    widths = [
        int(part) if part.strip().isdecimal() else 0
        for part in str(self.hidden_units).split(",")
    ]
    if not all(1 <= width <= _MAX_HIDDEN_UNITS for width in widths):
      raise validate.error(
          "hidden_units",
          f"be integers in [1, {_MAX_HIDDEN_UNITS}] with commas between, such as 200,100",
          self.hidden_units,
      )
    return widths

  def __call__(
      self, input_shape: tuple[int, ...], num_classes: int, input_dtype: str
  ) -> model_lib.Model:
    return _build_dense("mlp", input_shape, num_classes, input_dtype, self.widths())


@dataclasses.dataclass(frozen=True)
class Logistic:
  """Softmax regression; see `models.MODELS`."""

  about: ClassVar[str] = "softmax regression, for images and tables"
  takes = staticmethod(_takes_anything)

  def __call__(
      self, input_shape: tuple[int, ...], num_classes: int, input_dtype: str
  ) -> model_lib.Model:
    return _build_dense("logistic", input_shape, num_classes, input_dtype, ())
