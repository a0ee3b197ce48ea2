"""Rows of a file that have totals of the others, which are not to be read as data."""

from __future__ import annotations

from typing import Any, Collection, Iterable, Mapping

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc

# A column, which of its cells can't be used (bool of shape (n,)), and why: words in which `{}`
# stands for the cell.
BadCells = tuple[str, np.ndarray, str]

# What few rows of a table may say that have totals of the others: such words in any column, others
# in a column that names rows, and further ones there in the first or the last row.  Without a word,
# the last row must be the sum of so many numbers, as precisely as people write it, or the mean of
# so many rows in so many columns, but for such a share of their deviation, or a bit of both.  A
# further mean may be rounded.
_SURELY_TOTAL = (
    "(sub|grand |overall )totals?|zwischensumme|gesamt(summe|ergebnis)|total général"
)
_TOTAL = f"{_SURELY_TOTAL}|total (gener|ger)al|totals?|totaal|totale|insgesamt|sum|summe|somme"
_STATISTIC = (
    "means?|averages?|sd|std|median|gesamt|mittelwert|durchschnitt|gemiddelde|moyenne|endergebnis|"
    "suma|Ø"
)
_ROWS_PER_TOTAL = 20
_FEWEST_SUMMED, _NEAR_SUM = 20, 1e-3
_FEWEST_COLUMNS, _NEAR_MEAN, _MOST_DIGITS = 3, 0.01, 4


def _says(texts: Any, words: str) -> np.ndarray:
  pattern = rf"(?i)^\s*({words})\W*(\([^)]*\))?\W*$"
  return np.asarray(pc.fill_null(pc.match_substring_regex(texts, pattern), False), bool)


def _what_last_is(columns: Iterable[np.ndarray]) -> str | None:
  """Returns "sum" or "mean", which the last number of the first column is of those above.

  None unless the last numbers of all columns are one or the other, and of enough.
  """
  found, num_summed, num_means = [], 0, 0
  for column in columns:
    last, others = column[-1], column[:-1][~np.isnan(column[:-1])]
    if np.isclose(last, others.sum(), rtol=_NEAR_SUM, atol=0):
      found.append("sum")
      # Of rare counts, the last may be the sum by chance.
      num_summed += np.count_nonzero(others) if last > others.max(initial=0) else 0
      continue
    if len(others) < _FEWEST_SUMMED:
      return None
    mean = float(others.mean())
    is_near = abs(last - mean) <= _NEAR_MEAN * others.std()
    if not is_near and last not in [round(mean, digits) for digits in range(_MOST_DIGITS)]:
      return None
    found.append("mean")
    # A mean is seldom one of the numbers.
    num_means += bool(is_near and others.std()) and not np.any(others == last)
  is_sure = num_summed / _FEWEST_SUMMED + num_means / _FEWEST_COLUMNS >= 1
  return found[0] if is_sure else None


def find(
    names: Iterable[str], texts: Mapping[str, Any], values: Mapping[str, np.ndarray],
    levels: Collection[str],
) -> list[BadCells]:
  """Returns which rows look like totals of others, by what column, and why, or an empty list.

  Args:
    names: All columns, in the order of the file.
    texts: Further columns as Arrow arrays of text.
    values: The columns that could be read.
    levels: The columns of levels or classes, which may be called `total` or `SD`.
  """
  for name in names:
    column = texts.get(name, values.get(name))
    if column is not None and getattr(column, "dtype", object) == object:
      array = pa.array(column, pa.string())
      is_total = _says(array, _SURELY_TOTAL if name in levels else _TOTAL)
      if name not in levels:
        is_total[[0, -1]] |= _says(array.take([0, len(array) - 1]), _STATISTIC)
      # Rows of statistics may all be so called.
      if 0 < np.count_nonzero(is_total) <= max(1, len(is_total) // _ROWS_PER_TOTAL):
        return [(name, is_total, ": {!r} looks like a total of other rows")]
  numbers = {
      name: values[name] for name in names
      if name in values and values[name].dtype != object and not np.isnan(values[name][-1])
  }
  with np.errstate(all="ignore"):
    what = _what_last_is(numbers.values())
  if what is None:
    return []
  first = next(iter(numbers))
  is_last = np.arange(len(numbers[first])) == len(numbers[first]) - 1
  return [(first, is_last, f": {{:g}} looks like the {what} of the rows above")]
