"""The models of dense layers alone, for features of any shape.

`mlp` with its default of 200 hidden units is the network 784-200-10 of IFCA (Ghosh,
Chung, Yin, Ramchandran. An Efficient Framework for Clustered Federated Learning. NeurIPS
2020, section 6); `logistic` is softmax regression.
"""

import dataclasses
import itertools
import math
from typing import ClassVar

from clustering_basics import validate
from fl_clustering import options
from fl_clustering.tasks import model as model_lib

# More make no sense in a client, and a slip of the hand shall not fill the memory.
_MAX_HIDDEN_UNITS = 100_000


def build_dense(name, input_shape, num_classes, input_dtype, hidden_units):
  """Returns dense layers with ReLU between them, over the flattened features.

  Args:
    name: The model's name.
    input_shape: Shape of one example's features.
    num_classes: Number of outputs, at least two.
    input_dtype: "uint8", "float32" or "int32"; integers count as numbers.
    hidden_units: Width of each hidden layer; may be empty.
  """
  validate.integer(minimum=2, num_classes=num_classes)
  widths = (math.prod(input_shape), *hidden_units, num_classes)
  shapes = {}
  for i, (before, after) in enumerate(itertools.pairwise(widths), 1):
    shapes[f"dense_{i}/kernel"] = (before, after)
    shapes[f"dense_{i}/bias"] = (after,)

  def logits(parameters, inputs, dropout_seed=None):
    del dropout_seed  # There is no dropout in this model.
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
  )


def _takes_anything(input_shape, input_dtype):
  del input_shape, input_dtype
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

  def __post_init__(self):
    self.widths()

  def widths(self):
    """Returns the widths of the hidden layers, a list of integers."""
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

  def __call__(self, input_shape, num_classes, input_dtype):
    return build_dense("mlp", input_shape, num_classes, input_dtype, self.widths())


@dataclasses.dataclass(frozen=True)
class Logistic:
  """Softmax regression; see `models.MODELS`."""

  about: ClassVar[str] = "softmax regression, for images and tables"
  takes = staticmethod(_takes_anything)

  def __call__(self, input_shape, num_classes, input_dtype):
    return build_dense("logistic", input_shape, num_classes, input_dtype, ())
