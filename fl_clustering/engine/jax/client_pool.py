"""Clients' examples on the device: a client is some rows of one pool, which several may share.

So a million clients that draw 20 images each are 80 MB.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, NamedTuple, TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from clustering_basics import validate

if TYPE_CHECKING:
  from fl_clustering.engine.jax import blocks as blocks_lib
  from fl_clustering.tasks import pooled_examples

# Rows are int32 on the device.
_MOST_ROWS = 2**31 - 1
# Clients' examples are filled up to at least so many.
_FEWEST = 8


def bound(count: int) -> int:
  """Returns a bound of a number of examples; there are four from one power of two to the next."""
  step = 2 ** max(0, int(count - 1).bit_length() - 3)
  return max(_FEWEST, -(-count // step) * step)


class OnDevice(NamedTuple):
  """What a computation reads of a pool.

  Attributes:
    features: Of shape (num_pooled, ...), bytes or numbers as of `Examples`.
    labels: int32 of shape (num_pooled,).
    rows: The clients' rows, client after client, int32.
  """

  features: Any
  labels: Any
  rows: Any

  def take(self, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns rows of the pool as a model takes them: bytes in [0, 1]; and their labels."""
    features = self.features[rows]
    if features.dtype == jnp.uint8:
      features = features.astype(jnp.float32) / 255
    return features, self.labels[rows]

  def of_client(
      self, start: jax.Array, count: jax.Array, most: int
  ) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns a client's features and labels, filled up, and which of them are its own."""
    place = jnp.arange(most)
    is_there = place < count
    return *self.take(self.rows[start + jnp.where(is_there, place, 0)]), is_there


class ClientPool(NamedTuple):
  """The examples of some clients.

  Attributes:
    examples: Theirs, here.
    pool: What is on the device.
  """

  examples: pooled_examples.PooledExamples
  pool: OnDevice

  def in_blocks(
      self, blocks_of: Callable[[int], blocks_lib.Blocks], clients: np.ndarray,
      work: Callable[..., Any],
  ) -> Iterator[tuple[np.ndarray, Any]]:
    """Yields what work returns of blocks of clients of about one size, the largest first.

    Args:
      blocks_of: Blocks, by a bound of the numbers of examples.
      work: It takes a bound of their numbers of examples and, int32 of shape (B,) and -1 where a
        block is only filled up: their positions in `clients`, the places where their rows begin,
        and their numbers of examples.

    Yields:
      Positions in `clients`, and what work returns.
    """
    def with_places(places: np.ndarray, *block: Any) -> tuple[np.ndarray, Any]:
      return places, work(*block)

    starts, counts = (part[clients] for part in (self.examples.starts, self.examples.counts))
    sizes, size_of = np.unique(counts, return_inverse=True)
    bounds = np.array([bound(size) for size in sizes.tolist()])[size_of]
    for most in np.unique(bounds)[::-1].tolist():
      blocks, places = blocks_of(most), np.flatnonzero(bounds == most)
      yield from blocks.results(with_places, (
          (places[place], most, *block)
          for place, block in blocks.cut(places, starts[places], counts[places])
      ))


def sent(
    parts: Iterable[pooled_examples.PooledExamples], device: Any
) -> Iterator[ClientPool]:
  """Yields parts of clients' examples on a device, to which each pool is sent once."""
  pools: dict[int, Any] = {}
  for part in parts:
    if len(part.rows) > _MOST_ROWS:
      raise validate.error("rows", f"be at most {_MOST_ROWS:,} on a device", len(part.rows))
    pool = part.pool
    if id(pool) not in pools:
      pools[id(pool)] = jax.device_put((pool.features, pool.labels.astype(np.int32)), device)
    features, labels = pools[id(pool)]
    yield ClientPool(part, OnDevice(features, labels, jax.device_put(part.rows, device)))
