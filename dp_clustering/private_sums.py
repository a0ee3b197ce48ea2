"""Noisy sums over the points: the only thing a private algorithm may see of them.

An algorithm asks for a statistic that is a sum of one bounded contribution per
point.  It gets the sum with noise, after the ledger has agreed.  The points themselves,
their number and exact sums stay in this module.  The same algorithm can therefore run
where the points lie on many clients; only the party that adds up changes.

A sum is made in four steps:

1. Every contribution, in units of its bound, is truncated towards zero onto a grid
   (`point_grid.contributions`).  Truncation makes no coordinate larger, so the bound on
   the L2 norm still holds.  It is the sensitivity when a point is added or removed.
2. The grid points are added up as integers, so the order of the points does not matter.
3. Integer noise is added.
4. The result is scaled back.

No real-valued noise is ever added to a real-valued sum, so its floating-point leaks
(Mironov 2012) can't occur.
"""

from __future__ import annotations

from concurrent import futures
import functools
import math
from typing import Any, Callable, Mapping, TYPE_CHECKING

import numpy as np
import threadpoolctl

from clustering_basics import core_count
from dp_clustering import cluster_statistics
from dp_clustering import clustering_params
from dp_clustering import point_grid
from dp_clustering import sum_query

if TYPE_CHECKING:
  from dp_clustering import ledger as ledger_lib
  from dp_clustering import noise

# Elements of points that are processed at a time.
BLOCK_ELEMENTS = 2**18  # They stay in a core's cache.
# Largest number of products of points with centers at a time: 32 MB for each core.
BLOCK_PRODUCTS = 2**22
# Bits of a code: float32 holds exactly this many, and a table of all codes fits.
LARGEST_MAX_DEPTH = 24


@functools.lru_cache(maxsize=None)
def _keep_freed_memory() -> None:
  """Makes the allocator reuse the arrays of a block for the next one.

  glibc gives large arrays back to the system when they are freed, and new pages cost more
  than the sums.  Once an array of almost 32 MB has been freed, it keeps those that are
  smaller ("dynamic mmap threshold", mallopt(3)).  The array is never written to.
  """
  np.empty(2**22 - 2**12)


@functools.lru_cache(maxsize=None)
def _thread_pools() -> threadpoolctl.ThreadpoolController:
  """Returns the controller of the numerical libraries' threads; cached, as it is slow."""
  return threadpoolctl.ThreadpoolController()


class PooledPoints:
  """Exact sums over points at one place.

  Attributes:
    radius: Radius of the ball that points are mapped into; public.
  """

  def __init__(self, nonprivate_points: np.ndarray, radius: float) -> None:
    """Takes the points.

    Args:
      nonprivate_points: Array of real numbers of shape (num_points, dim), finite or not.
        Every row is mapped into the ball on its own, when it is used.
      radius: Radius of that ball, a number in [1e-100, 1e100]; public.
    """
    self._nonprivate_points = nonprivate_points
    # Blocks that are in the ball already, as (start, size).
    self._blocks_in_ball: set[tuple[int, int]] = set()
    self.radius = clustering_params.checked_radius(radius)
    self.dim = nonprivate_points.shape[1]

  def __len__(self) -> int:
    return len(self._nonprivate_points)

  def _mapped_rows(self, start: int, size: int) -> np.ndarray:
    """Returns the rows of a block, mapped into the ball; they must not be written to."""
    # In C order, NumPy adds up every row on its own.
    rows = np.ascontiguousarray(self._nonprivate_points[start : start + size])
    if (start, size) in self._blocks_in_ball:
      return rows
    mapped = clustering_params.map_to_ball(rows, self.radius)
    if mapped is rows:
      self._blocks_in_ball.add((start, size))
    return mapped

  def sum_over_blocks(self, function: Callable[[int, np.ndarray], Any], num_products: int) -> Any:
    """Returns the sum of function(start, rows) over blocks of mapped rows; 0 of none.

    Blocks are processed in parallel.  Sums of integers don't depend on the order.

    Args:
      num_products: How many products with each row `function` keeps at a time.
    """
    size = max(1, min(BLOCK_ELEMENTS // self.dim, BLOCK_PRODUCTS // num_products))
    starts = range(0, len(self), size)
    num_threads = min(core_count.usable(), len(starts))
    # A free thread takes the next block.
    remaining = iter(starts)
    _keep_freed_memory()

    def partial_sum(_: int) -> Any:
      return sum(function(start, self._mapped_rows(start, size)) for start in remaining)

    if num_threads <= 1:
      return partial_sum(0)
    # The libraries' own threads inside of these would only get in each other's way.
    with _thread_pools().limit(limits=1), futures.ThreadPoolExecutor(num_threads) as pool:
      return sum(pool.map(partial_sum, range(num_threads)))

  def on_grid(self, rows: np.ndarray) -> np.ndarray:
    """Returns mapped rows on the grid of points."""
    return point_grid.on_point_grid(rows, self.radius)

  def totals(self, query: sum_query.SumQuery) -> np.ndarray:
    """Returns the exact totals of a `SumQuery`, int64 of the query's shape; not private."""
    totals = np.zeros(query.shape, np.int64)

    def block_totals(_: int, rows: np.ndarray) -> np.ndarray:
      groups, values = query.kind.contributions(np, self.on_grid(rows), query.arrays)
      return sum_query.grouped_sums(groups, len(totals), values)

    totals += self.sum_over_blocks(block_totals, len(totals))
    return totals


class PrivateSums:
  """Noisy sums over points that stay hidden.

  Attributes:
    radius: Radius of the ball that points are mapped into; public.
  """

  def __init__(
      self, nonprivate_points: np.ndarray, radius: float, noise_source: noise.Source,
      ledger: ledger_lib.Ledger,
  ) -> None:
    """Takes the points, as `PooledPoints` does.

    Args:
      ledger: Every release is entered in it before it is made.
    """
    self._points = PooledPoints(nonprivate_points, radius)
    self._noise_source = noise_source
    self._ledger = ledger
    self.radius = self._points.radius
    self.dim = self._points.dim

  @property
  def mu_left(self) -> float:
    """The part of the budget that is not spent yet (`ledger.Ledger.mu_left`)."""
    return self._ledger.mu_left

  def _noisy(self, totals: np.ndarray, std: float) -> np.ndarray:
    """Returns totals in units of the bound, with noise of `std` such units."""
    steps = point_grid.CONTRIBUTION_STEPS
    if std:
      totals = totals + self._noise_source.discrete_gaussian(totals.shape, std * steps)
    return totals / steps

  def private_count(self, std: float, name: str) -> float:
    """Returns the noisy number of points.

    Args:
      std: Standard deviation of the noise, in points.
    """
    self._ledger.record(name, _mu(std), 1.0, std)
    num_points = np.array([len(self._points) * point_grid.CONTRIBUTION_STEPS])
    return float(self._noisy(num_points, std)[0])

  def hashed(self, hyperplanes: np.ndarray) -> HashedSums:
    """Returns the `HashedSums` of the points, hashed by the sides of hyperplanes.

    Args:
      hyperplanes: Normal vectors of hyperplanes through the origin, of shape
        (max_depth, dim), where `max_depth` is at most `LARGEST_MAX_DEPTH`.  Public: they
        must be chosen without the points.
    """
    hyperplanes = np.asarray(hyperplanes, np.float64)
    norms = np.linalg.norm(hyperplanes, axis=1, keepdims=True)
    hyperplanes = point_grid.on_point_grid(hyperplanes, norms)
    codes = np.zeros(len(self._points), np.int32)

    def pack_codes(start: int, rows: np.ndarray) -> int:
      sides = self._points.on_grid(rows) @ hyperplanes.T < 0
      codes[start : start + len(rows)] = _pack(sides)
      return 0  # Nothing to add up.

    self._points.sum_over_blocks(pack_codes, LARGEST_MAX_DEPTH)
    return HashedSums(self, codes, len(hyperplanes))

  def private_cluster_statistics(
      self, centers: np.ndarray, residual_radius: float, mu: float, name: str, count_weight: float,
      squared_error_weight: float,
  ) -> cluster_statistics.ClusterStatistics:
    """Returns the noisy `ClusterStatistics` of the points nearest to each center.

    See `cluster_statistics.private_cluster_statistics`.
    """
    return cluster_statistics.private_cluster_statistics(
        self._noisy_totals, self._ledger, self.radius, centers, residual_radius, mu, name,
        count_weight, squared_error_weight,
    )

  def _noisy_totals(self, query: sum_query.SumQuery, stds: Mapping[str, float]) -> np.ndarray:
    return self._points.totals(query) + query.noise(stds, self._noise_source)


class HashedSums:
  """Noisy sums over points by prefixes of their codes.

  The code of a point has one bit per level; the first hyperplane's bit is the highest.
  The points of a prefix at a level are those whose code starts with its bits.

  Attributes:
    max_depth: Number of bits of a code; public.
  """

  def __init__(self, sums: PrivateSums, nonprivate_codes: np.ndarray, max_depth: int) -> None:
    """Takes the points' codes; called by `PrivateSums.hashed` only.

    Args:
      nonprivate_codes: The points' codes, int32, shape (num_points,).
    """
    self._sums = sums
    self._nonprivate_codes = nonprivate_codes
    self.max_depth = max_depth
    # Numbers of points with a smaller code.  In place, as tables of all codes are large.
    counts = np.bincount(nonprivate_codes + 1, minlength=2**max_depth + 1)
    self._nonprivate_counts_below = np.cumsum(counts, out=counts)

  def _ranges(
      self, prefixes: np.ndarray, levels: np.ndarray | int
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first code of each prefix, and the first code after it."""
    shifts = self.max_depth - np.asarray(levels)
    prefixes = np.asarray(prefixes, np.int64)
    return prefixes << shifts, (prefixes + 1) << shifts

  def private_prefix_counts(self, level: int, prefixes: np.ndarray, std: float) -> np.ndarray:
    """Returns noisy numbers of points of some prefixes of one level.

    The prefixes are disjoint, so a point is in at most one of them.  All counts together
    are one release.

    Args:
      prefixes: Different integers below 2^level, shape (num_prefixes,).
      std: Standard deviation of the noise on a count, in points.

    Returns:
      Array of shape (num_prefixes,).
    """
    # pylint: disable=protected-access
    self._sums._ledger.record(f"counts of level {level}", _mu(std), 1.0, std)
    first, end = self._ranges(prefixes, level)
    counts = self._nonprivate_counts_below[end] - self._nonprivate_counts_below[first]
    return self._sums._noisy(counts * point_grid.CONTRIBUTION_STEPS, std)

  def private_leaf_sums(
      self, prefixes: np.ndarray, levels: np.ndarray, noise_multiplier: float
  ) -> np.ndarray:
    """Returns noisy sums of the points of some disjoint prefixes, of any levels.

    Args:
      prefixes: Integers, shape (num_leaves,).
      levels: Numbers of bits of the prefixes, shape (num_leaves,).
      noise_multiplier: Standard deviation of the noise on a coordinate, in radii.

    Returns:
      Array of shape (num_leaves, dim).
    """
    # pylint: disable=protected-access
    sums, radius = self._sums, self._sums.radius
    sums._ledger.record(
        "sums of the leaves", _mu(noise_multiplier), radius, noise_multiplier * radius
    )
    num_leaves = len(prefixes)
    # Points outside of all leaves go into one more leaf, which is not released.
    leaf_of_code = np.full(2**self.max_depth, num_leaves, np.int32)
    for leaf, (first, end) in enumerate(zip(*self._ranges(prefixes, levels))):
      leaf_of_code[first:end] = leaf

    def sums_by_leaf(start: int, rows: np.ndarray) -> np.ndarray:
      leaves = leaf_of_code[self._nonprivate_codes[start : start + len(rows)]]
      return sum_query.grouped_sums(leaves, num_leaves + 1, point_grid.contributions(rows, radius))

    totals = np.zeros((num_leaves + 1, sums.dim), np.int64)
    totals += sums._points.sum_over_blocks(sums_by_leaf, 1)
    return sums._noisy(totals[:-1], noise_multiplier) * radius


def _mu(std: float) -> float:
  """Returns mu for noise of `std` units of the sensitivity."""
  return 1 / std if std else math.inf


def _pack(bits: np.ndarray) -> np.ndarray:
  """Returns rows of bits as int32; the first bit is the highest."""
  weights = np.exp2(np.arange(bits.shape[1])[::-1], dtype=np.float32)
  return (bits.astype(np.float32) @ weights).astype(np.int32)
