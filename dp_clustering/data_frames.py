"""The names of the columns of points in data frames of pandas, polars and what narwhals knows."""

import numbers
from typing import Any

import numpy as np

from clustering_basics import callers_line


def is_frame(table: Any) -> bool:
  """Returns whether a table is a data frame, with its rows in memory."""
  if not hasattr(table, "columns"):
    return False
  import narwhals  # It takes long to import.

  return narwhals.dependencies.is_into_dataframe(table)


def column_names(table: Any, name: str) -> list[Any] | None:
  """Returns the names of a frame's columns, of any kind; None for a table without names.

  That is an array, or a frame whose columns are numbered from 0 in their order.

  Raises:
    TypeError: If a table has columns and is no frame, such as a query that is not computed.
    ValueError: If two columns have the same name.
  """
  if not is_frame(table):
    if hasattr(table, "columns"):
      raise TypeError(f"{name} must be an array or a data frame, got {type(table)}.")
    return None
  import narwhals  # It takes long to import.

  is_pandas = narwhals.dependencies.is_pandas_dataframe(table)  # Its names may be of any kind.
  names = list(table.columns if is_pandas else narwhals.from_native(table).columns)
  if len(set(names)) < len(names):
    twice = next(column for column in names if names.count(column) > 1)
    raise ValueError(f"{name} must have columns of different names, got {twice!r} twice.")
  is_numbered = names == list(range(len(names))) and bool not in map(type, names)
  return None if is_numbered else names


def check_same_columns(names: list[Any], expected: list[Any], name: str, others: str) -> None:
  """Raises a ValueError unless two tables have the same columns, in whatever order.

  Args:
    expected: Those that it must have.
    name: What the message calls the table.
    others: What it calls the one with the expected columns.
  """
  found, asked = set(names), set(expected)
  missing = [column for column in expected if column not in found]
  more = [column for column in names if column not in asked]
  if missing or more:
    faults = [f"lacks {missing}"] * bool(missing) + [f"has {more} besides"] * bool(more)
    raise ValueError(f"{name} must have the columns of {others}, but {' and '.join(faults)}.")


def name_array(names: list[Any] | None) -> np.ndarray | None:
  """Returns the names of columns as scikit-learn's estimators have them; None for none."""
  # Also where names are tuples, of which `np.array` makes a matrix.
  return None if names is None else np.fromiter(names, object, len(names))


def set_columns(estimator: Any, width: int, names: np.ndarray | None) -> None:
  """Gives an estimator the attributes `n_features_in_` and, with names, `feature_names_in_`."""
  estimator.n_features_in_ = width
  estimator.__dict__.pop("feature_names_in_", None)
  if names is not None:
    estimator.feature_names_in_ = names


def check_width(estimator: Any, width: int) -> None:
  """Raises scikit-learn's ValueError unless points have as many columns as those of the fit."""
  if width != estimator.n_features_in_:
    raise ValueError(
        f"X has {width} features, but {type(estimator).__name__} is expecting "
        f"{estimator.n_features_in_} features as input."
    )


def check_order(table: Any, fitted: np.ndarray | None, name: str) -> None:
  """Raises a ValueError unless a table has the columns of a fit, in their order.

  Warns if only one of both has names.  Integers are compared with the numbers of columns without.
  """
  names = column_names(table, name)
  expected = None if fitted is None else list(fitted)
  given = names or expected or []
  if is_frame(table) and all(isinstance(column, numbers.Integral) for column in given):
    numbered = list(range(len(given)))
    names, expected = names or numbered, expected or numbered
  if expected is not None and names is not None:
    check_same_columns(names, expected, name, "the fit")
    for column, in_fit in zip(names, expected):
      if column != in_fit:
        raise ValueError(
            f"{name} must have the columns in the order of the fit, got {column!r} in the place of "
            f"{in_fit!r}."
        )
  elif expected is not None or names is not None:
    with_names = "the fit" if names is None else name
    callers_line.warn(
        f"{name} and the fit can't be compared: only {with_names} has column names."
    )
