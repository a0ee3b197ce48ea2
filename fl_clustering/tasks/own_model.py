"""A user's own model in JAX as a `model.Model`: of Flax, Equinox, Keras 3 or plain functions.

The engine in JAX computes it.  A model for TFF is one of `keras_model.py`: each of the two files
needs its library.
"""

from typing import Any, Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.tasks import model as model_lib

_INPUT_DTYPES = ("uint8", "float32", "int32")


def jax_model(
    init: Callable[[Any], Any],
    apply: Callable[[Any, Any, Any], Any],
    input_shape: Sequence[int],
    input_dtype: str = "float32",
    head: Callable[[Any], Any] | None = None,
    name: str = "jax",
) -> model_lib.Model:
  """Returns a user's functions of JAX as a model that trains as all others do, by JAX.

  Its loss is the cross-entropy of its outputs, which are logits.

  Args:
    init: Function of a key of `jax.random`, which follows from the run's seed.  It returns the
      parameters to start from, a pytree of float32 arrays.
    apply: Function of (parameters, inputs, key) that `jax.jit` and `jax.vmap` can take.  It returns
      the logits of inputs of shape (batch, *input_shape), float32 of shape (batch, num_classes).
      `key` is for what is random in a step of training, such as dropout, and None in evaluation.
    input_shape: The shape of one example's features, such as (height, width, channels).
    input_dtype: Their type, "uint8", "float32" or "int32"; `apply` gets bytes as float32 in [0, 1].
    head: Function of the parameters that returns the last layer's, a part of the same pytree; None
      leaves it unknown.
    name: What the model is called.

  Raises:
    TypeError: If `init`, `apply` or `head` is no function.
    ValueError: If the outputs are not a function of the parameters, the example and the key alone
      (batch normalization's are not), or an argument has another form.
  """
  for argument, function in (("init", init), ("apply", apply), ("head", head)):
    if not callable(function) and (argument, function) != ("head", None):
      raise TypeError(f"`{argument}` must be a function, got {type(function).__name__}.")
  if input_dtype not in _INPUT_DTYPES:
    raise validate.error("input_dtype", f"be one of {', '.join(_INPUT_DTYPES)}", input_dtype)
  if not isinstance(input_shape, (tuple, list)) or not all(
      isinstance(size, (int, np.integer)) and size >= 1 for size in input_shape
  ):
    raise validate.error("input_shape", "be a tuple of integers >= 1", input_shape)

  def draw(unused_shapes: Any, rng: np.random.Generator) -> list[np.ndarray]:
    return list(map(np.asarray, jax.tree_util.tree_leaves(init(_key(rng)))))

  rng = randomness.generator(0, "jax_model")
  start = _start(init, _key(rng))
  by_path, structure = jax.tree_util.tree_flatten_with_path(start)
  shapes = {jax.tree_util.keystr(path): tuple(one.shape) for path, one in by_path}

  def jax_logits(parameters: Sequence[Any], inputs: Any, key: Any = None) -> Any:
    return apply(structure.unflatten(parameters), inputs, key)

  return model_lib.Model(
      name=name,
      input_shape=tuple(input_shape),
      input_dtype=input_dtype,
      num_classes=_num_classes(apply, start, tuple(input_shape), input_dtype, rng),
      parameter_shapes=shapes,
      uses_dropout=True,
      logits=None,
      jax_logits=jax_logits,
      draw=draw,
      head=() if head is None else _head(head, structure, list(shapes)),
  )


def _key(rng: np.random.Generator) -> Any:
  return jax.random.PRNGKey(int(rng.integers(2**31)))


def _start(init: Callable[[Any], Any], key: Any) -> Any:
  """Returns the parameters to start from, which it checks."""
  parameters = init(key)
  if isinstance(parameters, Mapping) and "params" in parameters and len(parameters) > 1:
    raise validate.error(
        "init", "return parameters alone: batch normalization and other layers with a state can't "
        "be used, layer normalization can", list(parameters),
    )
  leaves = jax.tree_util.tree_leaves(parameters)
  kinds = [str(getattr(one, "dtype", type(one).__name__)) for one in leaves]
  if set(kinds) != {"float32"}:
    raise validate.error("init", "return a pytree of float32 arrays", sorted(set(kinds)))
  if not all(np.isfinite(one).all() for one in leaves):
    raise validate.error("init", "return finite numbers", "others")
  if not all(map(np.array_equal, leaves, jax.tree_util.tree_leaves(init(key)))):
    raise validate.error("init", "return the same parameters for the same key", "others")
  return parameters


def _head(head: Callable[[Any], Any], structure: Any, names: list[str]) -> tuple[str, ...]:
  """Returns the names of the parameters that `head` returns."""
  found = tuple(jax.tree_util.tree_leaves(head(structure.unflatten(names))))
  if not found or not set(found) <= set(names):
    raise validate.error("head", "return a part of the parameters", found)
  return found


def _num_classes(
    apply: Callable[[Any, Any, Any], Any], start: Any, input_shape: tuple[int, ...],
    input_dtype: str, rng: np.random.Generator,
) -> int:
  """Returns the number of outputs, after a check that an example has its own."""
  # First parameters are often zero, which would hide much.
  parameters = jax.tree_util.tree_map(
      lambda one: one + rng.normal(0, 0.1, one.shape).astype(np.float32), start
  )
  example = rng.integers(2, size=input_shape)
  # With another example beside it.
  dtype = "int32" if input_dtype == "int32" else "float32"
  batches = [
      jnp.asarray(np.stack([example, np.full(input_shape, other)]).astype(dtype))
      for other in (0, 1)
  ]
  for key in (None, _key(rng)):
    found = jax.eval_shape(apply, parameters, batches[0], key)
    shape: tuple[int, ...] = getattr(found, "shape", ())
    if len(shape) != 2 or shape[0] != 2 or shape[1] < 2 or found.dtype != np.float32:
      raise validate.error(
          "apply", "return logits alone, float32 of shape (batch, num_classes), of two classes or "
          "more", found,
      )
    one, again = (np.asarray(apply(parameters, batch, key))[0] for batch in batches)
    if not np.allclose(one, again, atol=1e-4, equal_nan=True):
      raise validate.error(
          "apply", "give an example the same logits beside any others, with the same key; batch "
          "normalization doesn't, layer normalization does",
          f"some that differ by {np.abs(one - again).max():.2g}",
      )
  return shape[1]
