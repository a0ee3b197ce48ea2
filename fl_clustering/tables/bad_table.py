"""What is wrong with a file of a client, and where."""

from __future__ import annotations

import collections
import contextlib
import reprlib
from typing import Any, Iterable, Sequence
import unicodedata

TEXT_FILES = (".csv", ".csv.gz")


class BadTable(ValueError):
  """A file can't be used.

  Attributes:
    path: The file.
    line: The line, from 1; of no text file, the row; None for all of it.
    column: The column's name, None for none.
    by_schema: Whether another schema may allow it.
  """

  def __init__(
      self, path: str, line: int | None, column: str | None, rule: str, *, by_schema: bool = False
  ) -> None:
    row = "line" if path.endswith(TEXT_FILES) else "row"
    where = [path]
    where += [] if line is None else [f"{row} {line}"]
    where += [] if column is None else [f"column {column!r}"]
    super().__init__(f"{', '.join(where)}: {rule}")
    self.path, self.line, self.column, self.by_schema = path, line, column, by_schema


def bad_header(path: str, column: str | None, rule: str, **options: bool) -> BadTable:
  """Returns the error of a file's names of columns."""
  return BadTable(path, 1 if path.endswith(TEXT_FILES) else None, column, rule, **options)


def bad_cell(path: str, row: int, column: str | None, rule: str, **options: bool) -> BadTable:
  """Returns the error of a row, counted from 0, or of its cell in a column."""
  return BadTable(path, row + (2 if path.endswith(TEXT_FILES) else 1), column, rule, **options)


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


def listed(names: Iterable[str], wanted: str = "") -> str:
  """Returns names as a message has them, the first of many, and which looks like one it wants."""
  shown = reprlib.Repr()
  shown.maxlist = 20
  return shown.repr([*names]) + alike(names, wanted)


def alike(names: Iterable[str], wanted: str) -> str:
  """Returns the end of a message that says which of other names looks like one; "" for none."""
  found = next((name for name in names if look_alikes({name, wanted})), None)
  return "" if found is None else f"; {wanted!a} and {found!a} look alike"


def look_alikes(texts: Iterable[str]) -> tuple[str, str] | None:
  """Returns two texts that differ by blanks, letter case or coding alone, or are equal numbers."""
  found: dict[Any, str] = {}
  for text in sorted(texts):
    form: Any = unicodedata.normalize("NFKC", text).strip().casefold()
    with contextlib.suppress(ValueError):
      form = float(form)
    other = found.setdefault(form, text)
    if other != text:
      return other, text
  return None
