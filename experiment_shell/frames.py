"""What summaries make of tidy tables: tables in width, orders, spreads, comparisons and counts."""

import math
from typing import Any, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from clustering_basics import intervals
from experiment_shell import tidy_tables

# Tables by name.
Frames = dict[str, pd.DataFrame]
# How to read the gains of a report.
READING_OF_GAINS = (
    "The intervals of all gains of the report hold together, with probability "
    f"{100 * intervals.LEVEL:g}%. Unclear: the interval has zero in it, or there is none, as with "
    f"fewer than {intervals.LEAST_COUNT} repetitions, or where nothing varies."
)


def wide(
    rows: pd.DataFrame, keys: Sequence[str], columns: Iterable[Any] | None = None, *,
    column: str = tidy_tables.METRIC, value: str = tidy_tables.VALUE,
) -> pd.DataFrame:
  """Returns a row for every key, in the order of the rows, and a column for every metric.

  Args:
    keys: The columns that stay, and that tell rows apart.
    columns: The metrics, in their order, whether there are values or not; None for all that the
      rows have, as they come.
    column: The column of the metrics.
    value: The column of the values.
  """
  keys = list(keys)
  columns = rows[column].unique() if columns is None else list(columns)
  found = rows.pivot(index=keys, columns=column, values=value).reindex(columns=columns)
  found = found.rename_axis(columns=None).reset_index()
  return rows[keys].drop_duplicates().merge(found, how="left", on=keys)


def in_order(rows: pd.DataFrame, **orders: Iterable[Any]) -> pd.DataFrame:
  """Returns rows in an order of the values of a column, and within it in that of the next one.

  Args:
    **orders: From a column to its values; others come last.
  """
  places = {
      name: {value: place for place, value in enumerate(values)} for name, values in orders.items()
  }
  return rows.sort_values(
      list(places), key=lambda values: values.map(places[values.name]), kind="stable",
      ignore_index=True,
  )


def spread(rows: pd.DataFrame, keys: Sequence[str], **further: Any) -> pd.DataFrame:
  """Returns what the values of every key are like, in the order of the rows.

  Columns are the keys, `mean`, `sd`, `count`, `low` and `high`.  The last two are a standard
  deviation off the mean unless `further` has them.

  Args:
    further: From other columns to what is made of the values, as `DataFrameGroupBy.agg` takes it.
  """
  found = rows.groupby(list(keys), sort=False)[tidy_tables.VALUE].agg(
      mean="mean", sd="std", count="count", **further
  ).reset_index()
  ends = {"low": found["mean"] - found["sd"], "high": found["mean"] + found["sd"]}
  return found.assign(**{name: end for name, end in ends.items() if name not in further})


def at_reference(rows: pd.DataFrame, method: str, keys: Sequence[str], value: str) -> pd.Series:
  """Returns for every row the value of a method at the same keys; NaN where it has none."""
  others = rows[rows["method"] == method].set_index(list(keys))[value]
  return rows[list(keys)].join(others, on=list(keys))[value]


def compared(
    first: Sequence[float], second: Sequence[float], num_comparisons: int = 1, *,
    num_folds: int | None = None, in_pairs: bool = True, scale: float = 1.0,
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> dict[str, Any]:
  """Returns how far the mean of values exceeds that of others: `gain`, `low`, `high`, `verdict`.

  Args:
    num_comparisons: How many intervals hold together.
    num_folds: How many folds there are, of which the values are; None if they are independent.
    in_pairs: Whether the values are of the same repetitions, one by one.
    scale: What the gain and the ends of its interval are multiplied by.
    limits: Between which every gain is, once multiplied.
  """
  if in_pairs:
    ends = intervals.of_pairs(first, second, num_comparisons, num_folds)
    gain = pd.Series(np.subtract(first, second)).mean()
  else:
    ends = intervals.of_means(first, second, num_comparisons)
    gain = pd.Series(first).mean() - pd.Series(second).mean()
  low, high = np.clip(np.multiply(scale, ends), *limits).tolist()
  return {"gain": scale * gain, "low": low, "high": high, "verdict": intervals.verdict(*ends)}


def gain_columns(form: str = "{:+.1f}") -> dict[str, str]:
  """Returns the columns of `compared` for a table, with the format of the numbers."""
  return {**dict.fromkeys(("gain", "low", "high"), form), "verdict": "{}"}


def counts(gains: pd.DataFrame) -> dict[str, int]:
  """Returns how many gains there are, `cases`, and how many have each verdict."""
  verdicts = {one: int((gains["verdict"] == one).sum()) for one in intervals.VERDICTS}
  return {"cases": len(gains), **verdicts}


def headline(gains: pd.DataFrame, **facts: Any) -> pd.DataFrame:
  """Returns the row of counts and facts for a headline; no row where there are no gains."""
  return pd.DataFrame([{**counts(gains), **facts}] if len(gains) else [])


def labelled(frames: Frames, labels: Mapping[str, str], column: str = "method") -> Frames:
  """Returns frames with labels in place of the names in a column; names without one stay."""
  return {
      name: frame.assign(**{column: frame[column].map(lambda one: labels.get(one, one))})
      if column in frame else frame
      for name, frame in frames.items()
  }
