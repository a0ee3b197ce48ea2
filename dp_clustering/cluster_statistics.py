"""Noisy sums over the points nearest to each center: one release of a private algorithm."""

from __future__ import annotations

import dataclasses
import math
import types
from typing import Any, Callable, Mapping, TYPE_CHECKING

import numpy as np

from dp_clustering import point_grid
from dp_clustering import sum_query

if TYPE_CHECKING:
  from dp_clustering import ledger as ledger_lib


@dataclasses.dataclass(frozen=True)
class ClusterStatistics:
  """Noisy sums over the points nearest to each center; everything in it is private.

  Attributes:
    residual_sums: Noisy sums of the clipped residuals, point minus center, of shape
      (num_centers, dim).
    counts: Noisy numbers of points, shape (num_centers,).
    squared_errors: Noisy sums of squared norms of the clipped residuals, shape
      (num_centers,); None if they were not requested.
    residual_sum_std: Standard deviation of the noise on a coordinate of `residual_sums`, of that
      which was asked for.
    noise_factor: By how much more the noise is, in standard deviations: all clients may add shares
      where fewer would do.
  """

  residual_sums: np.ndarray
  counts: np.ndarray
  squared_errors: np.ndarray | None
  residual_sum_std: float
  count_std: float
  noise_factor: float = 1.0


@dataclasses.dataclass(frozen=True)
class ClippedResiduals:
  """A kind of sum: what a point is nearest to, and how far from it, clipped.

  A point adds (y, 1, |y|^2 - 1/2) to its center, in contribution steps, where y is its
  residual in units of the center's clip radius, clipped to norm one.

  Attributes:
    with_squared_errors: Whether there is the last part.
  """

  with_squared_errors: bool

  def widths(self, dim: int) -> dict[str, int]:
    widths = {"residual_sums": dim, "counts": 1}
    return widths | {"excesses": 1} if self.with_squared_errors else widths

  def contributions(
      self, xp: types.ModuleType, points: Any, arrays: Mapping[str, Any]
  ) -> tuple[Any, Any]:
    nearest = point_grid.nearest(xp, points, arrays["centers"])
    residuals = -xp.take(arrays["centers"], nearest, axis=0)
    residuals += points  # In NumPy, in place.
    clip_radii = xp.take(arrays["clip_radii"], nearest, axis=0)
    # Of integers, so the order of the sum does not matter.
    norms = xp.sqrt(xp.einsum("ij,ij->i", residuals, residuals))[:, np.newaxis]
    parts = [
        point_grid.contributions(residuals, xp.maximum(norms, clip_radii)),
        xp.full_like(norms, point_grid.CONTRIBUTION_STEPS),
    ]
    if self.with_squared_errors:
      clipped = xp.minimum(norms / clip_radii, 1.0)
      # No power of two: TensorFlow would round it otherwise than NumPy does.
      parts.append(point_grid.contributions(clipped * clipped - 0.5, 1.0))
    return nearest, xp.concatenate(parts, axis=1)


def point_sensitivity(count_weight: float, squared_error_weight: float) -> float:
  """Returns the most by which a point changes weighted statistics, in clip radii, in L2 norm.

  A point changes one cluster only, by (y, 1, |y|^2 - 1/2) as in `ClippedResiduals`.
  Subtracting 1/2 from the squared error halves its cost; the noisy count then restores it.
  With the weights a and b, the squared norm of (y, a, b (|y|^2 - 1/2)) is convex in |y|^2.
  It is therefore at most 1 + a^2 + b^2 / 4.
  """
  return math.sqrt(1 + count_weight**2 + squared_error_weight**2 / 4)


def private_cluster_statistics(
    noisy_totals: Callable[[sum_query.SumQuery, dict[str, float]], np.ndarray],
    ledger: ledger_lib.Ledger, radius: float, centers: np.ndarray, residual_radius: float,
    mu: float, name: str, count_weight: float, squared_error_weight: float, unit_norm: float = 1.0,
    noise_factor: float = 1.0,
) -> ClusterStatistics:
  """Returns the noisy `ClusterStatistics` of the points nearest to each center.

  Args:
    noisy_totals: A function of a `SumQuery` and a dict of the standard deviation of the
      noise on every part, in contribution steps, 0 for none.  It returns the noisy totals.
    centers: Private centers, of shape (num_centers, dim), in the ball.
    residual_radius: Norm that residuals are clipped to, in the unit of the radius.
    mu: Cost of the release: mu of Gaussian differential privacy; `inf` for no noise.
    count_weight: Precision of the counts relative to that of the residual sums.
    squared_error_weight: Precision of the squared errors relative to that of the residual
      sums; 0 for no squared errors.
    unit_norm: The largest norm of what neighbouring data sets differ in, in bounds of one
      point.
    noise_factor: As in the `ClusterStatistics`.
  """
  sensitivity = unit_norm * point_sensitivity(count_weight, squared_error_weight)
  std = sensitivity / mu
  ledger.record(name, mu, sensitivity, std)
  with_errors = squared_error_weight > 0
  query = sum_query.SumQuery(
      ClippedResiduals(with_errors),
      {
          "centers": point_grid.on_point_grid(centers, radius),
          "clip_radii": np.full(
              (len(centers), 1), residual_radius / radius * point_grid.POINT_STEPS
          ),
      },
  )
  stds = {"residual_sums": std, "counts": std / count_weight}
  if with_errors:
    stds["excesses"] = std / squared_error_weight
  steps = point_grid.CONTRIBUTION_STEPS
  totals = noisy_totals(query, {part: steps * value for part, value in stds.items()})
  parts = query.split(totals / steps)
  counts = parts["counts"][:, 0]
  errors = None
  if with_errors:
    errors = (parts["excesses"][:, 0] + counts / 2) * residual_radius**2
  return ClusterStatistics(
      residual_sums=parts["residual_sums"] * residual_radius,
      counts=counts,
      squared_errors=errors,
      residual_sum_std=std * residual_radius,
      count_std=std / count_weight,
      noise_factor=noise_factor,
  )
