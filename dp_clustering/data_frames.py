"""Data frames as points: the names of their columns, and their numbers.

A frame is what offers the interchange protocol `__dataframe__`, or columns and Arrow's
`__arrow_c_stream__`: those of pandas and polars, and the tables of Arrow.  None of these libraries
is needed.
"""

import sys
from typing import Any, Iterable

import numpy as np

from clustering_basics import callers_line
from dp_clustering import clustering_params


def numeric_array(values: Any, name: str, num_dims: int) -> np.ndarray:
  """Does `clustering_params.numeric_array` for a name that has its own backticks."""
  return clustering_params.numeric_array(name.replace("`", ""), values, num_dims)


def is_frame(table: Any) -> bool:
  """Returns whether a table is a data frame."""
  has_columns = hasattr(table, "columns") and hasattr(table, "__arrow_c_stream__")
  return has_columns or hasattr(table, "__dataframe__")


def is_sparse(table: Any) -> bool:
  """Returns whether a table is a sparse matrix of SciPy."""
  sparse = sys.modules.get("scipy.sparse")  # Whoever has one has imported this.
  return sparse is not None and sparse.issparse(table)


def _all_names(frame: Any) -> list[Any]:
  names = getattr(frame, "column_names", None)  # Arrow.
  if not isinstance(names, list):
    names = getattr(frame, "columns", None)  # pandas and polars.
  return list(frame.__dataframe__().column_names() if names is None else names)


def _are_integers(names: Iterable[Any]) -> bool:
  return all(
      isinstance(column, (int, np.integer)) and not isinstance(column, bool) for column in names
  )


def column_names(table: Any, name: str) -> list[Any] | None:
  """Returns the names of a frame's columns, of any kind; None for a table without names.

  That is an array, or a frame whose columns are numbered from 0 in their order.

  Raises:
    ValueError: If two columns have the same name, or one has none.
  """
  names = _all_names(table) if is_frame(table) else []
  for column in names:
    for part in column if isinstance(column, tuple) else (column,):
      if clustering_params.is_missing(part) or part != part:  # A NaN equals nothing.
        raise ValueError(f"{name} must have a name for every column, got {column}.")
  if len(set(names)) < len(names):
    twice = next(column for column in names if names.count(column) > 1)
    raise ValueError(f"{name} must have columns of different names, got {twice!r} twice.")
  is_numbered = _are_integers(names) and names == list(range(len(names)))
  return None if is_numbered else names


def numbers(table: Any, name: str) -> Any:
  """Returns a frame as an array of numbers; anything else as it is.

  Raises:
    TypeError: If it is sparse, or a column of a frame does not hold real numbers.
  """
  if is_sparse(table):
    raise TypeError(f"{name} must be dense, got a sparse {type(table).__name__}.")
  if not is_frame(table):
    return table
  with np.errstate(over="ignore", invalid="ignore"):  # Signaling NaNs would warn.
    array = np.asarray(table)
  if array.dtype.kind in "biuf":
    return array
  if not array.size:
    return np.zeros(array.shape)
  columns = zip(_all_names(table), array.T)
  arrays = [numeric_array(values, f"{name}, column {column!r},", 1) for column, values in columns]
  return np.stack(arrays, axis=1)


def check_same_columns(names: list[Any], expected: list[Any], name: str, others: str) -> None:
  """Raises a ValueError unless two tables have the same columns, in whatever order.

  Args:
    expected: Those that it must have.
    name: What the message calls the table.
    others: What it calls the one with the expected columns.
  """
  missing = [column for column in expected if column not in names]
  more = [column for column in names if column not in expected]
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
  if is_frame(table) and _are_integers(given):
    numbered = list(range(len(given)))
    names, expected = names or numbered, expected or numbered
  if expected is None or names is None:
    if expected is not None or names is not None:
      with_names = "the fit" if names is None else name
      callers_line.warn(
          f"{name} and the fit can't be compared: only {with_names} has column names."
      )
    return
  check_same_columns(names, expected, name, "the fit")
  for column, in_fit in zip(names, expected):
    if column != in_fit:
      raise ValueError(
          f"{name} must have the columns in the order of the fit, got {column!r} in the place "
          f"of {in_fit!r}."
      )
