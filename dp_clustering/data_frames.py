"""Data frames as points: the names of their columns, and their numbers.

A frame is what offers the interchange protocol `__dataframe__`: those of pandas and polars,
and the tables of Arrow.  None of these libraries is needed.
"""

import sys

import numpy as np
from scipy import sparse

from dp_clustering import clustering_params


def numeric_array(values, name, num_dims):
  """Does `clustering_params.numeric_array` for a name that has its own backticks."""
  return clustering_params.numeric_array(name.replace("`", ""), values, num_dims)


def is_frame(table):
  """Returns whether a table is a data frame."""
  return hasattr(table, "__dataframe__")


def _all_names(frame):
  pandas = sys.modules.get("pandas")
  if pandas is not None and isinstance(frame, pandas.DataFrame):
    return list(frame.columns)  # The protocol makes text of numbers.
  return list(frame.__dataframe__().column_names())


def column_names(table, name):
  """Returns the names of a frame's columns, a list of text; None for a table without names.

  That is an array, or a frame whose columns are numbered.

  Args:
    table: A frame or an array.
    name: What the messages call it.

  Raises:
    TypeError: If some columns have names, and others none.
    ValueError: If two columns have the same name.
  """
  names = _all_names(table) if is_frame(table) else []
  kinds = {isinstance(column, str) for column in names}
  if len(kinds) > 1:
    raise TypeError(f"{name} must have names of text for all columns or for none, got {names}.")
  if kinds != {True}:
    return None
  for column in names:
    if names.count(column) > 1:
      raise ValueError(f"{name} must have columns of different names, got {column!r} twice.")
  return names


def numbers(table, name):
  """Returns a frame as an array of numbers; anything else as it is.

  Args:
    table: A frame, or what is meant as an array.
    name: What the messages call it.

  Raises:
    TypeError: If it is sparse, or a column of a frame does not hold real numbers.
  """
  if sparse.issparse(table):
    raise TypeError(f"{name} must be dense, got a sparse {type(table).__name__}.")
  if not is_frame(table):
    return table
  array = np.asarray(table)
  if array.dtype.kind in "biuf":
    return array
  if not array.size:
    return np.zeros(array.shape)
  columns = zip(_all_names(table), array.T)
  arrays = [numeric_array(values, f"{name}, column {column!r},", 1) for column, values in columns]
  return np.stack(arrays, axis=1)


def check_same_columns(names, expected, name, others):
  """Raises a ValueError unless two tables have the same columns, in whatever order.

  Args:
    names: The names of the table's columns.
    expected: Those that it must have.
    name: What the message calls the table.
    others: What it calls the one with the expected columns.
  """
  missing = [column for column in expected if column not in names]
  more = [column for column in names if column not in expected]
  if missing or more:
    faults = [f"lacks {missing}"] * bool(missing) + [f"has {more} besides"] * bool(more)
    raise ValueError(f"{name} must have the columns of {others}, but {' and '.join(faults)}.")


def check_order(table, fitted, name):
  """Raises a ValueError unless a table has the columns of a fit, in their order.

  Args:
    table: A frame or an array.  One without names has the columns of any fit.
    fitted: The names of the columns of the fit, or None.
    name: What the messages call the table.
  """
  names = column_names(table, name)
  if fitted is None or names is None:
    return
  check_same_columns(names, list(fitted), name, "the fit")
  for column, expected in zip(names, fitted):
    if column != expected:
      raise ValueError(
          f"{name} must have the columns in the order of the fit, got {column!r} in the place "
          f"of {expected!r}."
      )
