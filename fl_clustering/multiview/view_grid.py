"""The coordinates of a fit without noise: integers, in which every view has the same spread.

They follow from totals of integers alone, so they are the same bits whatever the order, the
number or the split of the clients.
"""

from __future__ import annotations

import dataclasses
from typing import Sequence, TYPE_CHECKING

import numpy as np

from dp_clustering import point_grid
from fl_clustering.multiview import sums as sums_lib
from fl_clustering.points import grid_scaling
from fl_clustering.points import scaling as scaling_lib

if TYPE_CHECKING:
  from fl_clustering.points import secure_sums


def find_view_grid(
    clients: secure_sums.ClientPoints, widths: Sequence[int], standardize: bool
) -> tuple[grid_scaling.Grid, np.ndarray]:
  """Returns a grid in which all views have the same total variance, and their bandwidths.

  Args:
    clients: In the data's own coordinates.
    widths: The views' numbers of columns.
    standardize: Whether columns that vary are first brought to variance one.

  Returns:
    The grid around the mean of all points, and one over the views' total variances, per squared
    grid step; float64 of shape (H,).

  Raises:
    ValueError: If a view does not vary.
  """
  grid = grid_scaling.find_grid(clients, standardize=True)
  means, deviations = grid_scaling.column_moments(grid.clients, grid.num_points)
  varies = deviations > 0
  grid_factor = np.where(varies, grid.clients.scaling.factor, 1.0)
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
  shift = grid.clients.scaling.shift + means / grid_factor
  view_grid = dataclasses.replace(
      grid,
      clients=clients.scaled(scaling_lib.Scaling(shift, steps * factor)),
      step=1 / steps,
      column_factor=np.where(varies, grid.column_factor, 0.0),
      num_rounds=grid.num_rounds + 1,
  )
  return view_grid, np.full(len(widths), 1 / steps**2)
