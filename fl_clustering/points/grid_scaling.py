"""The coordinates of fits without noise: a grid, found by secure sums of integers alone.

A maximum over the clients would be one client's number, so bounds come from histograms of
binary exponents, which are sums.  The server learns them: how many numbers of a column, and
how many points, are of which order of magnitude.  Every sum is of integers, so the grid is
the same whatever the order, the number or the split of the clients.

The histograms are counts, which may be of one number or one point; the sums of columns and of
their squares are over all points.  The grid's step, which a saved model keeps, tells the order of
magnitude of the farthest point.

Standardising gives every field a total variance of one.  A field is a number, or L levels, which
become L columns of zeros and ones.  Levels of shares p that fill all rows have a total variance of
1 - sum p^2, and its root divides all of their columns (Suarez-Alvarez et al.).  If each column had
variance one, the field would count L times a number; by factor analysis of mixed data, which
divides by the root of each p, it would count L - 1 times.  Hennig and Liao would halve the variance
of levels, since they are tight clumps by nature.

References:
  Maria M. Suarez-Alvarez, Duc-Truong Pham, Mikhail Y. Prostov, Yuriy I. Prostov. Statistical
  approach to normalization of feature vectors and clustering of mixed datasets. Proceedings of the
  Royal Society A, 2012. https://doi.org/10.1098/rspa.2011.0704
  Christian Hennig, Tim F. Liao. How to find an appropriate clustering for mixed-type variables with
  application to socio-economic stratification. Applied Statistics, 2013.
  https://doi.org/10.1111/j.1467-9876.2012.01066.x
"""

from __future__ import annotations

import dataclasses
import types
from typing import Any, Mapping, Sequence

import numpy as np

from clustering_basics import validate
from dp_clustering import point_grid
from fl_clustering.points import secure_sums

# Binary exponents that are told apart.  Smaller numbers count as of the lowest, 4e-103; larger
# ones than `given_clients.LARGEST` don't occur.
_LOWEST, _HIGHEST = -340, 340
_EXPONENTS_PER_BIN = 8  # So that a message stays small with many columns.
_NUM_BINS = (_HIGHEST - _LOWEST) // _EXPONENTS_PER_BIN
# Bits of a coordinate in the sums of columns and of their squares, and in norms.
_MOMENT_BITS = 30
_NORM_BITS = 20
# Bits of a coordinate in steps of its column.
_COLUMN_BITS = 52
_NUM_NORM_BINS = 64
# Sums of 2^31 of so many points stay below the modulus.
MOST_POINTS = 2**30
_EPSILON = np.finfo(np.float64).eps


def rounding(means: np.ndarray) -> np.ndarray:
  """Returns the standard deviations that rounding alone gives to columns of these means.

  They are a few units in the last place of a column's mean, which is about as large as all numbers
  of a column that varies so little.
  """
  return 4 * _EPSILON * np.abs(means)


def check_field_widths(field_widths: Sequence[int] | None, standardize: bool) -> None:
  """Raises a ValueError unless field widths are numbers of columns and `standardize` is True."""
  if field_widths is None:
    return
  if not standardize:
    raise validate.error("field_widths", "be left out without `standardize`", field_widths)
  if not isinstance(field_widths, (tuple, list)) or not field_widths:
    raise validate.error("field_widths", "list a number of columns for every field", field_widths)
  for width in field_widths:
    validate.integer(1, field_widths=width)


def field_deviations(
    variances: np.ndarray, field_widths: Sequence[int] | None = None
) -> np.ndarray:
  """Returns what columns are divided by for a total variance of one in every field, (d,).

  Args:
    variances: Of the columns, of shape (d,).
    field_widths: How many columns, side by side, are each field's; None for one each.

  Raises:
    ValueError: If the fields have another number of columns.
  """
  if field_widths is None:
    return np.sqrt(variances)
  if sum(field_widths) != len(variances):
    rule = f"sum to the {len(variances)} columns"
    raise validate.error("field_widths", rule, tuple(field_widths))
  starts = np.cumsum((0, *field_widths[:-1]))
  return np.repeat(np.sqrt(np.add.reduceat(variances, starts)), field_widths)


def _bins(xp: types.ModuleType, values: Any, lowest: int, width: int, num_bins: int) -> Any:
  """Returns the bins of numbers by their binary exponents, int64; exact.

  Bin i has the exponents from lowest + i * width on, `width` of them.  Smaller numbers, among
  them zero, are in the first bin, and larger ones in the last.
  """
  edges = np.exp2(lowest + width * np.arange(num_bins + 1.0))
  logs = xp.log2(xp.maximum(values, edges[0]))
  bins = xp.asarray(xp.clip(xp.floor((logs - lowest) / width), 0.0, num_bins - 1.0), np.int64)
  # Rounded logarithms can be on the wrong side of an edge.
  bins += xp.asarray(values >= xp.take(edges, bins + 1), np.int64)
  bins -= xp.asarray(values < xp.take(edges, bins), np.int64)
  return xp.clip(bins, 0, num_bins - 1)


@dataclasses.dataclass(frozen=True)
class ColumnExponents(secure_sums.Question):
  """How many numbers of every column have an exponent in every bin, (d * bins, 1)."""

  is_of_integers = False

  def shape(self, num_columns: int) -> tuple[int, int]:
    return num_columns * _NUM_BINS, 1

  def contributions(
      self, xp: types.ModuleType, points: Any, sent: Mapping[str, Any]
  ) -> tuple[Any, Any]:
    del sent
    bins = _bins(xp, xp.abs(points), _LOWEST, _EXPONENTS_PER_BIN, _NUM_BINS)
    cells = xp.reshape(bins + _NUM_BINS * np.arange(points.shape[1]), (-1,))
    return cells, xp.reshape(xp.full_like(points, 1.0), (-1, 1))


def _column_exponents(clients: secure_sums.ClientPoints) -> np.ndarray:
  """Returns the answer to `ColumnExponents`, of shape (d, bins)."""
  return clients.total(ColumnExponents(), {}).reshape(-1, _NUM_BINS)


def column_bounds(counts: np.ndarray) -> np.ndarray:
  """Returns a number above all of each column, shape (d,), from counts of shape (d, bins)."""
  last = _NUM_BINS - 1 - np.argmax(counts[:, ::-1] > 0, axis=1)
  return np.exp2(_LOWEST + _EXPONENTS_PER_BIN * (last + 1.0))


@dataclasses.dataclass(frozen=True)
class ColumnMoments(secure_sums.Question):
  """The columns' sums and sums of squares, the latter in two parts, (1, 3 * d).

  The coordinates are below 2^30.
  """

  def shape(self, num_columns: int) -> tuple[int, int]:
    return 1, 3 * num_columns

  def contributions(
      self, xp: types.ModuleType, points: Any, sent: Mapping[str, Any]
  ) -> tuple[Any, Any]:
    del sent
    # Halves of a coordinate's bits, as float64 doesn't hold the square of all of them.
    unit = 2.0 ** (_MOMENT_BITS // 2)
    high = xp.floor(points / unit)
    low = points - high * unit
    rest = 2 * unit * high * low + low * low
    carry = xp.floor(rest / unit**2)
    parts = [points, high * high + carry, rest - carry * unit**2]
    groups = xp.asarray(xp.zeros_like(points[:, 0]), np.int64)
    return groups, xp.concatenate(parts, axis=1)


def moments(
    num_points: int, totals: np.ndarray, squares: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the columns' means and standard deviations from their sums and sums of squares.

  The sums are Python's integers, arrays of objects of shape (d,), so nothing cancels, and the
  deviation of a constant column is exactly zero.
  """
  variances = (num_points * squares - totals * totals) / num_points**2
  return (totals / num_points).astype(float), np.sqrt(variances.astype(float))


def column_moments(
    clients: secure_sums.ClientPoints, num_points: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the `moments` of clients' columns, by an answer to `ColumnMoments`."""
  totals, high, low = clients.total(ColumnMoments(), {}).reshape(3, -1).astype(object)
  return moments(num_points, totals, (high << _MOMENT_BITS) + low)


@dataclasses.dataclass(frozen=True)
class NormExponents(secure_sums.Question):
  """How many points have a squared norm with every exponent, (bins, 1).

  The coordinates are at most 2^20.
  """

  def shape(self, num_columns: int) -> tuple[int, int]:
    del num_columns
    return _NUM_NORM_BINS, 1

  def contributions(
      self, xp: types.ModuleType, points: Any, sent: Mapping[str, Any]
  ) -> tuple[Any, Any]:
    del sent
    # In two parts, whose sums are exact: the norm is rounded once, whatever the order.
    unit = 2.0**_NORM_BITS
    squares = points * points
    high = xp.floor(squares / unit)
    norms = xp.sum(high, axis=1) * unit + xp.sum(squares - high * unit, axis=1)
    return _bins(xp, norms, 0, 1, _NUM_NORM_BINS), xp.full_like(points[:, :1], 1.0)


def norm_bound(counts: np.ndarray, num_columns: int) -> float:
  """Returns a number above all norms, from an answer to `NormExponents`, in its units."""
  last = np.flatnonzero(counts)[-1]
  # Rounding may have shortened every coordinate by a half.
  return np.exp2((last + 1) / 2) + np.sqrt(num_columns)


@dataclasses.dataclass(frozen=True, eq=False)
class Grid:
  """The coordinates of a fit, in which points are integers up to rounding.

  Attributes:
    clients: In grid steps.  Their scaling drops constant columns.
    step: The length of a grid step; in standardised columns, if they are.
    column_factor: Instead of `clients.scaling.factor`, for coordinates in a step of every
      column's own.  They are then below 2^52 around any origin between the points, however narrow
      a column is beside others.  Powers of two, or zero for a constant column; float64 of shape
      (d,).
  """

  clients: secure_sums.ClientPoints
  step: float
  column_factor: np.ndarray
  num_points: int
  num_rounds: int

  def check_enough(self, n_clusters: int) -> None:
    """Raises a ValueError unless there are as many points as clusters."""
    if n_clusters > self.num_points:
      rule = f"be at most the {self.num_points} points of all clients"
      raise validate.error("n_clusters", rule, n_clusters)

  def in_column_steps(self) -> tuple[secure_sums.ClientPoints, np.ndarray]:
    """Returns the clients in column steps, and each column's step in grid steps.

    The latter are float64 of shape (d,); zero for columns that the grid drops.
    """
    scaling, own = self.clients.scaling, self.column_factor
    cells = np.divide(scaling.factor, own, out=np.zeros_like(scaling.factor), where=own > 0)
    return self.clients.scaled(secure_sums.Scaling(scaling.shift, own)), cells


def find_grid(
    clients: secure_sums.ClientPoints, standardize: bool,
    field_widths: Sequence[int] | None = None,
) -> Grid:
  """Returns the grid around the points' mean that has room for all of them.

  Args:
    clients: In the data's own coordinates.
    standardize: True scales every field to a total variance of one, without the columns that vary
      by no more than `rounding`; False keeps the columns' units.  A column with a spread below
      4e-103 is rounded coarsely, and far below it, it counts as constant.
    field_widths: As in `field_deviations`, with `standardize`.

  Raises:
    ValueError: If there are too many points, or the fields have another number of columns.
  """
  num_columns = clients.num_columns
  ones, steps = np.ones(num_columns), 2.0**_MOMENT_BITS
  own = secure_sums.Scaling(np.zeros(num_columns), ones)
  counts = _column_exponents(clients.scaled(own))
  num_points = int(counts[0].sum())
  if num_points >= MOST_POINTS:
    raise validate.error("clients", f"have fewer than {MOST_POINTS} points", num_points)
  bounds = column_bounds(counts)
  in_bounds = clients.scaled(secure_sums.Scaling(own.shift, steps / bounds))
  means, _ = column_moments(in_bounds, num_points)
  origin = means * bounds / steps
  centered = secure_sums.Scaling(origin, ones)
  bounds = column_bounds(_column_exponents(clients.scaled(centered)))
  in_bounds = clients.scaled(secure_sums.Scaling(origin, steps / bounds))
  means, deviations = column_moments(in_bounds, num_points)
  origin = origin + means * bounds / steps
  # A constant column is dropped: what rounding leaves of it would coarsen the grid.
  varies = deviations > 0
  factor = varies.astype(float)
  if standardize:
    # Numbers were rounded to steps, so a deviation may be half a step too large.
    varies = deviations > rounding(origin) * (steps / bounds) + 0.5
    deviations = np.where(varies, deviations, 0.0) * (bounds / steps)
    units = field_deviations(deviations**2, field_widths)
    factor = np.divide(1, units, out=np.zeros(num_columns), where=varies)
  # From the new origin, nothing is farther than twice the bounds.
  unit = (2 * bounds * factor).max() / 2.0**_NORM_BITS or 1.0
  in_bounds = clients.scaled(secure_sums.Scaling(origin, factor / unit))
  farthest = norm_bound(in_bounds.total(NormExponents(), {}), num_columns) * unit
  step = farthest / point_grid.POINT_STEPS
  return Grid(
      clients=clients.scaled(secure_sums.Scaling(origin, factor / step)),
      step=float(step),
      column_factor=np.where(factor > 0, 2.0 ** (_COLUMN_BITS - 1) / bounds, 0.0),
      num_points=num_points,
      num_rounds=5,
  )
