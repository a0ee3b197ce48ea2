"""Mean and variance of every column over all clients, and the scales that follow."""

import dataclasses

import numpy as np

from fl_clustering.multiview import multiview_model


@dataclasses.dataclass(frozen=True)
class ColumnMoments:
  """What two rounds of sums tell of the columns.

  Attributes:
    num_points: Number of points of all clients.
    mean: float64 of shape (D,).
    variance: float64 of shape (D,); exactly zero where a column is constant.
  """

  num_points: int
  mean: np.ndarray
  variance: np.ndarray


def from_sums(num_points, mean, squares):
  """Returns `ColumnMoments` from the sums of (x - mean)^2.

  Args:
    num_points: Number of points.
    mean: float64 of shape (D,).
    squares: float64 of shape (D,).
  """
  variance = squares / num_points
  # The mean of a constant column can miss its value by this much (Chan, Golub,
  # LeVeque, "Algorithms for Computing the Sample Variance", 1983); what is left then
  # is rounding, which standardising would blow up.
  rounding = (num_points * np.finfo(np.float64).eps * mean) ** 2
  return ColumnMoments(int(num_points), mean, np.where(variance <= rounding, 0.0, variance))


def scaling(moments, standardize):
  """Returns the `Scaling` to zero mean and, if `standardize`, to unit variance."""
  varies = moments.variance > 0
  scale = varies.astype(np.float64)
  if standardize:
    scale[varies] = 1 / np.sqrt(moments.variance[varies])
  return multiview_model.Scaling(moments.mean, scale)


def view_betas(moments, standardize, widths):
  """Returns every view's bandwidth beta_h = 1 / total variance, of shape (H,).

  Raises:
    ValueError: If a view does not vary.
  """
  varies = moments.variance > 0
  variances = varies.astype(np.float64) if standardize else moments.variance
  totals = np.array([
      part.sum() for part in np.split(variances, np.cumsum(widths)[:-1])
  ])
  for view in np.flatnonzero(totals == 0):
    raise ValueError(
        "`clients` must have views that vary over all points, got the same values "
        f"everywhere in view {view}."
    )
  return 1 / totals
