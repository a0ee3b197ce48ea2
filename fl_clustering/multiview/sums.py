"""The mathematics of multi-view k-means with a rectified Gaussian kernel, by sums.

With x_i^h the point i in view h, a_k^h the center of cluster k there, v_h the view's
weight and beta_h its bandwidth, MVKM-ED minimises

  J = sum_h v_h^alpha sum_i (1 - exp(-beta_h ||x_i^h - a_k(i)^h||^2)),

where k(i) is the point's cluster, the same in all views.  Here beta_h never changes; the author's
program changes it in every iteration.  One iteration assigns every
point to its cheapest cluster and moves every center to the mean of its points, in which
point i weighs w_i^h = exp(-beta_h ||x_i^h - a_k(i)^h||^2).  All of it needs sums over
the points only, so that a round over many clients is one iteration over all of their
points.  No view's cost rises in that step: 1 - exp(-beta d) is concave in d, and the
weighted mean minimises its tangent at the present distance.

Points and centers are integers on the grid of `dp_clustering.point_grid`, so that squared
distances are exact.  The kernel is computed from them by additions, multiplications and
square roots of single numbers, which every processor rounds alike.  What a point adds to
the sums is therefore the same bits whatever other points there are.

`widths` are the views' numbers of columns, which sum to D.

References:
  Kristina P. Sinaga. Rectified Gaussian Kernel Multi-View K-Means Clustering. 2024.
  https://arxiv.org/abs/2405.05619
  Miin-Shen Yang, Kristina P. Sinaga. Federated Multi-View K-Means Clustering. IEEE
  Transactions on Pattern Analysis and Machine Intelligence 47(4), 2025.
  https://doi.org/10.1109/TPAMI.2024.3520708
"""

import dataclasses
import math
import types
from typing import Any, Mapping, Sequence

import numpy as np

from fl_clustering.kmeans import sum_kinds

# Exponents are cut here, so that neither a kernel nor its product with the factor of a view
# is so small that a processor may make it zero.
_LARGEST_EXPONENT = 512.0
# exp(-t) is the power 2^10 of exp(-t / 2^10).
_SQUARINGS = 10
_TAYLOR = tuple((-1.0) ** n / math.factorial(n) for n in range(17))
# Kernels are rounded, so what is made of them stays inside its bound by this factor.
_INSIDE = 1 - 2.0**-30
# Steps of a kernel to one, in `FineKernelSums`.
FINE_STEPS = 2.0**52


def decay(exponents: np.ndarray) -> np.ndarray:
  """Returns exp(-exponents), with a relative error below 1e-12.

  Exponents above 512 count as 512.  Libraries round their own exponential function in
  different ways, even in the same array: its end may be computed by other instructions.
  """
  part = np.minimum(exponents, _LARGEST_EXPONENT) / 2.0**_SQUARINGS
  power = np.full_like(part, _TAYLOR[-1])
  for coefficient in reversed(_TAYLOR[:-1]):
    power = power * part + coefficient
  for _ in range(_SQUARINGS):
    power = power * power
  return power


def columns(widths: Sequence[int]) -> list[slice]:
  """Returns the slice of every view's columns."""
  ends = [sum(widths[: view + 1]) for view in range(len(widths))]
  return [slice(end - width, end) for end, width in zip(ends, widths)]


def closeness(
    points: np.ndarray, arrays: Mapping[str, np.ndarray], widths: Sequence[int]
) -> np.ndarray:
  """Returns the sum of v_h^alpha w_h over the views of every point in every cluster.

  Args:
    points: Float64, integers of shape (n, D), the views beside one another.
    arrays: Those of a `KernelSums` query.

  Returns:
    Float64 of shape (n, K), for the largest v_h^alpha as one.
  """
  total: Any = 0.0
  for view, place in enumerate(columns(widths)):
    x, centers = points[:, place], arrays["centers"][:, place]
    squares = np.sum(x * x, axis=1)[:, None] + np.sum(centers * centers, axis=1)
    squares -= 2 * np.matmul(x, np.transpose(centers))
    kernels = decay(arrays["rates"][:, view] * squares)
    total += arrays["factors"][:, view] * kernels
  return total


def nearest(
    points: np.ndarray, arrays: Mapping[str, np.ndarray], widths: Sequence[int]
) -> np.ndarray:
  """Gives every point to the cluster in which it costs least over all views.

  That is the cluster of the largest `closeness`, which takes the same arguments.  Ties go to
  the first one.
  """
  return np.argmax(closeness(points, arrays, widths), axis=1)


def _at_own_clusters(
    points: np.ndarray, arrays: Mapping[str, np.ndarray], widths: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
  """Returns the clusters of points on the grid, and what the points are like there.

  That is the points minus the centers, of shape (n, D); the bandwidths, (n, H); and the kernels,
  an array of shape (n, 1) per view.
  """
  clusters = nearest(points, arrays, widths)
  residuals = points - arrays["centers"][clusters]
  rates, kernels = arrays["rates"][clusters], []
  for view, place in enumerate(columns(widths)):
    residual, rate = residuals[:, place], rates[:, view : view + 1]
    squares = np.einsum("ij,ij->i", residual, residual)[:, None]
    kernels.append(decay(rate * squares))
  return clusters, residuals, rates, kernels


@dataclasses.dataclass(frozen=True)
class KernelSums:
  """A kind of sum: the kernel-weighted residuals and the kernels of a cluster's points.

  A point adds (w_1 u_1, ..., w_H u_H, w_1 - 1/2, ..., w_H - 1/2, 1) to its cluster, in steps.
  Here u_h is its residual in view h, the point minus the center, times the root of beta_h.
  So w_h = exp(-|u_h|^2).

  The arrays of the query are `centers` (K, D), integers in a ball of `point_grid.POINT_STEPS`;
  `rates` (K, H), the bandwidths per squared grid step; and `factors` (K, H), the v_h^alpha, of
  which the largest is one.  Both have the same row for every cluster.

  Attributes:
    steps: Steps of a contribution to one.
  """

  view_widths: tuple[int, ...]
  steps: int

  def widths(self, dim: int) -> dict[str, int]:
    return {"residual_sums": dim, "excesses": len(self.view_widths), "counts": 1}

  def contributions(
      self, xp: types.ModuleType, points: Any, arrays: Mapping[str, Any]
  ) -> tuple[Any, Any]:
    del xp  # No other library asks for these.
    clusters, residuals, rates, own = _at_own_clusters(points, arrays, self.view_widths)
    weighted, excesses = [], []
    for view, (place, kernels) in enumerate(zip(columns(self.view_widths), own)):
      root = np.sqrt(rates[:, view : view + 1])
      weighted.append(residuals[:, place] * (kernels * root * (_INSIDE * self.steps)))
      excesses.append((kernels - 0.5) * (_INSIDE * self.steps))
    counts = np.full_like(excesses[0], self.steps)
    return clusters, np.concatenate([*weighted, *excesses, counts], axis=1)


@dataclasses.dataclass(frozen=True)
class FineKernelSums:
  """A kind of sum: kernel-weighted points in steps of every column, and kernels.

  A column may be narrower than the steps of the grid.  So here the points are in other steps,
  below 2^53 of them, and are rounded to the grid to find their cluster and kernels.  A point
  adds (w_1 x_1, ..., w_H x_H) and its kernels in steps of `FINE_STEPS` to one, in two parts.

  The arrays of the query are those of `KernelSums`, and `cells`, a column's steps in grid
  steps, the same row for every cluster.
  """

  view_widths: tuple[int, ...]

  def widths(self, dim: int) -> dict[str, int]:
    width = dim + len(self.view_widths)
    return {"high_sums": width, "low_sums": width}

  def contributions(
      self, xp: types.ModuleType, points: Any, arrays: Mapping[str, Any]
  ) -> tuple[Any, Any]:
    del xp  # As in `KernelSums`.
    on_grid = np.floor(points * arrays["cells"][:1] + 0.5)
    clusters, _, _, own = _at_own_clusters(on_grid, arrays, self.view_widths)
    weighted = [
        points[:, place] * kernels for place, kernels in zip(columns(self.view_widths), own)
    ]
    values = np.concatenate([*weighted, *(kernels * FINE_STEPS for kernels in own)], axis=1)
    return clusters, np.concatenate(sum_kinds.limbs(np, values), axis=1)


def sensitivity(num_views: int, count_weight: float) -> float:
  """Returns the most by which one point changes a query's totals, in L2 norm.

  The point changes the totals of one cluster.  The counts are multiplied by `count_weight`.
  In one view, with w = exp(-t) and t = |u|^2, the point adds

    |w u|^2 + (w - 1/2)^2 = (1 + t) w^2 - w + 1/4 <= 1/4,

  since (1 + t) exp(-t) <= 1.  So the squares are at most H / 4 + count_weight^2, wherever the
  point and the centers are.

  Args:
    num_views: H.
    count_weight: Precision of the counts relative to that of the other sums.
  """
  return math.sqrt(num_views / 4 + count_weight**2)
