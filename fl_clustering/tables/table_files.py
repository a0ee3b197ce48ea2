"""The kinds of files that hold a table, and where a folder has them."""

import dataclasses
import functools
import os
from typing import Callable

import numpy as np

from fl_clustering.tables import array_tables
from fl_clustering.tables import cells
from fl_clustering.tables import csv_tables
from fl_clustering.tables import findings
from fl_clustering.tables import table_options


@dataclasses.dataclass(frozen=True)
class Kind:
  """A kind of file.

  Attributes:
    read_head: A function from a path and `TableOptions` to the file's `Head`.
    read: A function from a `Head`, names of columns of numbers and names of columns of text
      to Arrow arrays by name.
    where: A function from a `Head` and a row, counted from 0, to words for the row's place.
  """

  read_head: Callable
  read: Callable
  where: Callable


_TEXT = Kind(csv_tables.read_head, csv_tables.read, csv_tables.where)
_ARRAY = Kind(array_tables.read_array_head, array_tables.read_array, array_tables.where)
_PARQUET = Kind(array_tables.read_parquet_head, array_tables.read_parquet, array_tables.where)

# To add a kind: one row, by the ending of its files.
KINDS = {
    ".csv": _TEXT,
    ".tsv": _TEXT,
    ".txt": _TEXT,
    ".csv.gz": _TEXT,
    ".tsv.gz": _TEXT,
    ".txt.gz": _TEXT,
    ".parquet": _PARQUET,
    ".npy": _ARRAY,
    ".npz": _ARRAY,
}


def _ending(path):
  """Returns the longest ending that is in `KINDS`, or None."""
  lower = path.lower()
  return max((e for e in KINDS if lower.endswith(e)), key=len, default=None)


def check_folder(directory, argument):
  """Raises ValueError unless there is such a folder; messages call it `argument`."""
  if not os.path.isdir(directory):
    raise ValueError(f"`{argument}` must be a folder, got {directory!r}.")


def _files(directory):
  """Yields (file name, path, ending or None) of a folder's files that are not hidden."""
  for name in sorted(os.listdir(directory)):
    path = os.path.join(directory, name)
    if not name.startswith(".") and not os.path.isdir(path):
      yield name, path, _ending(name)


def check_kinds(directories, argument):
  """Raises `UnusableTables` if folders have files of other kinds; messages call them `argument`."""
  hints = (f"kinds are {', '.join(KINDS)}",)
  found = [
      findings.Finding(path, "it is of no kind that can be read", hints)
      for directory in directories for _, path, ending in _files(directory) if ending is None
  ]
  if found:
    raise findings.UnusableTables(argument, found)


def paths(directory, argument, what):
  """Returns the paths of a folder's files by their names without endings.

  Args:
    directory: The folder; folders in it, hidden files and those of other kinds are left alone.
    argument: What messages call it.
    what: What a file is of, such as "client".

  Raises:
    ValueError: If it is no folder, or has none, or one name twice.
    OSError: If the folder can't be read.
  """
  check_folder(directory, argument)
  found = {}
  for file_name, path, ending in _files(directory):
    if ending is None:
      continue
    name = file_name[: -len(ending)]
    if name in found:
      raise ValueError(
          f"`{argument}` must hold one file per {what}, got {found[name]!r} and {path!r}."
      )
    found[name] = path
  if not found:
    raise ValueError(
        f"`{argument}` must hold a file per {what} ({', '.join(KINDS)}), got none in "
        f"{directory!r}."
    )
  return found


def have_text(directory):
  """Returns whether a folder has text files, which don't say themselves how they are written."""
  return any(KINDS.get(ending) is _TEXT for _, _, ending in _files(directory))


def read_head(path, options):
  """Returns the `Head` of a file; `BadTable` if it holds no table."""
  head = KINDS[_ending(path)].read_head(path, options)
  # An empty file of a private algorithm has the columns of the others.
  may_be_empty = head.allows_any_cell and options.header == table_options.YES
  if not head.num_columns and not (may_be_empty and head.first_line == ()):
    raise cells.BadTable("it has no columns")
  return head


def _as_text(array):
  """Returns an Arrow array of text as an array of objects, trimmed, None where missing."""
  return np.array(
      [
          None if text is None or cells.is_missing(text) else text.strip()
          for text in array.to_pylist()
      ],
      object,
  )


def _is_missing(column):
  return np.isnan(column) if column.dtype != object else np.equal(column, None)


def _check(values, columns, needed, allow_any_number, where):
  """Raises `BadTable` if a cell can't be used.

  Args:
    values: The columns by name.
    columns: The `Columns` that are used.
    needed: The names of the columns where no cell may be missing.
    allow_any_number: Whether a number may be infinite or too large to be squared.
    where: A function from a row to words for its place.
  """
  missing = {name: np.flatnonzero(_is_missing(values[name])) for name in needed}
  missing = {name: rows[0] for name, rows in missing.items() if len(rows)}
  # What flags can help with comes first.
  names = [name for name in columns.features if name in missing]
  if names:
    names.sort(key=missing.get)
    raise cells.missing_values(where(missing[names[0]]), names)
  bad = {
      name: np.flatnonzero(np.abs(values[name]) > cells.LARGEST)
      for name in (() if allow_any_number else columns.numbers)
  }
  bad = {name: rows[0] for name, rows in bad.items() if len(rows)}
  if bad:
    names = sorted(bad, key=bad.get)
    row = bad[names[0]]
    raise cells.bad_values(where(row), names, values[names[0]][row])
  for name, row in missing.items():
    raise cells.BadTable(f"{where(row)}, column {name!r} is empty, and every row must have one")


def read(head, columns, needed, allow_any_number=False):
  """Returns the columns by name: float64, NaN where missing, or text, None where missing.

  Args:
    head: The file's `Head`.
    columns: The `Columns` that are used.
    needed: The names of the columns where no cell may be missing.
    allow_any_number: Whether a number may be infinite or too large to be squared.

  Raises:
    BadTable: If a cell can't be used.
  """
  kind = KINDS[_ending(head.path)]
  arrays = kind.read(head, columns.numbers, columns.texts)
  values = {
      name: array.to_numpy() if name in columns.numbers else _as_text(array)
      for name, array in arrays.items()
  }
  _check(values, columns, needed, allow_any_number, functools.partial(kind.where, head))
  return values
