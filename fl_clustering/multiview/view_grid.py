"""The coordinates of a fit without noise: integers, in which every view has the same spread.

They follow from totals of integers alone, so they are the same bits whatever the order, the
number or the split of the clients.
"""

import dataclasses

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

  def widths(self, dim):
    return {"sums": dim, "high_squares": dim, "low_squares": dim}

  def contributions(self, xp, points, arrays):
    parts = [points, *sum_kinds.limbs(xp, points * points)]
    return point_grid.nearest(xp, points, arrays["origin"]), xp.concatenate(parts, axis=1)


def _moments(files, num_points):
  """Returns the columns' means and variances in the units of the files; both exact.

  Args:
    files: The clients as `PointFiles`, scaled to a grid of points.
    num_points: Number of points of all clients.
  """
  points = federated_points.FederatedPoints(files, 1)
  query = sum_query.SumQuery(_Moments(), {"origin": np.zeros((1, points.dim))})
  parts = query.split(points.totals(query))
  totals = parts["sums"][0].astype(object)
  limbs = np.stack([parts["high_squares"][0], parts["low_squares"][0]], axis=1)
  variances = (num_points * sum_kinds.whole(limbs) - totals * totals) / num_points**2
  return (totals / num_points).astype(float), variances.astype(float)


@dataclasses.dataclass(frozen=True, eq=False)
class ViewGrid:
  """The coordinates of a fit.

  Attributes:
    files: The clients as `PointFiles`, in grid steps around the mean of all points.  All
      views have the same total variance, and columns that don't vary are zero.
    rates: The views' bandwidths, one over the total variance, per squared grid step;
      float64 of shape (H,).
    column_factor: As in `grid_scaling.Grid`, zero for columns that don't vary.
  """

  files: point_files.PointFiles
  rates: np.ndarray
  column_factor: np.ndarray


def find_view_grid(files, widths, standardize):
  """Returns the `ViewGrid`.

  Args:
    files: The clients as `PointFiles` in the data's own coordinates.
    widths: The views' numbers of columns.
    standardize: Whether columns that vary are first brought to variance one.

  Raises:
    ValueError: If a view does not vary.
  """
  grid = grid_scaling.find_grid(files, standardize=True)
  means, variances = _moments(files.scaled(grid.scaling), grid.num_points)
  varies = variances > 0
  grid_factor = np.where(varies, grid.scaling.factor, 1.0)
  deviations = np.sqrt(variances) / grid_factor
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
  shift = grid.scaling.shift + means / grid_factor
  return ViewGrid(
      files=files.scaled(scaling_lib.Scaling(shift, steps * factor)),
      rates=np.full(len(widths), 1 / steps**2),
      column_factor=np.where(varies, grid.column_factor, 0.0),
  )
