"""The sums that k-means asks of points that it never sees, exact to the last bit.

Points and centers are integers on the grid of `point_grid`, in a ball of radius 2^25 steps.
Distances, products and losses are then integers below 2^53, which float64 holds exactly.
What is larger than a contribution may be is sent as two of them (`limbs`).
"""

import dataclasses
import types
from typing import Any, Mapping

import numpy as np

from dp_clustering import point_grid

# The lower part of a large integer is below this; the higher part of one below 2^53 is below
# 2^27.
_LIMB = 2.0**26
# Norm of a direction.  The residual of a point is shorter than 2^26, up to rounding.
DIRECTION_STEPS = 2**25


def limbs(xp: types.ModuleType, values: Any) -> list[Any]:
  """Returns integers in (-2^53, 2^53) as a list of their higher and their lower part."""
  high = xp.floor(values / _LIMB)
  return [high, values - high * _LIMB]


def whole(parts: np.ndarray) -> np.ndarray:
  """Returns sums of what was sent as two parts, int64 (..., 2), as Python's integers (...)."""
  high, low = np.moveaxis(parts.astype(object), -1, 0)
  return high * int(_LIMB) + low


def _two_nearest(xp: types.ModuleType, points: Any, centers: Any) -> tuple[Any, Any, Any]:
  """Returns the index of every point's nearest center, and the closeness of the nearest two.

  The closeness of a point x and a center c is x.c - |c|^2 / 2, which is larger the smaller
  their distance is.  A center that is the only one counts as the second nearest, too.  The index
  is that of `point_grid.nearest`, (num_points,); both closenesses are (num_points, 1).
  """
  closeness = xp.matmul(points, xp.transpose(centers))
  closeness -= xp.sum(centers * centers, axis=1) / 2  # In NumPy, in place.
  first = xp.max(closeness, axis=1)[:, np.newaxis]
  is_first = closeness >= first
  others = xp.max(xp.where(is_first, -np.inf, closeness), axis=1)[:, np.newaxis]
  num_first = xp.sum(xp.where(is_first, 1.0, 0.0), axis=1)[:, np.newaxis]
  has_tie_or_no_other = xp.logical_or(num_first > 1, others == -np.inf)
  second = xp.where(has_tie_or_no_other, first, others)
  return xp.argmax(closeness, axis=1), first, second


@dataclasses.dataclass(frozen=True)
class Start:
  """A kind of sum: how many points there are, and the sum of their squared norms.

  The array of the query, `origin`, is a row of zeros.  All points are one group.
  """

  def widths(self, dim: int) -> dict[str, int]:
    del dim  # Every kind takes it.
    return {"count": 1, "squares": 2}

  def contributions(
      self, xp: types.ModuleType, points: Any, arrays: Mapping[str, Any]
  ) -> tuple[Any, Any]:
    squares = xp.einsum("ij,ij->i", points, points)[:, np.newaxis]
    parts = [xp.full_like(squares, 1.0), *limbs(xp, squares)]
    return point_grid.nearest(xp, points, arrays["origin"]), xp.concatenate(parts, axis=1)


@dataclasses.dataclass(frozen=True)
class ChildSums:
  """A kind of sum: counts and residuals by the nearest center, and by a half of its points.

  The points of the center c are on one of two sides of a hyperplane: (x - c).d > t holds for
  the upper ones.  The arrays of the query are `centers`, `directions` (the d) of norms up to
  `DIRECTION_STEPS`, both of shape (num_centers, dim), and `thresholds` (the t), of shape
  (num_centers, 1); all are integers.

  Attributes:
    with_losses: Whether there is the last part: how much farther from the points the second
      nearest center is than theirs, in squared distances.  It is what removing the center
      would cost.
  """

  with_losses: bool

  def widths(self, dim: int) -> dict[str, int]:
    widths = {"counts": 1, "upper_counts": 1, "residuals": dim, "upper_residuals": dim}
    return widths | {"losses": 2} if self.with_losses else widths

  def contributions(
      self, xp: types.ModuleType, points: Any, arrays: Mapping[str, Any]
  ) -> tuple[Any, Any]:
    losses = []
    if self.with_losses:
      nearest, first, second = _two_nearest(xp, points, arrays["centers"])
      losses = limbs(xp, 2 * (first - second))
    else:
      nearest = point_grid.nearest(xp, points, arrays["centers"])
    residuals = -xp.take(arrays["centers"], nearest, axis=0)
    residuals += points  # In NumPy, in place.
    directions = xp.take(arrays["directions"], nearest, axis=0)
    heights = xp.einsum("ij,ij->i", residuals, directions)[:, np.newaxis]
    is_upper = heights > xp.take(arrays["thresholds"], nearest, axis=0)
    upper = xp.where(is_upper, 1.0, 0.0)
    parts = [xp.full_like(upper, 1.0), upper, residuals, upper * residuals, *losses]
    return nearest, xp.concatenate(parts, axis=1)


@dataclasses.dataclass(frozen=True)
class FineSums:
  """A kind of sum: counts and sums of points in steps of every column, by the nearest center.

  The grid is as fine as the widest column allows, and a column may be narrower than its steps.
  So here the points are in other steps, below 2^53 of them, and are rounded to the grid to find
  their center.  The sums are sent in two parts.

  The arrays of the query are `centers`, on the grid, and `cells`, a column's steps in grid
  steps, the same row for every center.
  """

  def widths(self, dim: int) -> dict[str, int]:
    return {"counts": 1, "high_sums": dim, "low_sums": dim}

  def contributions(
      self, xp: types.ModuleType, points: Any, arrays: Mapping[str, Any]
  ) -> tuple[Any, Any]:
    on_grid = xp.floor(points * arrays["cells"][:1] + 0.5)
    ones = xp.full_like(points[:, :1], 1.0)
    nearest = point_grid.nearest(xp, on_grid, arrays["centers"])
    return nearest, xp.concatenate([ones, *limbs(xp, points)], axis=1)


@dataclasses.dataclass(frozen=True)
class Scores:
  """A kind of sum: counts, residuals and simplified silhouettes, by the nearest center.

  The simplified silhouette of a point is (b - a) / max(a, b) with its distances a and b to
  the nearest and the second nearest center (Hruschka, de Castro, Campello, "Evolutionary
  Algorithms for Clustering Gene-Expression Data", ICDM 2004).  It is zero where there is one
  center only, and where both distances are zero.  It is sent in contribution steps.  Counts
  and residuals tell the inertia (`split_and_swap.inertias`).

  The array of the query is `centers`.
  """

  def widths(self, dim: int) -> dict[str, int]:
    return {"counts": 1, "residuals": dim, "silhouettes": 1}

  def contributions(
      self, xp: types.ModuleType, points: Any, arrays: Mapping[str, Any]
  ) -> tuple[Any, Any]:
    nearest, first, second = _two_nearest(xp, points, arrays["centers"])
    squares = xp.einsum("ij,ij->i", points, points)[:, np.newaxis]
    a, b = xp.sqrt(squares - 2 * first), xp.sqrt(squares - 2 * second)
    # A distance is zero, or at least one step.
    silhouettes = xp.floor((b - a) / xp.maximum(b, 1.0) * point_grid.CONTRIBUTION_STEPS)
    residuals = points - xp.take(arrays["centers"], nearest, axis=0)
    parts = [xp.full_like(a, 1.0), residuals, silhouettes]
    return nearest, xp.concatenate(parts, axis=1)
