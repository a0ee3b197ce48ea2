"""What is wrong with a file of a client, and where."""

from __future__ import annotations

import collections
import reprlib
from typing import Any, Iterable, Sequence

TEXT_FILES = (".csv", ".csv.gz")
# The only texts that are numbers: Python's `float` takes 1_12 and infinity, too.
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


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


def check_names(path: str, names: Sequence[str]) -> None:
  """Raises a BadTable unless columns, but for the first ones, have names, each another one."""
  first = next((place for place, name in enumerate(names) if name), 0)
  if not all(names[first:]):
    raise bad_header(path, None, "must name all columns, but for an index in front")
  for name, number in collections.Counter(names[first:]).items():
    if number > 1:
      raise bad_header(path, name, "two columns have this name")


def listed(names: Iterable[Any]) -> str:
  """Returns names as a message has them: the first of many."""
  shown = reprlib.Repr()
  shown.maxlist = 20
  return shown.repr([*names])
