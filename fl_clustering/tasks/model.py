"""What a model is: a pure function of its parameters, without a state.

`Model.logits` is a TensorFlow function of (parameters, inputs, dropout seed).  It keeps
no state, so that it runs eagerly, in a `tf.function` and inside a TFF computation alike,
and many models can share one graph.  `Model.jax_logits` is one of JAX.
"""

import dataclasses
import math
from typing import Any, Callable, Mapping

import numpy as np

# TensorFlow is imported where it is needed, here and in the models' files: the command
# line reads their registry, and `--help` or a misspelt flag should not have to wait the
# seconds which that import takes.


def glorot_uniform(
    parameter_shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator
) -> list[np.ndarray]:
  """Returns float32 kernels, Glorot-uniform, and zero biases: the shapes of rank 1."""
  return [_initial_values(shape, rng) for shape in parameter_shapes.values()]


def _initial_values(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
  if len(shape) == 1:
    return np.zeros(shape, np.float32)
  receptive_field = math.prod(shape[:-2])
  limit = math.sqrt(6 / (receptive_field * (shape[-2] + shape[-1])))
  return rng.uniform(-limit, limit, shape).astype(np.float32)


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
  """A model without its parameters.

  Attributes:
    name: Its name in `models.MODELS`, or another one for a user's own model.
    input_shape: Shape of one example's features, such as (height, width, channels).
    input_dtype: Their type, "uint8", "float32" or "int32"; the model gets bytes as
      float32 in [0, 1].
    parameter_shapes: Shape of every parameter by name, in the order of all
      lists of parameters.
    uses_dropout: Whether a dropout seed changes the output.
    logits: Function of (parameters, inputs, dropout_seed): a list of float32 tensors
      shaped as in `parameter_shapes`; inputs of shape (batch, *input_shape), int32 for
      an `input_dtype` of int32 and else float32; an int32 tensor of shape (2,), or None
      for evaluation, without dropout.  Returns float32 of shape (batch, num_classes); a
      batch may be empty.  None for a model that only JAX can compute.
    jax_logits: The same in JAX, with a key of `jax.random` for the seed; None for a model that has
      layers, or that only TensorFlow can compute.
    draw: Function of (parameter_shapes, rng) that returns what `initial_parameters` does.
    head: The names of the last layer's parameters; none where it is unknown.
    layers: The layers of `networks.py` that it consists of, which the engine in JAX computes; none
      for another model.
  """

  name: str
  input_shape: tuple[int, ...]
  input_dtype: str
  num_classes: int
  parameter_shapes: dict[str, tuple[int, ...]]
  uses_dropout: bool
  logits: Any
  jax_logits: Any = None
  draw: Callable[..., list[np.ndarray]] = glorot_uniform
  head: tuple[str, ...] = ()
  layers: tuple[tuple[str, Any], ...] = ()

  @property
  def num_parameters(self) -> int:
    """The number of all parameters together."""
    return sum(math.prod(shape) for shape in self.parameter_shapes.values())

  def initial_parameters(self, rng: np.random.Generator) -> list[np.ndarray]:
    """Returns parameters to start from, float32."""
    return self.draw(self.parameter_shapes, rng)


def for_any_batch(logits: Callable[..., Any]) -> Callable[..., Any]:
  """Returns a model's function of at least one input, made to take a batch of none, too.

  oneDNN's convolution of no images has the shape of its input, and the next operation
  fails.  So a batch of none is computed as one blank input, whose logits are dropped.
  """

  def logits_of_any_batch(parameters: Any, inputs: Any, dropout_seed: Any = None) -> Any:
    import tensorflow as tf

    num_inputs, *input_shape = inputs.shape
    if num_inputs:
      return logits(parameters, inputs, dropout_seed)
    num_inputs = tf.shape(inputs)[0]
    # Neither padding, which oneDNN takes into the convolution, nor a condition, which
    # makes evaluations a fifth slower.
    blank = tf.zeros((tf.cast(num_inputs < 1, tf.int32), *input_shape), inputs.dtype)
    return logits(parameters, tf.concat([inputs, blank], 0), dropout_seed)[:num_inputs]

  return logits_of_any_batch
