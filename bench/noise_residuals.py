"""Tests whether the noise of many runs is what is stated: as large, and independent everywhere.

The likelihood ratio of `audited_sums` takes the noise of all outputs to be independent.  So it
can't see that noise is reused, predictable, or missing in one cell.  These tests look at the
residuals: an output less its exact value, in standard deviations as stated.  If the statement
holds, they are independent standard normal numbers, and then

  * the sum of squares of a cell around its mean, over the runs, is chi-square distributed;
  * for two cells x and y of a run, sum(x y) / sqrt(sum(x^2)) over the runs is standard normal:
    given the x, it is a weighted sum of normal numbers.  Cells are those of all rounds;
  * so it is for a cell in one run and the same cell in the next run.

All p-values are exact, whatever the number of runs.  The smallest one, times the number of tests
(Bonferroni), is at most a if the noise is right with a probability of at most a.
"""

from __future__ import annotations

import dataclasses
from typing import Sequence

import numpy as np
from scipy import special


@dataclasses.dataclass(frozen=True)
class Suspicion:
  """The most suspicious of all that was tested.

  Attributes:
    p_value: The probability of anything as suspicious if the noise is right, at most.
    what: What it is, in words.
  """

  p_value: float
  what: str


def _cells(runs: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray, list[str]]:
  """Returns the residuals, of shape (num_runs, num_cells), and the names of the cells.

  A cell that is not there in a run, as algorithms adapt to what was released, is NaN.  Cells that
  are there in less than half of the runs are left out.
  """
  columns, names = [], []
  for release in range(max(map(len, runs), default=0)):
    found = [run[release].ravel() if release < len(run) else np.zeros(0) for run in runs]
    cells = np.full((len(runs), max(map(len, found))), np.nan)
    for row, values in zip(cells, found):
      row[: len(values)] = values
    is_frequent = 2 * np.isfinite(cells).sum(axis=0) >= len(runs)
    columns.append(cells[:, is_frequent])
    names += [f"cell {cell} of release {release}" for cell in np.flatnonzero(is_frequent)]
  return np.concatenate(columns or [np.zeros((len(runs), 0))], axis=1), names


def _p_values_of_variances(cells: np.ndarray) -> np.ndarray:
  """Returns the p-values of small variances, of shape (num_cells,); more noise is no leak."""
  squares = np.nansum((cells - np.nanmean(cells, axis=0)) ** 2, axis=0)
  return special.chdtr(np.isfinite(cells).sum(axis=0) - 1, squares)


def _p_values_of_products(products: np.ndarray, squares: np.ndarray) -> np.ndarray:
  """Returns the p-values of sums of products, given the sums of squares of the first factors."""
  scores = np.divide(products, np.sqrt(squares), out=np.zeros_like(products), where=squares > 0)
  return 2 * special.ndtr(-np.abs(scores))


def most_suspicious(runs: Sequence[Sequence[np.ndarray]]) -> Suspicion:
  """Returns what speaks most against the noise of runs of a mechanism.

  Args:
    runs: For every run the residuals of all its releases, in order.  There may be none.
  """
  cells, names = _cells(runs)
  if not names or len(runs) < 2:
    return Suspicion(1.0, "nothing was tested")
  is_there = np.isfinite(cells)
  values = np.where(is_there, cells, 0.0)
  firsts, seconds = np.triu_indices(len(names), 1)
  first_runs, next_runs = values[:-1:2], values[1::2]
  alone = np.arange(len(names))
  tests = {
      "small variance: {0}": (_p_values_of_variances(cells), alone, alone),
      "correlation: {0} and {1}": (
          _p_values_of_products(
              (values.T @ values)[firsts, seconds], ((values**2).T @ is_there)[firsts, seconds]
          ),
          firsts, seconds,
      ),
      "correlation of runs: {0}": (
          _p_values_of_products(
              (first_runs * next_runs).sum(axis=0), (first_runs**2 * is_there[1::2]).sum(axis=0)
          ),
          alone, alone,
      ),
  }
  num_tests = sum(len(p_values) for p_values, _, _ in tests.values())
  found = []
  for what, (p_values, first, second) in tests.items():
    if len(p_values):
      least = int(p_values.argmin())
      words = what.format(names[first[least]], names[second[least]])
      found.append(Suspicion(min(1.0, float(p_values[least]) * num_tests), words))
  return min(found, key=lambda suspicion: suspicion.p_value)
