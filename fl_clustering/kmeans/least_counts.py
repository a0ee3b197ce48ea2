"""Questions about cells of enough points: counts are asked first, and small cells given up.

A cell is what a query sums up about one center: the points nearest to it.  A center of too few
points is left out of the question, and its points fall to the others, whose cells only grow.
Of a center and its nearest one, at most one is left out at a time: together, their points may be
enough.  The one of fewer points goes, so the last center is never left out.

The server asks these questions and keeps to what it learns from them; no client checks it.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Iterable

import numpy as np

from dp_clustering import sum_query
from fl_clustering.kmeans import sum_kinds

# Of centers to each other, at a time: 32 MB.
_BLOCK_DISTANCES = 2**22


@dataclasses.dataclass(frozen=True, eq=False)
class Enough:
  """A question of whose centers each has enough points, or no `min_count` was asked for.

  Attributes:
    query: The question about the centers that are kept.
    kept: Their places among all centers, of shape (M,).
    counts: The parts of `sum_kinds.Counts`, int64 of shape (M, 1) each; empty without `min_count`.
    asked: The centers of every question for counts, one round each.
  """

  query: sum_query.SumQuery
  kept: np.ndarray
  counts: dict[str, np.ndarray]
  asked: tuple[np.ndarray, ...]


def without_neighbors(order: Iterable[int], centers: np.ndarray) -> list[int]:
  """Returns the numbers of centers, in order, without the nearest one of each before it.

  Args:
    order: Numbers of centers.
    centers: All of them, of shape (M, d).
  """
  squares = (centers**2).sum(axis=1)
  blocks = []
  size = max(1, _BLOCK_DISTANCES // len(centers))
  for start in range(0, len(centers), size):
    block = slice(start, start + size)
    distances = squares[block, np.newaxis] + squares - 2 * centers[block] @ centers.T
    np.fill_diagonal(distances[:, block], np.inf)
    blocks.append(distances.argmin(axis=1))
  neighbor = np.concatenate(blocks)
  found: list[int] = []
  spared: set[int] = set()
  for center in order:
    if center not in spared:
      found.append(center)
      spared.add(neighbor[center])
  return found


def are_few(counts: np.ndarray, min_count: int) -> np.ndarray:
  """Returns where there are points, but fewer than `min_count`."""
  return (counts > 0) & (counts < min_count)


def with_enough(
    totals: Callable[[sum_query.SumQuery], np.ndarray], query: sum_query.SumQuery, min_count: int
) -> Enough:
  """Returns the question about as many of its centers as have at least `min_count` points each.

  There are at least so many points.  With a `min_count` of 1 it asks nothing and changes nothing.

  Args:
    totals: Answers a query.
    query: It has `centers`.
  """
  kept, asked = np.arange(query.shape[0]), []
  if min_count == 1:
    return Enough(query, kept, {}, ())
  while True:
    counts_query = dataclasses.replace(query, kind=sum_kinds.Counts(query.kind))
    parts = counts_query.split(totals(counts_query))
    asked.append(query.arrays["centers"])
    # A center without points changes no cell.
    rows = np.flatnonzero(parts["counts"][:, 0])
    counts, centers = parts["counts"][rows, 0], query.arrays["centers"][rows]
    order = np.argsort(counts, kind="stable")
    few = [row for row in order if counts[row] < min_count]
    rows = np.delete(rows, without_neighbors(few, centers))
    arrays = {name: array[rows] for name, array in query.arrays.items()}
    query, kept = dataclasses.replace(query, arrays=arrays), kept[rows]
    if not few:
      return Enough(query, kept, {name: part[rows] for name, part in parts.items()}, tuple(asked))
