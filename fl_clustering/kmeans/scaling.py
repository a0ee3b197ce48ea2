"""The coordinates in which clients compute, from sums over all clients.

Columns are shifted to mean zero and scaled: each to variance one, or all by the same
factor, which changes no clustering.  Rounds then compute with small numbers whatever
the data's units are.
"""

import dataclasses

import numpy as np

# A float32 whose square is one too; what is farther away in scaled coordinates is moved
# here.  No point that the scaling was made from is.
FARTHEST = 1e15


@dataclasses.dataclass(frozen=True, eq=False)
class Scaling:
  """The map x -> (x - shift) * factor.

  Attributes:
    shift: float64 of shape (d,).
    factor: float64 of shape (d,), above zero.
  """

  shift: np.ndarray
  factor: np.ndarray

  def apply(self, points):
    """Returns points in the scaled coordinates, float32."""
    scaled = (points - self.shift) * self.factor
    return np.clip(scaled, -FARTHEST, FARTHEST).astype(np.float32)

  def undo(self, centroids):
    """Returns centroids in the data's units, float64."""
    return np.asarray(centroids, np.float64) / self.factor + self.shift


def identity(num_columns):
  """Returns the scaling that changes nothing."""
  return Scaling(np.zeros(num_columns), np.ones(num_columns))


def _mean(moments):
  return moments["sums"] / moments["num_points"]


def shift_to_mean(moments):
  """Returns the scaling to mean zero, from moments of the data as they are."""
  mean = _mean(moments)
  return Scaling(mean, np.ones(len(mean)))


def _deviations(shift, moments):
  """Returns the columns' standard deviations, exactly zero for a constant column."""
  mean = _mean(moments)
  variance = moments["squares"] / moments["num_points"] - mean**2
  # The mean of a constant column can miss its value by this much (Chan, Golub, LeVeque,
  # "Algorithms for Computing the Sample Variance", 1983).
  rounding = moments["num_points"] * np.finfo(np.float64).eps * np.abs(shift)
  return np.where(variance > rounding**2, np.sqrt(np.maximum(variance, 0.0)), 0.0)


def unit_scaling(shifted, moments, standardize):
  """Returns the scaling that clients compute in.

  The variance takes moments of shifted data: from those of the data as they are, that of
  a column far from zero is lost to rounding.

  Args:
    shifted: The `Scaling` that the moments were taken with, from `shift_to_mean`.
    moments: A dict as from `point_sums.moments`, summed over the clients.
    standardize: Whether every column gets variance one (a constant one stays as it is),
      or all the factor that makes their mean variance one.
  """
  deviations = _deviations(shifted.shift, moments)
  if standardize:
    scale = np.where(deviations > 0, deviations, 1.0)
  else:
    scale = np.full(len(deviations), np.sqrt(np.mean(deviations**2)) or 1.0)
  return Scaling(shifted.shift + _mean(moments), 1 / scale)
