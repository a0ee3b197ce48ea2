"""Tables of numbers from CSV and NPY files, and in words what is wrong with one.

A row is a point.  A CSV file has commas, and may have one line of column names.  No cell
is skipped or guessed: one that is not a number is an error with file, line and column.
"""

import csv
import math
import os

import numpy as np

from fl_clustering.points import client_points

_ENDINGS = (".csv", ".npy")
# Spreadsheets begin a file with a byte order mark.
_ENCODING = "utf-8-sig"
_NOT_FINITE = "is not a finite number"
_TOO_LARGE = f"is not between {-client_points.LARGEST:g} and {client_points.LARGEST:g}"


def _is_number(text):
  try:
    float(text)
  except ValueError:
    return False
  return True


class _BadTable(Exception):
  """What is wrong with a file, in words."""


def _bad_file(argument, path, problem):
  return ValueError(f"`{argument}` must hold tables of numbers, got {path!r}: {problem}.")


def _read_names(first):
  """Returns the column names if `first`, the cells of line 1, are names, else None."""
  are_numbers = [_is_number(cell) for cell in first]
  if all(are_numbers):
    return None
  if any(are_numbers):
    raise _BadTable(
        "line 1 has numbers and other cells; it must be a point or have a name for every "
        f"column, got {','.join(first)!r}"
    )
  names = tuple(cell.strip() for cell in first)
  if "" in names:
    # What pandas writes unless it is told `index=False`.
    raise _BadTable(f"line 1 has no name for column {names.index('') + 1}")
  if len(set(names)) < len(names):
    raise _BadTable(f"line 1 names a column twice, got {','.join(first)!r}")
  return names


def _checked_rows(reader, num_columns):
  """Yields the numbers of every line; an error names the first bad line."""
  for cells in reader:
    where = f"line {reader.line_num}"
    if not cells:
      continue
    if len(cells) != num_columns:
      raise _BadTable(f"{where} has {len(cells)} cells, line 1 has {num_columns}")
    for column, cell in enumerate(cells, start=1):
      if not _is_number(cell) or not math.isfinite(float(cell)):
        raise _BadTable(f"{where}, column {column}, {_NOT_FINITE}: {cell!r}")
      if abs(float(cell)) > client_points.LARGEST:
        raise _BadTable(f"{where}, column {column}, {_TOO_LARGE}: {cell!r}")
    yield list(map(float, cells))


def _read_first_lines(path):
  """Returns the cells of lines 1 and 2."""
  with open(path, encoding=_ENCODING, newline="") as file:
    reader = csv.reader(file)
    first, second = next(reader, []), next(reader, [])
  if not first:
    raise _BadTable("line 1 is empty")
  return first, second


def _read_line_by_line(path, num_columns, has_names):
  """Returns the table of a CSV file; an error names the first bad line."""
  with open(path, encoding=_ENCODING, newline="") as file:
    reader = csv.reader(file)
    if has_names:
      next(reader)
    rows = list(_checked_rows(reader, num_columns))
  if not rows:
    raise _BadTable("it has no rows")
  return np.array(rows)


def _read_fast(path, num_columns, has_names):
  """Returns the table of a CSV file of numbers and nothing else; otherwise None."""
  import pandas as pd  # pylint: disable=g-import-not-at-top

  try:
    table = pd.read_csv(
        path, encoding=_ENCODING, header=None, skiprows=int(has_names), index_col=False,
        dtype=np.float64, float_precision="round_trip", na_filter=False,
        skip_blank_lines=False,
    ).to_numpy()
  except ValueError:
    return None
  if table.shape[1] != num_columns or not np.all(np.abs(table) <= client_points.LARGEST):
    return None
  return table


def _read_csv(path):
  """Returns the table and the column names."""
  try:
    first, second = _read_first_lines(path)
    names = _read_names(first)
    has_names = names is not None
    table = None
    if not has_names or all(map(_is_number, second)):  # pandas takes a column of True for 1.
      table = _read_fast(path, len(first), has_names)
    if table is None:  # pandas does not say which line is bad.
      table = _read_line_by_line(path, len(first), has_names)
  except (csv.Error, UnicodeDecodeError) as e:
    raise _BadTable(f"it is no CSV file ({e})") from e
  return table, names


def _read_npy(path, num_axes):
  """Returns the array, of one or two axes as asked for."""
  try:
    table = np.load(path, allow_pickle=False)
  except (ValueError, EOFError, OSError) as e:
    raise _BadTable(f"it is no NPY file ({e})") from e
  if (
      not isinstance(table, np.ndarray) or table.ndim not in num_axes
      or table.dtype.kind not in "biuf"
  ):
    raise _BadTable("it has no matrix of real numbers")
  if not table.size:
    raise _BadTable(f"it has no rows or no columns, shape {table.shape}")
  table = table.astype(np.float64).reshape(len(table), -1)
  for is_bad, rule in (
      (~np.isfinite(table), _NOT_FINITE), (np.abs(table) > client_points.LARGEST, _TOO_LARGE)
  ):
    bad = np.argwhere(is_bad)
    if len(bad):
      row, column = bad[0] + 1
      raise _BadTable(f"row {row}, column {column}, {rule}")
  return table


def _read(path, argument, num_axes):
  """Returns the table and the column names, which are None if the file has none."""
  try:
    if path.lower().endswith(".npy"):
      return _read_npy(path, num_axes), None
    return _read_csv(path)
  except _BadTable as e:
    raise _bad_file(argument, path, e) from e


def read_column(path, argument):
  """Returns the single column of a file, float64 of shape (n,).

  Args:
    path: The file: a CSV file with one column, or an NPY file of shape (n, 1) or (n,).
    argument: What messages call the folder that it is in.

  Raises:
    ValueError: If the file has something else.
    OSError: If the file can't be read.
  """
  column, _ = _read(path, argument, num_axes=(1, 2))
  if column.shape[1] != 1:
    raise _bad_file(argument, path, f"it must have one column, got {column.shape[1]}")
  return column[:, 0]


def read_tables(paths, argument):
  """Reads tables that have the same columns.

  Args:
    paths: A mapping of anything to a path.
    argument: What messages call the folder that they are in.

  Returns:
    float64 of shape (n, d) for each path, under its key, and the columns' names, or
    None if no file has them.

  Raises:
    ValueError: If a file can't be used, or has other columns than the others.
    OSError: If a file can't be read.
  """
  tables, names, first_path, named_path = {}, None, None, None
  for key, path in paths.items():
    table, own_names = _read(path, argument, num_axes=(2,))
    first_path = first_path or path
    num_columns = len(next(iter(tables.values()), table)[0])
    if table.shape[1] != num_columns:
      raise _bad_file(
          argument, path,
          f"it has {table.shape[1]} columns, {first_path!r} has {num_columns}",
      )
    if own_names is not None:
      if names is not None and own_names != names:
        raise _bad_file(
            argument, path,
            f"its columns are {','.join(own_names)}; in {named_path!r} they are "
            f"{','.join(names)}",
        )
      names, named_path = own_names, path
    tables[key] = table
  return tables, names


def check_folder(directory, argument):
  """Raises ValueError unless there is such a folder; messages call it `argument`."""
  if not os.path.isdir(directory):
    raise ValueError(f"`{argument}` must be a folder, got {directory!r}.")


def table_paths(directory, argument, what):
  """Returns the paths of a folder's files by their names without endings.

  Args:
    directory: The folder; folders in it and hidden files are left alone.
    argument: What messages call it.
    what: What a file is of, such as "client".

  Raises:
    ValueError: If it is no folder, or has none, another kind of file, or one name twice.
    OSError: If the folder can't be read.
  """
  check_folder(directory, argument)
  paths = {}
  for file_name in sorted(os.listdir(directory)):
    path = os.path.join(directory, file_name)
    name, ending = os.path.splitext(file_name)
    if file_name.startswith(".") or os.path.isdir(path):
      continue
    if ending.lower() not in _ENDINGS:
      raise ValueError(f"`{argument}` must hold CSV and NPY files only, got {path!r}.")
    if name in paths:
      raise ValueError(
          f"`{argument}` must hold one file per {what}, got {paths[name]!r} and {path!r}."
      )
    paths[name] = path
  if not paths:
    raise ValueError(
        f"`{argument}` must hold a CSV or NPY file per {what}, got none in {directory!r}."
    )
  return paths
