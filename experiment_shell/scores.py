"""Mean and spread of scores that were measured several times, and scores as text."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterable, Mapping, Sequence, TYPE_CHECKING

import numpy as np

from experiment_shell import lazy_module

if TYPE_CHECKING:
  import pandas as pd
else:
  pd = lazy_module.LazyModule("pandas")  # It takes long to import.

ABSENT = "–"


def score_text(value: float | None, form: Callable[[float], str] = "{:.3f}".format) -> str:
  """Returns a score as text, by default a share with three decimals; a dash for None."""
  return ABSENT if value is None else form(value)


def points(share: float) -> str:
  """Returns a difference of shares in percentage points, with its sign."""
  # What rounds to zero keeps its sign, since an interval may end close to zero.
  return f"{100 * share:+.1f}"


def interval_text(
    low: float | None, high: float | None, form: Callable[[float], str] = points
) -> str:
  """Returns an interval as text, that of a gain in percentage points; "unknown" for None."""
  return "unknown" if low is None or high is None else f"{form(low)} to {form(high)}"


@dataclasses.dataclass(frozen=True)
class Spread:
  """Mean and spread of several values.

  Attributes:
    sd: The standard deviation, with n - 1 in the denominator; zero for one value.
    low: The 25th percentile.
    high: The 75th percentile.
  """

  mean: float
  sd: float
  low: float
  high: float
  count: int

  def text(self, form: str = ".3f") -> str:
    """Returns "mean ± sd" in the format `form`; the mean alone for one value."""
    mean = format(self.mean, form)
    return f"{mean} ± {format(self.sd, form)}" if self.count > 1 else mean


def summarize(values: Iterable[float | None]) -> Spread | None:
  """Returns the `Spread` of the values that are not None; None if there are none."""
  found = [value for value in values if value is not None]
  if not found:
    return None
  return Spread(
      mean=float(np.mean(found)),
      sd=float(np.std(found, ddof=1)) if len(found) > 1 else 0.0,
      low=float(np.percentile(found, 25)),
      high=float(np.percentile(found, 75)),
      count=len(found),
  )


def text(spread: Spread | None, form: str = ".3f") -> str:
  """Returns a `Spread` as text in a format, or a dash for None."""
  return ABSENT if spread is None else spread.text(form)


def table(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[str], repetition: str
) -> pd.DataFrame:
  """Returns rows, such as those of a `FinishedRun`, as a table in the order of repetition.

  Args:
    columns: Names of the columns of the table.
    repetition: Name of the column that tells repetitions apart, such as "seed".
  """
  cells = [[row[column] for column in columns] for row in rows]
  found = pd.DataFrame(cells, columns=list(columns))
  return found.sort_values(repetition, kind="stable", ignore_index=True)


def spread_table(
    found: Iterable[tuple[Mapping[str, Any], Spread | None]]
) -> pd.DataFrame:
  """Returns a table of spreads, for figures: what each is of, and its fields.

  Args:
    found: Pairs of what it is of, by the names of columns, and the spread; those that are None
      are left out.
  """
  return pd.DataFrame([
      {**labels, **dataclasses.asdict(spread)} for labels, spread in found if spread is not None
  ])


def summary(measured: pd.DataFrame, by: Sequence[str], column: str) -> pd.DataFrame:
  """Returns the `spread_table` of a column by setting, in the order of the settings.

  Args:
    measured: What `table` returned.
    by: Names of the columns that together identify a setting.
    column: What is summarized.  Settings without a value are left out.
  """
  groups = measured.dropna(subset=[column]).groupby(list(by), sort=False)[column]
  return spread_table((dict(zip(by, setting)), summarize(values)) for setting, values in groups)


class Scores:
  """Measurements that were repeated, grouped by setting: what was measured.

  Attributes:
    repetitions: The values of the column that tells repetitions apart, in ascending order.
    settings: The settings, in the order of the table: tuples with a value for each key.
  """

  def __init__(self, measured: pd.DataFrame, keys: Sequence[str], repetition: str) -> None:
    """Groups the rows of what `table` returned by the columns `keys`."""
    self._rows = dict(iter(measured.groupby(list(keys), sort=False)))
    self.settings = tuple(self._rows)
    self.repetitions = sorted(set(measured[repetition].tolist()))

  def has(self, *setting: Any) -> bool:
    """Returns whether the setting (a value for each key) was measured."""
    return setting in self._rows

  def values(self, column: str, *setting: Any) -> list[Any]:
    """Returns a column's values in all measured repetitions that have one, in their order."""
    rows = self._rows.get(setting)
    return [] if rows is None else rows[column].dropna().tolist()

  def spread(self, column: str, *setting: Any) -> Spread | None:
    """Returns the `Spread` of a column over the repetitions; None if there is no value."""
    return summarize(self.values(column, *setting))

  def text(self, column: str, *setting: Any, form: str = ".3f") -> str:
    """Returns the `spread` as text."""
    return text(self.spread(column, *setting), form)
