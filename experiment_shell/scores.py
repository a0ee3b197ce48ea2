"""Mean and spread of scores that were measured several times, by seed or by run."""

from __future__ import annotations

import dataclasses
from typing import Any, Iterable, Sequence, TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
  import pandas as pd

ABSENT = "–"


@dataclasses.dataclass(frozen=True)
class Spread:
  """Mean and spread of several values.

  Attributes:
    mean: The mean.
    sd: The standard deviation, with n - 1 in the denominator; zero for one value.
    low: The 25th percentile.
    high: The 75th percentile.
    count: The number of values.
  """

  mean: float
  sd: float
  low: float
  high: float
  count: int

  def text(self, form=".3f"):
    """Returns "mean ± sd" in the format `form`; the mean alone for one value."""
    mean = format(self.mean, form)
    return f"{mean} ± {format(self.sd, form)}" if self.count > 1 else mean


def summarize(values):
  """Returns the `Spread` of the values that are not None; None if there are none."""
  values = [value for value in values if value is not None]
  if not values:
    return None
  return Spread(
      mean=float(np.mean(values)),
      sd=float(np.std(values, ddof=1)) if len(values) > 1 else 0.0,
      low=float(np.percentile(values, 25)),
      high=float(np.percentile(values, 75)),
      count=len(values),
  )


def text(spread, form=".3f"):
  """Returns a `Spread` as text, or a dash for None.

  Args:
    spread: The `Spread`, or None.
    form: The format of a number.
  """
  return ABSENT if spread is None else spread.text(form)


def summary(table: pd.DataFrame, by: Sequence[str], column: str) -> pd.DataFrame:
  """Returns the mean and spread of a column by setting, in the order of the settings.

  Args:
    table: The measurements, those of a setting in the order of repetition.
    by: Names of the columns that together identify a setting.
    column: What is summarized.  Settings without a value are left out.

  Returns:
    A table with the columns `by` and the fields of `Spread`.
  """
  import pandas as pd  # Takes long to import.  pylint: disable=g-import-not-at-top

  groups = table.dropna(subset=[column]).groupby(list(by), sort=False)[column]
  spreads = {setting: dataclasses.astuple(summarize(values)) for setting, values in groups}
  fields = [field.name for field in dataclasses.fields(Spread)]
  return pd.DataFrame(
      [(*setting, *spread) for setting, spread in spreads.items()], columns=[*by, *fields]
  )


class Scores:
  """A study's rows, grouped by setting and repetition.

  A setting is what was measured: a tuple with a value for each key.

  Attributes:
    repetitions: The values of the column that tells repetitions apart, in ascending order.
    settings: The settings, in the order of the rows.
  """

  def __init__(self, rows, keys, repetition):
    """Groups the rows.

    Args:
      rows: Dicts, as in `study.Study.rows`.
      keys: Names of the columns that together identify a setting.
      repetition: Name of the column that tells repetitions apart, such as "seed".
    """
    self._rows = {}
    for row in rows:
      setting = tuple(row[key] for key in keys)
      self._rows.setdefault(setting, {})[row[repetition]] = row
    self.settings = tuple(self._rows)
    self.repetitions = sorted({r for of_setting in self._rows.values() for r in of_setting})

  def has(self, *setting):
    """Returns whether the setting (a value for each key) was measured."""
    return setting in self._rows

  def row(self, *setting, repetition):
    """Returns the row of one repetition, or None if it was not measured."""
    return self._rows.get(setting, {}).get(repetition)

  def values(self, column, *setting):
    """Returns a column's values in all measured repetitions, in ascending order of these."""
    rows = self._rows.get(setting, {})
    return [rows[repetition][column] for repetition in sorted(rows)]

  def spread(self, column, *setting):
    """Returns the `Spread` of a column over the repetitions; None if there is no value."""
    return summarize(self.values(column, *setting))
