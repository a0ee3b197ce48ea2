"""The coordinates in which clients compute, from sums over all clients.

Columns are shifted to mean zero and multiplied by a factor.  Clients then compute with
small numbers whatever the data's units are.
"""

from __future__ import annotations

import dataclasses
from typing import Mapping

import numpy as np

# The largest float32 number whose square is one too, roughly.  Scaled coordinates beyond
# it are moved here.  No point that the scaling was made from is.
FARTHEST = 1e15


@dataclasses.dataclass(frozen=True, eq=False)
class Scaling:
  """The map x -> (x - shift) * factor.

  Attributes:
    shift: float64 of shape (d,).
    factor: float64 of shape (d,); zero drops a column, which `undo` then gives the value
      of its shift.
  """

  shift: np.ndarray
  factor: np.ndarray

  def apply(self, points: np.ndarray) -> np.ndarray:
    """Returns points (n, d) in scaled coordinates, float64."""
    return (points - self.shift) * self.factor

  def undo(self, points: np.ndarray) -> np.ndarray:
    """Returns scaled points (n, d) in the data's units, float64."""
    factor = np.where(self.factor > 0, self.factor, 1.0)
    return np.asarray(points, np.float64) / factor + self.shift


def identity(num_columns: int) -> Scaling:
  """Returns the scaling that changes nothing."""
  return Scaling(np.zeros(num_columns), np.ones(num_columns))


@dataclasses.dataclass(frozen=True, eq=False)
class ColumnMoments:
  """Mean and variance of every column over the points of all clients, of shape (d,).

  Attributes:
    shift: The mean from the first round of sums.
    mean: The mean, corrected by the second round.
    variance: Around `mean`; exactly zero where a column is constant.
  """

  num_points: int
  shift: np.ndarray
  mean: np.ndarray
  variance: np.ndarray

  @property
  def deviations(self) -> np.ndarray:
    """The columns' standard deviations, float64 of shape (d,)."""
    return np.sqrt(self.variance)


def first_mean(sums: Mapping[str, np.ndarray]) -> np.ndarray:
  """Returns the columns' means from the sums of a first round, float64 of shape (d,)."""
  return sums["sums"] / sums["num_points"]


def column_moments(shift: np.ndarray, sums: Mapping[str, np.ndarray]) -> ColumnMoments:
  """Returns the moments from the sums of a second round, over shifted points.

  Unshifted sums of squares would not do: rounding loses the variance of a column whose
  mean is far from zero.  The variance is taken around the mean of both rounds, which the
  shift can miss by its own rounding: that shows in columns whose mean exceeds ten million
  deviations.

  Args:
    shift: What was subtracted from the points, from `first_mean`.
    sums: Over x - shift for all points x: `num_points`, and the columns' `sums` and `squares`.
  """
  left = first_mean(sums)
  variance = sums["squares"] / sums["num_points"] - left**2
  # The mean of a constant column can miss its value by this much (Chan, Golub, LeVeque,
  # "Algorithms for Computing the Sample Variance", 1983).  A variance below it is
  # rounding, which standardising would blow up.
  rounding = sums["num_points"] * np.finfo(np.float64).eps * np.abs(shift)
  return ColumnMoments(
      num_points=int(sums["num_points"]),
      shift=shift,
      mean=shift + left,
      variance=np.where(variance > rounding**2, variance, 0.0),
  )


def unit_scaling(moments: ColumnMoments, standardize: bool) -> Scaling:
  """Returns the `Scaling` to mean zero and variance one, with no factor of zero.

  Args:
    standardize: True gives every column variance one; a constant column keeps its unit.
      False multiplies all columns by the same factor, which makes their mean variance one
      and changes no clustering.
  """
  deviations = moments.deviations
  if standardize:
    scale = np.where(deviations > 0, deviations, 1.0)
  else:
    scale = np.full(len(deviations), np.sqrt(np.mean(deviations**2)) or 1.0)
  return Scaling(moments.mean, 1 / scale)
