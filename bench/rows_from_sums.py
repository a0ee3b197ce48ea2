"""Names rows from exact sums over them, as whoever sees the totals can.

The attacker knows what was asked and the totals, and no row.

1. The sum of a cell of one row, or of a half of one, is that row.
2. If a cell holds all rows of another one and one row more, their difference is that row.  The
   cells are of any two questions, or of one.
3. The questions tell in which cells a known row is.  Subtracted from them, it leaves other cells
   of one row, and other differences.  This goes on until nothing new is found.

No sum tells whether a cell holds the rows of another one.  So the difference of any two cells
whose counts differ by one is a claim.  It may be a row if it is in the one cell and not in the
other, and if what it leaves of every question's totals may be sums over rows: no count is negative,
nothing is left of a cell without rows, and the mean of a cell's rows is in the cell, which is
convex.

In a table of few decimals, a claim that is no row shows by itself (`decimal_columns`).  Where the
columns are enough, what fits in them is taken, and a - b - c and a + b - c are claims as well,
with any three cells.  Elsewhere a claim of more differences comes first.  Some of the rows that are
named are wrong, few in the first case.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Iterator, Sequence

import numpy as np
from scipy import linalg

from bench import decimal_columns
from dp_clustering import point_grid
from dp_clustering import sum_query
from fl_clustering.kmeans import sum_kinds
from fl_clustering.points import secure_sums

# Rounding of a loss at a mean, in squared grid steps.
_ROUNDING = 2.0**10
# Singular values of cells' members that are zero, as a part of the largest; and how much shorter
# than one a projection may be that is of length one.
_SINGULAR = 1e-9
_PROJECTED = 1e-6


@dataclasses.dataclass(frozen=True, eq=False)
class Question:
  """A query about rows on a grid, and its totals, int64 of the query's shape."""

  query: sum_query.SumQuery
  totals: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class _Cells:
  """Cells with rows, each of another set of rows as far as counts and sums tell.

  Attributes:
    questions: The questions' positions, of shape (m,).
    groups: Of the questions, likewise.
    halves: 0 for all of a group, 1 for its lower half, 2 for its upper half.
    counts: Numbers of rows, likewise.
    sums: Of the rows, int64 of shape (m, d).
  """

  questions: np.ndarray
  groups: np.ndarray
  halves: np.ndarray
  counts: np.ndarray
  sums: np.ndarray


def _places(
    query: sum_query.SumQuery, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns the points' groups and halves (see `_Cells`), of shape (m,), and contributions."""
  groups, values = query.kind.contributions(np, points, query.arrays)
  upper = query.split(values).get("upper_counts")
  halves = np.zeros(len(groups), int) if upper is None else 1 + (upper[:, 0] > 0)
  return groups, halves, values


def _counts_and_sums(
    query: sum_query.SumQuery, groups: np.ndarray, totals: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the counts and sums of groups, and of their lower and upper halves if there are any.

  Args:
    groups: Of shape (m,).
    totals: Those groups', of shape (m, width).

  Returns:
    Arrays of shape (1 or 3, m) and (1 or 3, m, d); (0, m, d) where no residuals were asked.
  """
  parts = query.split(totals)
  counts, upper = parts["counts"].T, parts.get("upper_counts", totals[:, :0]).T
  counts = np.concatenate([counts, (counts - upper)[: len(upper)], upper])
  centers = query.arrays["centers"][groups].astype(np.int64)
  if "residuals" not in parts:
    return counts, centers[np.newaxis][:0]
  residuals = [parts["residuals"]]
  if len(upper):
    upper_residuals = parts["upper_residuals"]
    residuals += [residuals[0] - upper_residuals, upper_residuals]
  return counts, np.stack(residuals) + counts[:, :, np.newaxis] * centers


def _losses(query: sum_query.SumQuery, totals: np.ndarray) -> np.ndarray:
  """Returns the part `losses` of totals as float64 of shape (m,)."""
  return sum_kinds.whole(query.split(totals)["losses"]).astype(np.float64)


def _are_possible(
    query: sum_query.SumQuery, groups: np.ndarray, totals: np.ndarray
) -> np.ndarray:
  """Returns whether totals of groups may be sums over rows, of shape (m,).

  Args: As of `_counts_and_sums`.
  """
  counts, sums = _counts_and_sums(query, groups, totals)
  possible = (counts >= 0).all(axis=0) & ((counts[0] > 0) | ~totals.any(axis=1))
  if not len(sums):
    return possible
  possible &= ((counts > 0) | ~sums.any(axis=2)).all(axis=0)
  half, row = np.nonzero(possible & (counts > 0))
  placed, halves, values = _places(query, sums[half, row] / counts[half, row, np.newaxis])
  possible[row[(placed != groups[row]) | ((half > 0) & (halves != half))]] = False
  if "losses" in query.split(totals):
    # A row's loss is the minimum of linear functions, so the mean's is at least their mean.
    row = row[half == 0]
    losses, most = _losses(query, totals[row]) / counts[0, row], _losses(query, values[half == 0])
    possible[row[(losses < 0) | (losses > most + _ROUNDING)]] = False
  return possible


def _agreeing(questions: Sequence[Question]) -> list[Question]:
  """Returns the questions about rows in cells whose totals fit together.

  All rows together must have the same count and sum in at least two questions.  Questions in
  which they don't have this count and sum are left out.
  """
  agreeing, wholes = [], []
  nothing: tuple[int, ...] = ()  # Of questions without residuals.
  for question in questions:
    query, totals = question.query, question.totals
    if "centers" in query.arrays and "counts" in query.split(totals):
      counts, sums = _counts_and_sums(query, np.arange(len(totals)), totals)
      agreeing.append(question)
      wholes.append((counts[0].sum(), *sums[0].sum(axis=0)) if len(sums) else nothing)
  (most, times), *_ = collections.Counter(filter(None, wholes)).most_common(1) or [(nothing, 0)]
  if times < 2:
    return []
  return [one for one, whole in zip(agreeing, wholes) if whole in (nothing, most)]


class _Unnamed:
  """What the questions tell of the rows that are not named yet."""

  def __init__(self, questions: Sequence[Question]) -> None:
    self._queries = [question.query for question in questions]
    self._totals = [question.totals.copy() for question in questions]

  def cells(self) -> _Cells:
    """Returns the cells whose sums are known."""
    found = []
    for index, (query, totals) in enumerate(zip(self._queries, self._totals)):
      groups = np.arange(len(totals))
      counts, sums = _counts_and_sums(query, groups, totals)
      for half in range(len(sums)):
        places = [np.full(len(groups), index), groups, np.full(len(groups), half)]
        found.append(np.column_stack([*places, counts[half], sums[half]]))
    rows = np.concatenate(found)
    rows = rows[rows[:, 3] > 0]
    _, first = np.unique(rows[:, 3:], axis=0, return_index=True)
    questions, of_questions, halves, counts = rows[first, :4].T
    return _Cells(questions, of_questions, halves, counts, sums=rows[first, 4:])

  def may_be(self, points: np.ndarray) -> np.ndarray:
    """Returns which of the points (m, d) could be rows, as far as every total tells."""
    norms = np.linalg.norm(points.astype(np.float64), axis=1)
    left = np.flatnonzero(norms <= point_grid.POINT_STEPS)
    for query, totals in zip(self._queries, self._totals):
      groups, values = query.kind.contributions(np, points[left].astype(np.float64), query.arrays)
      others = totals[groups] - np.trunc(values).astype(np.int64)
      left = left[_are_possible(query, groups, others)]
    return np.isin(np.arange(len(points)), left)

  def are_in(self, points: np.ndarray, cells: _Cells, chosen: np.ndarray) -> np.ndarray:
    """Returns which of the points (m, d) are in their own one of the chosen cells (m,)."""
    found, questions = np.zeros(len(points), bool), cells.questions[chosen]
    for index in np.unique(questions):
      rows = np.flatnonzero(questions == index)
      groups, halves, _ = _places(self._queries[index], points[rows].astype(np.float64))
      own = chosen[rows]
      is_half = cells.halves[own] > 0
      found[rows] = (groups == cells.groups[own]) & (~is_half | (halves == cells.halves[own]))
    return found

  def remove(self, points: np.ndarray) -> np.ndarray:
    """Takes points (m, d) for rows, as far as all of them could be; returns the taken ones."""
    totals = []
    for query, before in zip(self._queries, self._totals):
      groups, values = query.kind.contributions(np, points.astype(np.float64), query.arrays)
      after = before.copy()
      np.subtract.at(after, groups, np.trunc(values).astype(np.int64))
      groups = np.unique(groups)
      if not _are_possible(query, groups, after[groups]).all():
        if len(points) == 1:
          return points[:0]
        halves = np.array_split(points, 2)
        return np.concatenate([self.remove(half) for half in halves])
      totals.append(after)
    self._totals = totals
    return points


def _pairs(cells: _Cells) -> tuple[np.ndarray, np.ndarray]:
  """Returns the indices of cells whose counts differ by one, and whose sums by no more than a row.

  Those of the larger cells come first; both are of shape (m,).
  """
  found = [np.zeros((2, 0), int)]
  for count in np.unique(cells.counts):
    larger, smaller = (np.flatnonzero(cells.counts == n) for n in (count + 1, count))
    for one in larger:
      differences = np.abs(cells.sums[one] - cells.sums[smaller]).max(axis=1)
      near = smaller[differences <= point_grid.POINT_STEPS]
      found.append(np.stack([np.full(len(near), one), near]))
  first, second = np.concatenate(found, axis=1)
  return first, second


def _placed(
    unnamed: _Unnamed, cells: _Cells, claims: np.ndarray, added: Sequence[np.ndarray],
    subtracted: Sequence[np.ndarray],
) -> np.ndarray:
  """Returns which claims (m, d) are in one more of the added cells than of the subtracted ones.

  Args:
    added: The cells whose sums were added up to the claims, each of shape (m,).
    subtracted: Those whose sums were subtracted, likewise.
  """
  times = np.zeros(len(claims), int)
  for chosen in added:
    times += unnamed.are_in(claims, cells, chosen)
  for chosen in subtracted:
    times -= unnamed.are_in(claims, cells, chosen)
  return times == 1


def _differences(unnamed: _Unnamed, cells: _Cells) -> np.ndarray:
  """Returns the differences of two cells that are in the one and not in the other, (m, d)."""
  first, second = _pairs(cells)
  claims = cells.sums[first] - cells.sums[second]
  return claims[_placed(unnamed, cells, claims, [first], [second])]


def _best_claims(
    unnamed: _Unnamed, cells: _Cells, columns: decimal_columns.DecimalColumns
) -> np.ndarray:
  """Returns those of the claims that could be rows which the most differences make, (m, d)."""
  claims = _differences(unnamed, cells)
  points, supports = np.unique(claims[columns.all_fit(claims)], axis=0, return_counts=True)
  for support in np.unique(supports)[::-1]:
    best = points[supports == support]
    best = best[unnamed.may_be(best)]
    if len(best):
      return best
  return points[:0]


def _combinations(cells: _Cells, sign: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
  """Yields cells a and b for a + sign * b - c, some at a time, as two arrays of shape (m,)."""
  every = np.arange(len(cells.counts))
  if sign == 0:
    yield every, every
    return
  for one in every:
    # Each of them once: a and b are in order, or b has no more rows than c.
    others = every[:one] if sign > 0 else every[2 * cells.counts < cells.counts[one]]
    yield np.full(len(others), one), others


def _certified_claims(
    unnamed: _Unnamed, cells: _Cells, columns: decimal_columns.DecimalColumns, sign: int
) -> np.ndarray:
  """Returns combinations a + sign * b - c of cells that fit and could be rows, (m, d)."""
  found = [cells.sums[:0]]
  for one, other in _combinations(cells, sign):
    sums = cells.sums[one] + sign * cells.sums[other]
    # Every c of one row fewer; cells are in the order of their counts.
    counts = cells.counts[one] + sign * cells.counts[other] - 1
    begins, ends = (np.searchsorted(cells.counts, counts, side) for side in ("left", "right"))
    numbers = ends - begins
    pairs = np.repeat(np.arange(len(counts)), numbers)
    third = np.arange(len(pairs)) + np.repeat(begins - np.cumsum(numbers) + numbers, numbers)
    for column in columns.columns:
      values = sums[pairs, column] - cells.sums[third, column]
      fits = (np.abs(values) <= point_grid.POINT_STEPS) & columns.fit(values, column)
      pairs, third = pairs[fits], third[fits]
    claims = sums[pairs] - cells.sums[third]
    added, subtracted = [one[pairs]], [third]
    if sign:
      (added if sign > 0 else subtracted).append(other[pairs])
    found.append(claims[_placed(unnamed, cells, claims, added, subtracted)])
  claims = np.unique(np.concatenate(found), axis=0)
  return claims[unnamed.may_be(claims)]


def _claims(
    unnamed: _Unnamed, cells: _Cells, columns: decimal_columns.DecimalColumns
) -> Iterator[np.ndarray]:
  """Yields claims, of shape (m, d), the best ones first."""
  if columns.certify:
    for sign in (0, -1, 1):
      yield _certified_claims(unnamed, cells, columns, sign)
  else:
    yield _best_claims(unnamed, cells, columns)


def named_rows(questions: Sequence[Question], scaling: secure_sums.Scaling) -> np.ndarray:
  """Returns the rows that are named, on the questions' grid, int64 of shape (m, d).

  Equal rows are named as often as they are found.

  Args:
    questions: About the same rows on the same grid.
    scaling: To the grid, which the server chooses.
  """
  agreeing = _agreeing(questions)
  named = np.zeros((0, next(iter(questions[0].query.arrays.values())).shape[1]), np.int64)
  unnamed = _Unnamed(agreeing)
  columns = None
  while agreeing:
    cells = unnamed.cells()
    found = unnamed.remove(cells.sums[cells.counts == 1])
    if not len(found):
      if columns is None:
        claims = np.unique(_differences(unnamed, cells), axis=0)
        claims = np.concatenate([named, claims[unnamed.may_be(claims)]])
        columns = decimal_columns.find(claims, scaling)
      taken = map(unnamed.remove, _claims(unnamed, cells, columns))
      found = next(filter(len, taken), found)
    if not len(found):
      break
    named = np.concatenate([named, found])
  return named


def are_determined(questions: Sequence[Question], rows: np.ndarray) -> np.ndarray:
  """Returns which rows are linear combinations of sums, of shape (n,): the linear ceiling.

  No attack that adds, subtracts and divides sums can show more, even if it knows which rows are in
  which cell.  It is the criterion of TAR (Yang, Luo, Li, "Breaking Privacy in Federated Clustering:
  Perfect Input Reconstruction via Temporal Correlations", 2025, https://arxiv.org/abs/2511.07073).

  Args:
    questions: About these rows.
    rows: On the questions' grid, of shape (n, d).
  """
  members = [np.zeros((len(rows), 1))]
  for question in _agreeing(questions):
    if "residuals" in question.query.split(question.totals):
      groups, halves, _ = _places(question.query, rows.astype(np.float64))
      cells = 3 * groups + halves
      members.append((cells[:, np.newaxis] == np.unique(cells)).astype(float))
  # A row is one if its unit vector is in the span of the cells' members, and so is its projection.
  span = linalg.orth(np.unique(np.concatenate(members, axis=1), axis=1), rcond=_SINGULAR)
  return (span**2).sum(axis=1) > 1 - _PROJECTED
