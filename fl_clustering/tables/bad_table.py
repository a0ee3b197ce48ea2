"""What is wrong with a file of a client, and where."""

from __future__ import annotations

import collections
from typing import Sequence

TEXT_FILES = (".csv", ".csv.gz")


class BadTable(ValueError):
  """A file can't be used.

  Attributes:
    path: The file.
    line: The line, from 1; of no text file, the row; None for all of it.
    column: The column's name, None for none.
  """

  def __init__(self, path: str, line: int | None, column: str | None, rule: str) -> None:
    row = "line" if path.endswith(TEXT_FILES) else "row"
    where = [path]
    where += [] if line is None else [f"{row} {line}"]
    where += [] if column is None else [f"column {column!r}"]
    super().__init__(f"{', '.join(where)}: {rule}")
    self.path, self.line, self.column = path, line, column


def bad_header(path: str, column: str | None, rule: str) -> BadTable:
  """Returns the error of a file's names of columns."""
  return BadTable(path, 1 if path.endswith(TEXT_FILES) else None, column, rule)


def bad_cell(path: str, row: int, column: str | None, rule: str) -> BadTable:
  """Returns the error of a row, counted from 0, or of its cell in a column."""
  return BadTable(path, row + (2 if path.endswith(TEXT_FILES) else 1), column, rule)


def place(path: str, row: int) -> str:
  """Returns a row's place, counted from 0, for a message."""
  return f"{bad_cell(path, row, None, '')}".removesuffix(": ")


def check_names(path: str, names: Sequence[str]) -> None:
  """Raises a BadTable unless columns have names, each another one; some may have none."""
  if not any(names):
    raise bad_header(path, None, "no column has a name")
  for name, number in collections.Counter(names).items():
    if name and number > 1:
      raise bad_header(path, name, "two columns have this name")
