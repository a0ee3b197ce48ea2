"""The coordinates of a fit without noise: integers, in which every view has the same spread.

They follow from totals of integers alone, so they are the same bits whatever the order, the
number or the split of the clients.
"""

from __future__ import annotations

import dataclasses
import types
from typing import Any, Mapping, Sequence

import numpy as np

from dp_clustering import point_grid
from dp_clustering import sum_query
from fl_clustering.kmeans import sum_kinds
from fl_clustering.multiview import sums as sums_lib
from fl_clustering.points import federated_points
from fl_clustering.points import grid_scaling
from fl_clustering.points import point_files
from fl_clustering.points import scaling as scaling_lib


@dataclasses.dataclass(frozen=True)
class _Moments:
  """A kind of sum: the coordinates of all points, and their squares in two parts.

  The array of the query, `origin`, is a row of zeros.  All points are one group.
  """

  def widths(self, dim: int) -> dict[str, int]:
    return {"sums": dim, "high_squares": dim, "low_squares": dim}

  def contributions(
      self, xp: types.ModuleType, points: Any, arrays: Mapping[str, Any]
  ) -> tuple[Any, Any]:
    parts = [points, *sum_kinds.limbs(xp, points * points)]
    return point_grid.nearest(xp, points, arrays["origin"]), xp.concatenate(parts, axis=1)


def _moments(grid: grid_scaling.Grid) -> tuple[np.ndarray, np.ndarray]:
  """Returns the columns' means and standard deviations in grid steps."""
  points = federated_points.FederatedPoints(grid.files, 1)
  query = sum_query.SumQuery(_Moments(), {"origin": np.zeros((1, points.dim))})
  parts = query.split(points.totals(query))
  limbs = np.stack([parts["high_squares"][0], parts["low_squares"][0]], axis=1)
  return grid_scaling.moments(
      grid.num_points, parts["sums"][0].astype(object), sum_kinds.whole(limbs)
  )


def find_view_grid(
    files: point_files.PointFiles, widths: Sequence[int], standardize: bool
) -> tuple[grid_scaling.Grid, np.ndarray]:
  """Returns a grid in which all views have the same total variance, and their bandwidths.

  Args:
    files: The clients in the data's own coordinates.
    widths: The views' numbers of columns.
    standardize: Whether columns that vary are first brought to variance one.

  Returns:
    The grid around the mean of all points, and one over the views' total variances, per squared
    grid step; float64 of shape (H,).

  Raises:
    ValueError: If a view does not vary.
  """
  grid = grid_scaling.find_grid(files, standardize=True)
  means, deviations = _moments(grid)
  varies = deviations > 0
  grid_factor = np.where(varies, grid.files.scaling.factor, 1.0)
  deviations = deviations / grid_factor
  factor = varies.astype(float)
  if standardize:
    factor[varies] /= deviations[varies]
  for view, place in enumerate(sums_lib.columns(widths)):
    spread = np.linalg.norm(factor[place] * deviations[place])
    if spread == 0:
      raise ValueError(
          "`clients` must have views that vary over all points, got the same values "
          f"everywhere in view {view}."
      )
    factor[place] /= spread
  # No view of a point is farther from the mean than the root of the sum of all squares.
  # That is n; the rest is room for rounding.
  steps = point_grid.POINT_STEPS / np.sqrt(1.001 * grid.num_points * len(widths))
  shift = grid.files.scaling.shift + means / grid_factor
  view_grid = dataclasses.replace(
      grid,
      files=files.scaled(scaling_lib.Scaling(shift, steps * factor)),
      step=1 / steps,
      column_factor=np.where(varies, grid.column_factor, 0.0),
      num_rounds=grid.num_rounds + 1,
  )
  return view_grid, np.full(len(widths), 1 / steps**2)
