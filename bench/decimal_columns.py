"""Tells whether a point of the grid is one row: the numbers of tables have few decimals.

A row is rounded to a grid that is much finer than the last decimal.  So its grid point is the
rounding of numbers with few decimals.  A sum or difference of several rows is made of such numbers,
too, but of several roundings.  Those of three rows, each off by up to half a step, add up to half a
step or less with probability 2/3 in every column (the integral of 3/4 - x^2, their density), and
those of more rows more rarely.  So hardly anything but a row fits in many columns; a little more
does in columns of few different numbers, where two of the three rows may cancel.

Nobody has to know how many decimals there are.  The most are tried that leave 20 grid steps or more
between two numbers; a number with fewer decimals is among these.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from fl_clustering.points import secure_sums

# Grid steps between two numbers.  Of other numbers, at most one of so many fits by chance.
_LEAST_STEPS = 20
# The least number of claims that fit in a column of few decimals, and the least part of all claims.
# Some are no rows, but two thirds of the combinations of three rows fit, too.
_LEAST_FITTING = 2
_LEAST_PART = 0.4
# The largest part of the claims that fit in all other columns, and not in this one.
_MOST_MISSING = 0.2
# A combination of three rows fits in so many columns with probability (2/3)^8, 0.04.
_ENOUGH = 8


@dataclasses.dataclass(frozen=True, eq=False)
class DecimalColumns:
  """Columns whose numbers have few decimals.

  Attributes:
    scaling: From the data's own coordinates to the grid's.
    columns: Their indices.
  """

  scaling: secure_sums.Scaling
  columns: tuple[int, ...]

  @property
  def certify(self) -> bool:
    """Whether they are enough to tell a row from a combination of several."""
    return len(self.columns) >= _ENOUGH

  def fit(self, values: np.ndarray, column: int) -> np.ndarray:
    """Returns whether integers (m,) are roundings of numbers with few decimals, of shape (m,)."""
    shift, factor = self.scaling.shift[column], self.scaling.factor[column]
    places = int(np.floor(np.log10(factor / _LEAST_STEPS)))
    numbers = np.round(values / factor + shift, places)
    return np.rint((numbers - shift) * factor) == values

  def all_fit(self, points: np.ndarray) -> np.ndarray:
    """Returns whether points (m, d) fit in all of the columns, of shape (m,)."""
    fits = np.ones(len(points), bool)
    for column in self.columns:
      fits &= self.fit(points[:, column], column)
    return fits


def find(claims: np.ndarray, scaling: secure_sums.Scaling) -> DecimalColumns:
  """Returns the columns of few decimals, as far as claims (m, d) to be rows tell."""
  every = DecimalColumns(scaling, tuple(np.flatnonzero(scaling.factor > 0).tolist()))
  found = {column: every.fit(claims[:, column], column) for column in every.columns}
  least = max(_LEAST_FITTING, _LEAST_PART * len(claims))
  found = {column: fits for column, fits in found.items() if fits.sum() >= least}
  misses = sum((~fits for fits in found.values()), np.zeros(len(claims), int))
  # Some rows may have more decimals than others.  What fits in all other columns is probably one.
  columns = (
      column for column, fits in found.items()
      if (~fits[misses == ~fits]).sum() <= _MOST_MISSING * (misses == ~fits).sum()
  )
  return dataclasses.replace(every, columns=tuple(columns))
