"""What the server knows between rounds, and its own step: divide the clients' sums."""

from __future__ import annotations

import dataclasses
from typing import Callable

import numpy as np

from dp_clustering import point_grid
from dp_clustering import sum_query
from fl_clustering.kmeans import sum_kinds
from fl_clustering.multiview import sums as sums_lib

# Steps of a contribution to one, without noise: as many as a message has room for.
EXACT_STEPS = 2**30
# Below this, so few steps are left of a cluster's kernels that their rounding would show.
_LEAST_KERNEL_WEIGHT = 2.0**-15
# The factor of a view counts as zero below this part of the largest.
_LEAST_FACTOR = 2.0**-60

# From the views' costs, of shape (H,), to their weights.
Weigh = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class MultiViewModel:
  """A model between two rounds, in grid steps.

  Attributes:
    centers: Float64 integers of shape (K, D), the views side by side.
    view_weights: float64 of shape (H,), with H the number of views; sum one.
    alpha: The weights' exponent in the objective.
    rates: The views' bandwidths per squared grid step, float64 of shape (H,).
    widths: The views' numbers of columns, which sum to D.
  """

  centers: np.ndarray
  view_weights: np.ndarray
  alpha: float
  rates: np.ndarray
  widths: tuple[int, ...]

  @property
  def view_factors(self) -> np.ndarray:
    return self.view_weights**self.alpha

  def arrays(self) -> dict[str, np.ndarray]:
    """Returns what the clients are told: the arrays of a query of `sums.KernelSums`."""
    factors = (self.view_weights / self.view_weights.max()) ** self.alpha
    factors = np.where(factors < _LEAST_FACTOR, 0.0, factors)
    rows = (len(self.centers), 1)
    return {
        "centers": self.centers,
        "rates": np.tile(self.rates, rows),
        "factors": np.tile(factors, rows),
    }

  def moved(self, moves: np.ndarray, view_weights: np.ndarray) -> MultiViewModel:
    """Returns the model after a round, given how far its centers move, in grid steps."""
    centers = on_grid(self.centers + moves)
    return dataclasses.replace(self, centers=centers, view_weights=view_weights)

  def query(self, steps: int = EXACT_STEPS) -> sum_query.SumQuery:
    """Returns the query of a round, with so many steps of a contribution to one."""
    return sum_query.SumQuery(sums_lib.KernelSums(self.widths, steps), self.arrays())


@dataclasses.dataclass(frozen=True, eq=False)
class KernelStatistics:
  """Sums over all points at a model.

  Attributes:
    residual_sums: Kernel-weighted residuals, in units of one over the root of the
      bandwidth; float64 of shape (K, D).
    kernel_weights: Sums of the kernels, of shape (K, H).
    counts: Numbers of points, of shape (K,).
  """

  residual_sums: np.ndarray
  kernel_weights: np.ndarray
  counts: np.ndarray

  @property
  def view_costs(self) -> np.ndarray:
    """The views' unweighted parts of the objective, of shape (H,)."""
    return self.counts.sum() - self.kernel_weights.sum(axis=0)


def statistics(query: sum_query.SumQuery, totals: np.ndarray) -> KernelStatistics:
  """Returns the statistics from the totals of a query of `sums.KernelSums`."""
  assert isinstance(query.kind, sums_lib.KernelSums)
  parts = query.split(totals / query.kind.steps)
  return KernelStatistics(
      residual_sums=parts["residual_sums"],
      kernel_weights=parts["excesses"] + parts["counts"] / 2,
      counts=parts["counts"][:, 0],
  )


@dataclasses.dataclass(frozen=True, eq=False)
class RoundRecord:
  """Figures over all clients of the model that a round started from.

  Attributes:
    objective: J, see `sums.py`.
    view_costs: The views' unweighted parts of J, of shape (H,).
    cluster_sizes: Of shape (K,), whole numbers unless noise was added.
  """

  objective: float
  view_weights: np.ndarray
  view_costs: np.ndarray
  cluster_sizes: np.ndarray


def record(model: MultiViewModel, sums: KernelStatistics) -> RoundRecord:
  """Returns the record of the model that the clients were sent."""
  return RoundRecord(
      objective=float(model.view_factors @ sums.view_costs),
      view_weights=model.view_weights,
      view_costs=sums.view_costs,
      cluster_sizes=sums.counts,
  )


def moves(
    model: MultiViewModel, sums: KernelStatistics,
    least_kernel_weight: float = _LEAST_KERNEL_WEIGHT,
) -> np.ndarray:
  """Returns how far every center is from the kernel-weighted mean of its points.

  The moves are in grid steps, of shape (K, D).  Where the sum of kernels is not above
  `least_kernel_weight`, a center stays.
  """
  weights = np.repeat(sums.kernel_weights * np.sqrt(model.rates), model.widths, axis=1)
  stays = np.repeat(sums.kernel_weights <= least_kernel_weight, model.widths, axis=1)
  return np.where(stays, 0.0, sums.residual_sums / np.where(stays, 1.0, weights))


def fine_query(model: MultiViewModel, cells: np.ndarray) -> sum_query.SumQuery:
  """Returns the query of `fine_means`; `cells` are the columns' own steps in grid steps, (D,)."""
  arrays = model.arrays() | {"cells": np.tile(cells, (len(model.centers), 1))}
  return sum_query.SumQuery(sums_lib.FineKernelSums(model.widths), arrays)


def fine_means(query: sum_query.SumQuery, totals: np.ndarray) -> np.ndarray:
  """Returns the kernel-weighted means of every center's points, in grid steps, of shape (K, D).

  They are right to float precision in every column.  Where the sum of kernels is too small, a
  center stays.
  """
  assert isinstance(query.kind, sums_lib.FineKernelSums)
  parts = query.split(totals)
  sums = sum_kinds.whole(np.stack([parts["high_sums"], parts["low_sums"]], axis=-1))
  centers, cells = query.arrays["centers"], query.arrays["cells"]
  points, kernels = np.split(sums.astype(np.float64), [centers.shape[1]], axis=1)
  weights = np.repeat(kernels / sums_lib.FINE_STEPS, query.kind.view_widths, axis=1)
  stays = weights <= _LEAST_KERNEL_WEIGHT
  return np.where(stays, centers, points / np.where(stays, 1.0, weights) * cells)


def on_grid(centers: np.ndarray) -> np.ndarray:
  """Returns centers in grid steps as integers, in the ball that points are in."""
  norms = np.linalg.norm(centers, axis=1, keepdims=True)
  return np.rint(centers * np.minimum(1, point_grid.POINT_STEPS / np.maximum(norms, 1)))
