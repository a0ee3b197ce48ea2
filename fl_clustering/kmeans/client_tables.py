"""Clients' points from files: one CSV or NPY file per client, named after it.

  data/
    amsterdam.csv   boston.csv   chicago.npy

A row is a point, and every file has the same columns.  A CSV file has commas, and may
have one line of column names, which must then be the same in all CSV files.
"""

import csv
import dataclasses
import math
import os
from typing import Optional

import numpy as np

from fl_clustering.kmeans import client_points

_ENDINGS = (".csv", ".npy")
_NOT_FINITE = "is not a finite number"
_TOO_LARGE = f"is not between {-client_points.LARGEST:g} and {client_points.LARGEST:g}"


@dataclasses.dataclass(frozen=True, eq=False)
class ClientTables:
  """What the files hold.

  Attributes:
    points: A mapping from client id, the file's name without ending, to float64 of
      shape (n, d), in alphabetic order of the ids.
    column_names: The columns' names, or None if the files have none.
  """

  points: dict[str, np.ndarray]
  column_names: Optional[tuple[str, ...]]


def _is_number(text):
  try:
    float(text)
  except ValueError:
    return False
  return True


def _bad_file(path, problem):
  return ValueError(f"`data` must hold tables of numbers, got {path!r}: {problem}.")


def _read_names(path, first):
  """Returns the column names if `first`, the cells of line 1, are names, else None."""
  are_numbers = [_is_number(cell) for cell in first]
  if all(are_numbers):
    return None
  if any(are_numbers):
    raise _bad_file(
        path,
        "line 1 has numbers and other cells; it must be a point or have a name for every "
        f"column, got {','.join(first)!r}",
    )
  names = tuple(cell.strip() for cell in first)
  if "" in names:
    # What pandas writes unless it is told `index=False`.
    raise _bad_file(path, f"line 1 has no name for column {names.index('') + 1}")
  if len(set(names)) < len(names):
    raise _bad_file(path, f"line 1 names a column twice, got {','.join(first)!r}")
  return names


def _checked_rows(path, reader, num_columns):
  """Yields the numbers of every line; a ValueError names the first bad line."""
  for cells in reader:
    where = f"line {reader.line_num}"
    if not cells:
      continue
    if len(cells) != num_columns:
      raise _bad_file(path, f"{where} has {len(cells)} cells, line 1 has {num_columns}")
    for column, cell in enumerate(cells, start=1):
      if not _is_number(cell) or not math.isfinite(float(cell)):
        raise _bad_file(path, f"{where}, column {column}, {_NOT_FINITE}: {cell!r}")
      if abs(float(cell)) > client_points.LARGEST:
        raise _bad_file(path, f"{where}, column {column}, {_TOO_LARGE}: {cell!r}")
    yield list(map(float, cells))


def _read_csv(path):
  """Returns the points and the column names."""
  # Spreadsheets begin a file with a byte order mark.
  with open(path, encoding="utf-8-sig", newline="") as file:
    reader = csv.reader(file)
    try:
      first = next(reader, [])
      if not first:
        raise _bad_file(path, "line 1 is empty")
      names = _read_names(path, first)
      if names is None:
        file.seek(0)
        reader = csv.reader(file)
      rows = list(_checked_rows(path, reader, len(first)))
    except (csv.Error, UnicodeDecodeError) as e:
      raise _bad_file(path, f"it is no CSV file ({e})") from e
  if not rows:
    raise _bad_file(path, "it has no rows")
  return np.array(rows), names


def _read_npy(path):
  """Returns the points, and None for the column names."""
  try:
    points = np.load(path, allow_pickle=False)
  except (ValueError, EOFError, OSError) as e:
    raise _bad_file(path, f"it is no NPY file ({e})") from e
  if not isinstance(points, np.ndarray) or points.ndim != 2 or points.dtype.kind not in "biuf":
    raise _bad_file(path, "it has no matrix of real numbers")
  if not points.size:
    raise _bad_file(path, f"it has no rows or no columns, shape {points.shape}")
  points = points.astype(np.float64)
  for is_bad, rule in (
      (~np.isfinite(points), _NOT_FINITE), (np.abs(points) > client_points.LARGEST, _TOO_LARGE)
  ):
    bad = np.argwhere(is_bad)
    if len(bad):
      row, column = bad[0] + 1
      raise _bad_file(path, f"row {row}, column {column}, {rule}")
  return points, None


def _paths(directory):
  """Returns the files' paths by client id."""
  paths = {}
  for name in sorted(os.listdir(directory)):
    path = os.path.join(directory, name)
    client_id, ending = os.path.splitext(name)
    if name.startswith(".") or os.path.isdir(path):
      continue
    if ending.lower() not in _ENDINGS:
      raise ValueError(f"`data` must hold CSV and NPY files only, got {path!r}.")
    if client_id in paths:
      raise ValueError(
          f"`data` must hold one file per client, got {paths[client_id]!r} and {path!r}."
      )
    paths[client_id] = path
  if not paths:
    raise ValueError(f"`data` must hold a CSV or NPY file per client, got none in {directory!r}.")
  return paths


def read_tables(directory):
  """Reads the clients' points.

  Args:
    directory: The folder with a file for every client.

  Returns:
    `ClientTables`.

  Raises:
    ValueError: If a file can't be used, or has other columns than the others.
    OSError: If the folder or a file can't be read.
  """
  points, names, first_path, named_path = {}, None, None, None
  for client_id, path in _paths(directory).items():
    read = _read_npy if path.lower().endswith(".npy") else _read_csv
    table, own_names = read(path)
    first_path = first_path or path
    num_columns = len(next(iter(points.values()), table)[0])
    if table.shape[1] != num_columns:
      raise _bad_file(
          path, f"it has {table.shape[1]} columns, {first_path!r} has {num_columns}"
      )
    if own_names is not None:
      if names is not None and own_names != names:
        raise _bad_file(
            path, f"its columns are {','.join(own_names)}; in {named_path!r} they are "
            f"{','.join(names)}"
        )
      names, named_path = own_names, path
    points[client_id] = table
  return ClientTables(points, names)
