"""Noisy sums over the points: the only thing a private algorithm may see of them.

An algorithm asks for a statistic that is a sum of one bounded contribution per
point.  It gets the sum with noise, after the ledger has agreed.  The points themselves,
their number and exact sums stay in this module.  The same algorithm can therefore run
where the points lie on many clients; only the party that adds up changes.

A sum is made in four steps:

1. Every contribution, in units of its bound, is truncated towards zero onto a grid of
   `GRID` steps.  Truncation makes no coordinate larger, so the bound on the L2 norm
   still holds.  It is the sensitivity when a point is added or removed.
2. The grid points are added up as integers.  That is exact in float64 up to 2^53, so the
   order of the points does not matter.
3. Integer noise is added.
4. The result is scaled back.

No real-valued noise is ever added to a real-valued sum, so its floating-point leaks
(Mironov 2012) can't occur.
"""

from concurrent import futures
import dataclasses
import functools
import math
import os

import numpy as np
from scipy import sparse
import threadpoolctl

from dp_clustering import clustering_params

GRID = 2**20
# Steps per unit in the products that decide on which side of a border a point is.
_PRODUCT_GRID = 2**25
# Elements of points that are processed at a time.
_BLOCK_ELEMENTS = 2**18  # They stay in a core's cache.
# Largest number of products of points with centers at a time: 32 MB for each core.
_BLOCK_PRODUCTS = 2**22
# Bits of a code: float32 holds exactly this many, and a table of all codes fits.
LARGEST_MAX_DEPTH = 24
# Norms are computed in floating point, so contributions stay inside their bound by this
# factor.
_INSIDE = 1 - 2.0**-30


@functools.lru_cache(maxsize=None)
def _thread_pools():
  """Returns the controller of the numerical libraries' threads; cached, as it is slow."""
  return threadpoolctl.ThreadpoolController()


def _on_grid(values, unit=1.0):
  """Truncates contributions of norms up to `unit` towards zero, onto the grid.

  `unit` is a number, or one number for each row.
  """
  scaled = values * (GRID * _INSIDE / unit)
  return np.trunc(scaled, out=scaled)


def _grouped_sums(groups, num_groups, values):
  """Returns sums of the rows of `values` by group, shape (num_groups, columns)."""
  # Each row has one group, so the index pointers of the membership matrix are known.
  columns = np.arange(len(groups) + 1, dtype=groups.dtype)
  members = sparse.csc_array(
      (np.ones(len(groups)), groups, columns), shape=(num_groups, len(groups))
  )
  return members @ values


def _on_product_grid(vectors, bound):
  """Returns vectors of norms up to `bound` as integers whose dot products are exact.

  A matrix product may round a row differently when another row is added, and a point on
  a border could then change sides.  Products of integers of so few bits need no rounding:
  by Cauchy and Schwarz, no partial sum comes near 2^53.
  """
  scaled = vectors * (_PRODUCT_GRID / bound)
  return np.rint(scaled, out=scaled)


def nearest_centers(points, centers):
  """Returns the index of the nearest center of every point, shape (num_points,).

  Args:
    points: Finite array of shape (num_points, dim).  Not private, nor is the result.
    centers: Finite array of shape (num_centers, dim), in the unit of the points.
  """
  closeness = points @ centers.T
  closeness -= (centers * centers).sum(axis=1) / 2
  return closeness.argmax(axis=1)


@dataclasses.dataclass(frozen=True)
class ClusterStatistics:
  """Noisy sums over the points nearest to each center; everything in it is private.

  Attributes:
    residual_sums: Noisy sums of the clipped residuals, point minus center, of shape
      (num_centers, dim).
    counts: Noisy numbers of points, shape (num_centers,).
    squared_errors: Noisy sums of squared norms of the clipped residuals, shape
      (num_centers,); None if they were not requested.
    residual_sum_std: Standard deviation of the noise on a coordinate of `residual_sums`.
    count_std: Standard deviation of the noise on a count.
  """

  residual_sums: np.ndarray
  counts: np.ndarray
  squared_errors: np.ndarray | None
  residual_sum_std: float
  count_std: float


class PrivateSums:
  """Noisy sums over points that stay hidden.

  Attributes:
    dim: Number of coordinates of a point; public.
    radius: Radius of the ball that points are mapped into; public.
  """

  def __init__(self, nonprivate_points, radius, noise_source, ledger):
    """Takes the points.

    Args:
      nonprivate_points: Array of real numbers of shape (num_points, dim), finite or not.
        Every row is mapped into the ball on its own, when it is used.
      radius: Radius of that ball, a positive number; public.
      noise_source: A source of noise, one of the module `noise`.
      ledger: `ledger.Ledger`; every release is entered before it is made.
    """
    self._nonprivate_points = nonprivate_points
    self._noise_source = noise_source
    self._ledger = ledger
    # Blocks that are in the ball already, as (start, size).
    self._blocks_in_ball = set()
    self.radius = radius
    self.dim = nonprivate_points.shape[1]

  def _mapped_rows(self, start, size):
    """Returns the rows of a block, mapped into the ball; they must not be written to."""
    # In C order, NumPy adds up every row on its own.
    rows = np.ascontiguousarray(self._nonprivate_points[start : start + size])
    if (start, size) in self._blocks_in_ball:
      return rows
    mapped = clustering_params.map_to_ball(rows, self.radius)
    if mapped is rows:
      self._blocks_in_ball.add((start, size))
    return mapped

  def _sum_over_blocks(self, function, num_products):
    """Returns the sum of function(start, rows) over blocks of mapped rows; 0 of none.

    Blocks are processed in parallel.  Sums on the grid are exact, so they don't depend
    on the order.

    Args:
      function: A function of the index of a block's first row and its rows.
      num_products: How many products with each row `function` keeps at a time.
    """
    size = max(1, min(_BLOCK_ELEMENTS // self.dim, _BLOCK_PRODUCTS // num_products))
    starts = range(0, len(self._nonprivate_points), size)
    num_threads = min(len(os.sched_getaffinity(0)), len(starts))
    # A free thread takes the next block.
    remaining = iter(starts)

    def partial_sum(_):
      return sum(function(start, self._mapped_rows(start, size)) for start in remaining)

    if num_threads <= 1:
      return partial_sum(0)
    # The libraries' own threads inside of these would only get in each other's way.
    with _thread_pools().limit(limits=1), futures.ThreadPoolExecutor(num_threads) as pool:
      return sum(pool.map(partial_sum, range(num_threads)))

  def _noisy(self, grid_sums, std):
    """Returns grid sums in units of the bound, with noise of `std` such units."""
    noise = self._noise_source.discrete_gaussian(grid_sums.shape, std * GRID) if std else 0
    return (grid_sums + noise) / GRID

  def private_count(self, std, name):
    """Returns the noisy number of points.

    Args:
      std: Standard deviation of the noise, in points.
      name: The release's name in the ledger.
    """
    self._ledger.record(name, _mu(std), 1.0, std)
    num_points = np.array([len(self._nonprivate_points) * GRID])
    return float(self._noisy(num_points, std)[0])

  def hashed(self, hyperplanes):
    """Returns the `HashedSums` of the points, hashed by the sides of hyperplanes.

    Args:
      hyperplanes: Normal vectors of hyperplanes through the origin, of shape
        (max_depth, dim), where `max_depth` is at most `LARGEST_MAX_DEPTH`.  Public: they
        must be chosen without the points.
    """
    hyperplanes = np.asarray(hyperplanes, np.float64)
    norms = np.linalg.norm(hyperplanes, axis=1, keepdims=True)
    hyperplanes = _on_product_grid(hyperplanes, norms)
    codes = np.zeros(len(self._nonprivate_points), np.int32)

    def pack_codes(start, rows):
      sides = _on_product_grid(rows, self.radius) @ hyperplanes.T < 0
      codes[start : start + len(rows)] = _pack(sides)
      return 0  # Nothing to add up.

    self._sum_over_blocks(pack_codes, LARGEST_MAX_DEPTH)
    return HashedSums(self, codes, len(hyperplanes))

  def private_cluster_statistics(
      self, centers, residual_radius, mu, name, count_weight, squared_error_weight
  ):
    """Returns the noisy `ClusterStatistics` of the points nearest to each center.

    A point changes one cluster only, by (y, 1, |y|^2 - 1/2), where y is its residual
    in units of `residual_radius`, clipped to norm 1.  Subtracting 1/2 from the squared
    error halves its cost; the noisy count then restores it.  With the weights a and b,
    the squared norm of (y, a, b (|y|^2 - 1/2)) is convex in |y|^2.  It is therefore at
    most 1 + a^2 + b^2 / 4.

    Args:
      centers: Private centers, of shape (num_centers, dim).
      residual_radius: Norm that residuals are clipped to, in the unit of the points.
      mu: Cost of the release: mu of Gaussian differential privacy; `inf` for no noise.
      name: The release's name in the ledger.
      count_weight: Precision of the counts relative to that of the residual sums.
      squared_error_weight: Precision of the squared errors relative to that of the
        residual sums; 0 for no squared errors.
    """
    sensitivity = math.sqrt(1 + count_weight**2 + squared_error_weight**2 / 4)
    std = sensitivity / mu
    self._ledger.record(name, mu, sensitivity, std)
    centers_on_grid = _on_product_grid(centers, self.radius)
    with_errors = squared_error_weight > 0

    def contributions_by_center(_, rows):
      nearest = nearest_centers(_on_product_grid(rows, self.radius), centers_on_grid)
      residuals = centers[nearest]
      np.subtract(rows, residuals, out=residuals)
      norms = np.sqrt(np.einsum("ij,ij->i", residuals, residuals))
      units = np.maximum(norms, residual_radius)[:, np.newaxis]
      contributions = np.empty((len(rows), self.dim + 1 + with_errors))
      contributions[:, : self.dim] = _on_grid(residuals, units)
      contributions[:, self.dim] = GRID
      if with_errors:
        squares = np.minimum(norms / residual_radius, 1) ** 2
        contributions[:, -1] = _on_grid(squares - 0.5)
      return _grouped_sums(nearest, len(centers), contributions)

    sums = np.zeros((len(centers), self.dim + 1 + with_errors))
    sums += self._sum_over_blocks(contributions_by_center, len(centers))
    counts = self._noisy(sums[:, self.dim], std / count_weight)
    errors = None
    if with_errors:
      errors = self._noisy(sums[:, -1], std / squared_error_weight) + counts / 2
      errors *= residual_radius**2
    return ClusterStatistics(
        residual_sums=self._noisy(sums[:, : self.dim], std) * residual_radius,
        counts=counts,
        squared_errors=errors,
        residual_sum_std=std * residual_radius,
        count_std=std / count_weight,
    )


class HashedSums:
  """Noisy sums over points by prefixes of their codes.

  The code of a point has one bit per level; the first hyperplane's bit is the highest.
  The points of a prefix at a level are those whose code starts with its bits.

  Attributes:
    max_depth: Number of bits of a code; public.
  """

  def __init__(self, sums, nonprivate_codes, max_depth):
    """Takes the points' codes; called by `PrivateSums.hashed` only.

    Args:
      sums: The `PrivateSums` over the points.
      nonprivate_codes: The points' codes, int32, shape (num_points,).
      max_depth: Number of bits of a code.
    """
    self._sums = sums
    self._nonprivate_codes = nonprivate_codes
    self.max_depth = max_depth
    # Numbers of points with a smaller code.  In place, as tables of all codes are large.
    counts = np.bincount(nonprivate_codes + 1, minlength=2**max_depth + 1)
    self._nonprivate_counts_below = np.cumsum(counts, out=counts)

  def _ranges(self, prefixes, levels):
    """Returns the first code of each prefix, and the first code after it."""
    shifts = self.max_depth - np.asarray(levels)
    prefixes = np.asarray(prefixes, np.int64)
    return prefixes << shifts, (prefixes + 1) << shifts

  def private_prefix_counts(self, level, prefixes, std):
    """Returns noisy numbers of points of some prefixes of one level.

    The prefixes are disjoint, so a point is in at most one of them.  All counts together
    are one release.

    Args:
      level: Number of bits of the prefixes.
      prefixes: Different integers below 2^level, shape (num_prefixes,).
      std: Standard deviation of the noise on a count, in points.

    Returns:
      Array of shape (num_prefixes,).
    """
    # pylint: disable=protected-access
    self._sums._ledger.record(f"counts of level {level}", _mu(std), 1.0, std)
    first, end = self._ranges(prefixes, level)
    counts = self._nonprivate_counts_below[end] - self._nonprivate_counts_below[first]
    return self._sums._noisy(counts * GRID, std)

  def private_leaf_sums(self, prefixes, levels, noise_multiplier):
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

    def sums_by_leaf(start, rows):
      leaves = leaf_of_code[self._nonprivate_codes[start : start + len(rows)]]
      return _grouped_sums(leaves, num_leaves + 1, _on_grid(rows, radius))

    totals = np.zeros((num_leaves + 1, sums.dim))
    totals += sums._sum_over_blocks(sums_by_leaf, 1)
    return sums._noisy(totals[:-1], noise_multiplier) * radius


def _mu(std):
  """Returns mu for noise of `std` units of the sensitivity."""
  return 1 / std if std else math.inf


def _pack(bits):
  """Returns rows of bits as int32; the first bit is the highest."""
  weights = np.exp2(np.arange(bits.shape[1])[::-1], dtype=np.float32)
  return (bits.astype(np.float32) @ weights).astype(np.int32)
