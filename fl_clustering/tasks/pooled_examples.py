"""Examples of many clients as rows of one pool, which several clients may have.

A client is a few numbers then, and not an object with arrays of its own: a million clients of 28
examples each are 120 MB.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Sequence

import numpy as np

from fl_clustering.tasks import examples as examples_lib


@dataclasses.dataclass(frozen=True, eq=False)
class PooledExamples:
  """The examples of clients; a client is its place among them.

  Attributes:
    pool: All examples.
    rows: The clients' rows of it, client after client, int32 of shape (sum of counts,).
    counts: How many each client has, int64 of shape (num_clients,).
  """

  pool: examples_lib.Examples
  rows: np.ndarray
  counts: np.ndarray

  @classmethod
  def of_shares(
      cls, pool: examples_lib.Examples, shares: Sequence[np.ndarray]
  ) -> PooledExamples:
    """Returns the examples of clients that have these rows of a pool."""
    counts = np.array(list(map(len, shares)), np.int64)
    return cls(pool, np.concatenate(shares).astype(np.int32, copy=False), counts)

  @classmethod
  def of_examples(cls, examples: Sequence[examples_lib.Examples]) -> PooledExamples:
    """Returns the examples of clients that share none."""
    pool = examples_lib.pooled(examples)
    counts = np.array(list(map(len, examples)), np.int64)
    return cls(pool, np.arange(len(pool), dtype=np.int32), counts)

  @functools.cached_property
  def starts(self) -> np.ndarray:
    """The place in `rows` where each client's begin, int64."""
    return np.cumsum(self.counts) - self.counts

  def of(self, client: int) -> examples_lib.Examples:
    """Returns the examples of one client as new arrays."""
    start = self.starts[client]
    return self.pool.take(self.rows[start : start + self.counts[client]])

  @property
  def together(self) -> examples_lib.Examples:
    """The examples of all clients, client after client, as new arrays."""
    return self.pool.take(self.rows)

  def among(self, clients: np.ndarray) -> PooledExamples:
    """Returns those of some clients, in this order."""
    counts = self.counts[clients]
    shift = np.repeat(self.starts[clients] - (np.cumsum(counts) - counts), counts)
    rows = self.rows[np.arange(len(shift)) + shift]
    return PooledExamples(self.pool, rows, counts)

  def where(self, mask: np.ndarray) -> PooledExamples:
    """Returns those for which a mask of the rows holds."""
    counts = np.bincount(self._owners[mask], minlength=len(self.counts))
    return PooledExamples(self.pool, self.rows[mask], counts)

  def joined(self, other: PooledExamples) -> PooledExamples:
    """Returns what each client has here, and then in another part of the same pool."""
    order = np.argsort(np.concatenate([self._owners, other._owners]), kind="stable")
    rows = np.concatenate([self.rows, other.rows])[order]
    return PooledExamples(self.pool, rows, self.counts + other.counts)

  def followed_by(self, others: PooledExamples) -> PooledExamples:
    """Returns the examples of these clients, and then of others."""
    pool, first = self.pool, 0
    if others.pool is not pool:
      pool, first = examples_lib.pooled((pool, others.pool)), len(pool)
    return PooledExamples(
        pool, np.concatenate([self.rows, others.rows + np.int32(first)]),
        np.concatenate([self.counts, others.counts]),
    )

  @property
  def _owners(self) -> np.ndarray:
    return np.repeat(np.arange(len(self.counts), dtype=np.int32), self.counts)
