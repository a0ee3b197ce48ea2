"""Models on clients' examples: the losses of many models, and confusion matrices.

A pair is a model and a client whose examples it is evaluated on.  The device computes what a model
says of single examples; what is summed up per client is summed up here, so that a client's numbers
depend on nothing but its own data.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterator, NamedTuple, TYPE_CHECKING

import jax
from jax import lax
import jax.numpy as jnp
import numpy as np

from fl_clustering.engine import divergence
from fl_clustering.engine.jax import blocks as blocks_lib
from fl_clustering.engine.jax import client_pool
from fl_clustering.engine.jax import networks
from fl_clustering.engine.jax import own_settings

if TYPE_CHECKING:
  from fl_clustering.tasks import model as model_lib

# The most examples of one model in a row, and the fewest, filled up.
_MOST_IN_ROW = 256
_FEWEST_IN_ROW = 8
# One after the other, rows are so short that what they take stays in the processor's cache.
_IN_SHORT_ROW = 16
# So many are in memory at once.
_EXAMPLES_AT_ONCE = 2**22
_MODELS_AT_ONCE_BYTES = 2**30


class Outputs(NamedTuple):
  """What models say of the examples of some pairs.

  Attributes:
    pairs: Which pairs these are.
    counts: The examples of each.
    losses: Of every example, pair after pair.
    predicted: Its label by the model, or `divergence.NOT_FINITE`.
    labels: Its true label.
    logits: The model's outputs, of shape (n, C), where they are asked for.
  """

  pairs: slice
  counts: np.ndarray
  losses: np.ndarray
  predicted: np.ndarray
  labels: np.ndarray
  logits: Any = None


@functools.partial(jax.jit, static_argnums=(0, 1))
def _outputs(
    model: model_lib.Model, keeps_logits: bool, vectors: jax.Array, pool: client_pool.OnDevice,
    models: jax.Array, rows: jax.Array,
) -> tuple[jax.Array, ...]:
  """Returns what the models (B,) say of rows (B, n) of the pool.

  Returns:
    Losses and predicted labels (B, n) and, if `keeps_logits`, the outputs (B, n, C).
  """

  def of_row(which: jax.Array, own_rows: jax.Array) -> tuple[jax.Array, ...]:
    vector = vectors[0] if len(vectors) == 1 else vectors[which]
    return _of_row(model, keeps_logits, networks.unflatten(model, vector), pool, own_rows)

  return jax.vmap(of_row)(models, rows)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _outputs_of_one(
    model: model_lib.Model, keeps_logits: bool, vector: jax.Array, pool: client_pool.OnDevice,
    rows: jax.Array, num_rows: jax.Array,
) -> tuple[jax.Array, ...]:
  """Returns what one model says of the first rows of (B, n), as `_outputs` does."""
  parameters = networks.unflatten(model, vector)

  def of_row(own_rows: jax.Array) -> tuple[jax.Array, ...]:
    return _of_row(model, keeps_logits, parameters, pool, own_rows, is_alone=True)

  def and_of_next(number: Any, found: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    return tuple(of_all.at[number].set(own) for of_all, own in zip(found, of_row(rows[number])))

  shapes = jax.eval_shape(of_row, rows[0])
  nothing = tuple(jnp.zeros((len(rows), *shape.shape), shape.dtype) for shape in shapes)
  return lax.fori_loop(0, num_rows, and_of_next, nothing)


def _of_row(
    model: model_lib.Model, keeps_logits: bool, parameters: list[jax.Array],
    pool: client_pool.OnDevice, rows: jax.Array, is_alone: bool = False,
) -> tuple[jax.Array, ...]:
  """Returns what one model says of rows (n,) of the pool."""
  features, labels = pool.take(rows)
  outputs = networks.logits(model, parameters, features, is_alone=is_alone)
  is_finite = jnp.isfinite(outputs).all(-1)
  predicted = jnp.where(is_finite, outputs.argmax(-1), divergence.NOT_FINITE)
  found = networks.losses(outputs, labels), predicted
  return (*found, outputs) if keeps_logits else found


@functools.partial(jax.jit, static_argnums=0)
def _logits(model: model_lib.Model, vector: jax.Array, features: jax.Array) -> jax.Array:
  return networks.logits(model, networks.unflatten(model, vector), features)


@own_settings.own()
def logits(model: model_lib.Model, vector: np.ndarray, features: np.ndarray) -> np.ndarray:
  """Returns a model's outputs of some examples, as it takes them, of shape (n, num_classes)."""
  # Filled up, or every number of examples would be compiled for.
  num_filled = max(1, -(-len(features) // _MOST_IN_ROW)) * _MOST_IN_ROW
  rest = np.zeros((num_filled - len(features), *model.input_shape), features.dtype)
  filled = np.concatenate([features, rest])
  found = [
      _logits(model, vector, filled[start : start + _MOST_IN_ROW])
      for start in range(0, len(filled), _MOST_IN_ROW)
  ]
  return np.concatenate(jax.device_get(found))[: len(features)]


def _runs(values: np.ndarray) -> np.ndarray:
  """Returns the run of equal values that each is in, from 0."""
  return np.cumsum(np.diff(values, prepend=values[:1]) != 0)


def _parts(counts: np.ndarray, models: np.ndarray, num_parameters: int) -> Iterator[slice]:
  """Cuts pairs, whose models are in order, so that their examples and models fit memory."""
  most_models = max(1, _MODELS_AT_ONCE_BYTES // (4 * num_parameters))
  upto, start = np.cumsum(counts), 0
  while start < len(counts):
    before = upto[start] - counts[start]
    stop = np.searchsorted(upto, before + _EXAMPLES_AT_ONCE, "right")
    stop = min(stop, np.searchsorted(models, models[start] + most_models))
    yield slice(start, max(start + 1, int(stop)))
    start = max(start + 1, int(stop))


def outputs(
    model: model_lib.Model, blocks: blocks_lib.Blocks, vectors: Any,
    clients: client_pool.ClientPool, models: np.ndarray, of_clients: np.ndarray,
    keeps_logits: bool = False,
) -> Iterator[Outputs]:
  """Yields what models say of the examples of pairs, some pairs at a time.

  Args:
    vectors: The models, float32 of shape (K, P), or what returns its rows by their positions.
    models: Every pair's model, in increasing order.
    of_clients: Every pair's client, by its place in the pool.
    keeps_logits: Whether the outputs themselves are asked for.
  """
  counts = clients.examples.counts[of_clients]
  under_way: Callable[[], Outputs] | None = None
  for part in _parts(counts, models, vectors.shape[1]):
    # The device computes while the next pairs are prepared here.
    begun = _begun(
        model, blocks, vectors, clients, part, models[part], of_clients[part], keeps_logits
    )
    if under_way is not None:
      yield under_way()
    under_way = begun
  if under_way is not None:
    yield under_way()


def _begun(
    model: model_lib.Model, blocks: blocks_lib.Blocks, vectors: Any,
    clients: client_pool.ClientPool, part: slice, models: np.ndarray, of_clients: np.ndarray,
    keeps_logits: bool,
) -> Callable[[], Outputs]:
  """Has the device begin with some pairs; returns a function that waits for it."""
  examples = clients.examples.among(of_clients)
  rows, counts = examples.rows, examples.counts
  run = np.repeat(_runs(models), counts)
  sizes = np.bincount(run)
  width = _IN_SHORT_ROW
  if blocks.side_by_side:
    width = int(np.clip(2 ** int(sizes.max() - 1).bit_length(), _FEWEST_IN_ROW, _MOST_IN_ROW))
  # Every run begins a row of its own.
  ends = np.cumsum(-(-sizes // width))
  first = np.concatenate([[0], ends[:-1]])
  places = np.arange(len(rows)) - (np.cumsum(sizes) - sizes)[run] + first[run] * width
  height = -(-blocks.examples // width // len(blocks.devices)) * len(blocks.devices)
  num_rows = -(-int(ends[-1]) // height) * height
  filled = np.zeros((num_rows + height) * width, np.int32)
  filled[places] = rows
  filled = filled.reshape(-1, width)
  used, which = np.unique(models, return_inverse=True)
  model_of_row = np.zeros(num_rows, np.int32)
  model_of_row[places // width] = np.repeat(which, counts)
  # The rows of all clients are not read, and have another shape for each part of the data.
  pool = clients.pool._replace(rows=None)
  if blocks.side_by_side:
    # Filled up to a power of two, or every number of models would be compiled for.
    used = np.pad(used, (0, 2 ** (len(used) - 1).bit_length() - len(used)), "edge")
    sent = jax.device_put(vectors[used], blocks.shared)

    def of_rows(start: int, stop: int) -> tuple[jax.Array, ...]:
      shared_out = blocks.put(model_of_row[start:stop], filled[start:stop])
      return _outputs(model, keeps_logits, sent, pool, *shared_out)

    items = [(start, start + height) for start in range(0, num_rows, height)]
  else:
    here = vectors[used]

    def of_rows(start: int, stop: int) -> tuple[jax.Array, ...]:
      of_one = _outputs_of_one(
          model, keeps_logits, here[model_of_row[start]], pool, filled[start : start + height],
          np.int32(stop - start),
      )
      return tuple(part[: stop - start] for part in jax.device_get(of_one))

    items = [
        (start, min(start + height, end))
        for begin, end in zip(first.tolist(), ends.tolist())
        for start in range(begin, end, height)
    ]
  found = list(blocks.results(of_rows, items))

  def wait() -> Outputs:
    losses, predicted, *logits = (
        np.concatenate(of_all).reshape(-1, *of_all[0].shape[2:])[places]
        for of_all in zip(*jax.device_get(found))
    )
    return Outputs(part, counts, losses, predicted, examples.pool.labels[rows], *logits)

  return wait


def mean_losses(found: Outputs) -> np.ndarray:
  """Returns the pairs' mean losses, float32."""
  starts = np.cumsum(found.counts) - found.counts
  sums = np.add.reduceat(found.losses, starts, dtype=np.float64)
  return (sums / found.counts).astype(np.float32)


def confusions(found: Outputs, num_classes: int) -> np.ndarray:
  """Returns the pairs' confusion matrices, int64, as of `divergence.are_finite`."""
  num_pairs = len(found.counts)
  pair = np.repeat(np.arange(num_pairs), found.counts)
  is_bad = found.predicted == divergence.NOT_FINITE
  cell = (pair * num_classes + found.labels) * num_classes + np.where(is_bad, 0, found.predicted)
  counts = np.bincount(cell, minlength=num_pairs * num_classes**2)
  counts = counts.reshape(num_pairs, num_classes, num_classes)
  counts[pair[is_bad]] = divergence.NOT_FINITE
  return counts
