"""The networks of `tasks/networks.py` in JAX, for one client; `jax.vmap` makes them those of many.

All products are of full float32: TF32 would tell clients' updates apart from TensorFlow's in the
fifth digit.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Sequence, TYPE_CHECKING

import jax
from jax import lax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
  from fl_clustering.tasks import model as model_lib

EXACT = lax.Precision.HIGHEST
# The side of all kernels.
_SIDE = 3


def unflatten(model: model_lib.Model, vector: jax.Array) -> list[jax.Array]:
  """Returns the parameters of `model` from a flat vector of shape (P,)."""
  shapes = list(model.parameter_shapes.values())
  pieces = jnp.split(vector, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
  return [piece.reshape(shape) for piece, shape in zip(pieces, shapes)]


def _seen(x: jax.Array, pool: int = 1) -> list[jax.Array]:
  """Returns what is under each number of a window, as it moves over images (n, h, w, ...).

  The window is what a kernel sees from a square that is pooled, and it moves by such squares.
  """
  side = _SIDE + pool - 1
  height, width = ((n - _SIDE + 1) // pool * pool for n in x.shape[1:3])
  return [
      x[:, row : row + height : pool, column : column + width : pool]
      for row in range(side) for column in range(side)
  ]


def _by_patches(x: jax.Array, kernel: jax.Array) -> jax.Array:
  patches = jnp.concatenate(_seen(x), axis=-1)
  return jnp.matmul(patches, kernel.reshape(-1, kernel.shape[-1]), precision=EXACT)


def _largest(by_place: Sequence[jax.Array]) -> jax.Array:
  """Returns the largest of each square; of equal ones the first has the gradient, as in TF.

  Args:
    by_place: The numbers of all squares at each of their places.
  """
  return functools.reduce(lambda a, b: jnp.where(a >= b, a, b), by_place)


def _in_square(kernel: jax.Array, pool: int) -> jax.Array:
  """Returns a kernel of one channel at each place of a square that is pooled.

  Returns:
    For each number of `_seen`'s window, its weight by place and output, side by side.
  """
  places = [
      jnp.pad(kernel[:, :, 0], ((row, pool - 1 - row), (column, pool - 1 - column), (0, 0)))
      for row in range(pool) for column in range(pool)
  ]
  return jnp.concatenate(places, axis=-1).reshape((_SIDE + pool - 1) ** 2, -1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _pooled_of_one_channel(x: jax.Array, kernel: jax.Array, pool: int) -> jax.Array:
  """Returns `_pooled` of a model's input, which has no gradient."""
  # Where no gradient is asked for, XLA fuses this, which is faster than a product.
  seen, side = _seen(x, pool), _SIDE + pool - 1
  return _largest([
      functools.reduce(jnp.add, (
          seen[(row + i) * side + column + j] * kernel[i, j, 0]
          for i in range(_SIDE) for j in range(_SIDE)
      ))
      for row in range(pool) for column in range(pool)
  ])


def _forward(
    x: jax.Array, kernel: jax.Array, pool: int
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
  # One product, which is computed once; fused sums would be again, wherever they are used.
  seen = jnp.stack(_seen(x[..., 0], pool))
  found = jnp.tensordot(seen, _in_square(kernel, pool), ((0,), (0,)), precision=EXACT)
  by_place = jnp.split(found, pool**2, axis=-1)
  largest = _largest(by_place)
  # The first place of the largest, as floats: loops over masks are slow on a CPU.
  last = pool**2 - 1
  where = functools.reduce(
      lambda later, place: jnp.where(by_place[place] == largest, float(place), later),
      reversed(range(last)), jnp.full_like(largest, last),
  )
  return largest, (x, kernel, seen, where)


def _backward(
    pool: int, saved: tuple[jax.Array, ...], gradient: jax.Array
) -> tuple[jax.Array, jax.Array]:
  x, kernel, seen, where = saved
  by_place = [jnp.where(where == place, gradient, 0.0) for place in range(pool**2)]
  sums = jnp.tensordot(
      seen, jnp.concatenate(by_place, axis=-1), ((1, 2, 3), (0, 1, 2)), precision=EXACT
  )
  _, pull_back = jax.vjp(lambda own: _in_square(own, pool), kernel)
  return jnp.zeros_like(x), *pull_back(sums)


_pooled_of_one_channel.defvjp(_forward, _backward)


def _by_xla(x: jax.Array, kernel: jax.Array) -> jax.Array:
  return lax.conv_general_dilated(
      x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"), precision=EXACT
  )


def _pooled(x: jax.Array, kernel: jax.Array, pool: int, is_alone: bool) -> jax.Array:
  """Returns the largest of each `pool` x `pool` square of a 3x3 convolution."""
  if kernel.shape[2] == 1:
    return _pooled_of_one_channel(x, kernel, pool)
  # XLA's own is the fastest, but its gradients are slow on a CPU; and on a GPU it is 20 times
  # slower, where `vmap` makes grouped convolutions of clients' kernels.
  convolve = _by_xla if is_alone else _by_patches
  # What pooling drops isn't computed.
  height, width = ((n - _SIDE + 1) // pool * pool + _SIDE - 1 for n in x.shape[1:3])
  found = convolve(x[:, :height, :width], kernel)
  return _largest([found[:, i::pool, j::pool] for i in range(pool) for j in range(pool)])


def _dropout(x: jax.Array, rate: float, key: jax.Array | None, number: int) -> jax.Array:
  if key is None:
    return x
  keep = jax.random.uniform(jax.random.fold_in(key, number), x.shape) >= rate
  return jnp.where(keep, x / (1 - rate), 0.0)


def logits(
    model: model_lib.Model, parameters: Sequence[jax.Array], inputs: jax.Array,
    key: jax.Array | None = None, is_alone: bool = False,
) -> jax.Array:
  """Returns a model's logits: its `jax_logits`, or those that `layers` give in TensorFlow, too.

  Args:
    key: Of the random numbers of dropout, or None for evaluation, without dropout.
    is_alone: Whether no other model is beside it, and no gradients are asked for.
  """
  if model.jax_logits is not None:
    return model.jax_logits(parameters, inputs, key)
  hidden, pairs = inputs.astype(jnp.float32), zip(parameters[::2], parameters[1::2])
  num_dropouts = 0
  for (kind, size), following in zip(model.layers, (*model.layers[1:], None)):
    if kind == "pool":
      continue  # It is done with the convolution before it.
    if kind == "dropout":
      hidden = _dropout(hidden, size, key, num_dropouts)
      num_dropouts += 1
      continue
    kernel, bias = next(pairs)
    if kind == "conv":
      pool = following[1] if following is not None and following[0] == "pool" else 1
      hidden = _pooled(hidden, kernel, pool, is_alone)  # Bias and ReLU keep the order of numbers.
    else:
      hidden = jnp.matmul(hidden.reshape(-1, kernel.shape[0]), kernel, precision=EXACT)
    hidden += bias
    if following is not None:
      hidden = jax.nn.relu(hidden)
  return hidden


def losses(outputs: jax.Array, labels: jax.Array) -> jax.Array:
  """Returns the cross-entropies (n,) of logits (n, C) and labels (n,)."""
  own = jax.nn.one_hot(labels, outputs.shape[-1], dtype=outputs.dtype)
  return -jnp.sum(jax.nn.log_softmax(outputs) * own, axis=-1)


def _kept(model: model_lib.Model, num_examples: int) -> int:
  """Returns how many numbers a user's model keeps of examples for its gradient, and of its own."""
  key = jax.random.PRNGKey(0)

  def forward(parameters: list[jax.Array], inputs: jax.Array) -> Any:
    return jax.vjp(lambda own: model.jax_logits(own, inputs, key), parameters)

  shapes = jax.eval_shape(
      forward, [jax.ShapeDtypeStruct(one, jnp.float32) for one in model.parameter_shapes.values()],
      jax.ShapeDtypeStruct(
          (num_examples, *model.input_shape),
          jnp.int32 if model.input_dtype == "int32" else jnp.float32,
      ),
  )
  return sum(math.prod(one.shape) for one in jax.tree_util.tree_leaves(shapes))


def numbers_per_example(model: model_lib.Model) -> int:
  """Returns about how many numbers an example takes on its way through a model."""
  if model.jax_logits is not None:
    return _kept(model, 2) - _kept(model, 1)
  total, shape = math.prod(model.input_shape), model.input_shape
  for kind, size in model.layers:
    if kind == "conv":
      places = (shape[0] - _SIDE + 1) * (shape[1] - _SIDE + 1)
      total += places * (size + _SIDE**2 * shape[2])
      shape = (shape[0] - _SIDE + 1, shape[1] - _SIDE + 1, size)
    elif kind == "pool":
      shape = (shape[0] // size, shape[1] // size, shape[2])
    elif kind == "dense":
      total += size
  return total
