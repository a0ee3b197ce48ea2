"""What is wrong with a file of a client, and where."""

from __future__ import annotations

import collections
import decimal
import re
import reprlib
from typing import Any, Collection, Iterable, Sequence
import unicodedata

TEXT_FILES = (".csv", ".csv.gz")
# The only texts that are numbers: Python's `float` takes 1_12 and infinity, too.
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


class BadTable(ValueError):
  """A file can't be used.

  Attributes:
    path: The file.
    line: The line, from 1; of no text file, the row; None for all of it.
    column: The column's name, None for none.
    by_schema: Whether another schema may allow it.
    cell: The cell of text that is at fault; None if it is not one.
  """

  def __init__(
      self, path: str, line: int | None, column: str | None, rule: str, *, by_schema: bool = False,
      cell: str | None = None,
  ) -> None:
    row = "line" if path.endswith(TEXT_FILES) else "row"
    where = [path]
    where += [] if line is None else [f"{row} {line}"]
    where += [] if column is None else [f"column {column!r}"]
    super().__init__(f"{', '.join(where)}: {rule}")
    self.path, self.line, self.column = path, line, column
    self.by_schema, self.cell = by_schema, cell


def bad_header(path: str, column: str | None, rule: str, **options: Any) -> BadTable:
  """Returns the error of a file's names of columns."""
  return BadTable(path, 1 if path.endswith(TEXT_FILES) else None, column, rule, **options)


def bad_cell(path: str, row: int, column: str | None, rule: str, **options: Any) -> BadTable:
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


def listed(names: Iterable[str], wanted: str | None = None) -> str:
  """Returns names as a message has them, the first of many, and which looks like one it wants."""
  shown, names = reprlib.Repr(), list(names)
  shown.maxlist = 20
  texts = (name for name in names if isinstance(name, str))  # A frame's may be anything.
  return shown.repr(names) + ("" if wanted is None else alike(texts, wanted))


def alike(texts: Iterable[str], wanted: str | None = None) -> str:
  """Returns the end of a message that names two texts that look alike, or ""."""
  pairs = [texts] if wanted is None else ({text, wanted} for text in texts)
  found = next(filter(None, map(look_alikes, pairs)), None)
  return "" if found is None else f"; {found[0]!a} and {found[1]!a} look alike"


def look_alikes(texts: Iterable[str]) -> tuple[str, str] | None:
  """Returns two texts that look alike, by `spelling`."""
  found: dict[Any, str] = {}
  for text in sorted(texts):
    other = found.setdefault(spelling(text), text)
    if other != text:
      return other, text
  return None


def cells_alike(
    alike: Collection[str], columns: Iterable[tuple[str, str, Iterable[str | None]]], advice: str
) -> BadTable:
  """Returns the error of two texts that look alike.

  Args:
    columns: A file, a column's name and its cells; both texts are there.
    advice: What to do.
  """
  found: dict[str, tuple[str, int, str]] = {}
  for path, column, cells in columns:
    for row, cell in enumerate(cells):
      if cell is not None and cell in alike:
        found.setdefault(cell, (path, row, column))
  (first, (path, row, _)), (second, at) = found.items()
  return bad_cell(*at, f"{second!a} looks like {first!a} in {place(path, row)}; {advice}")


def spelling(text: str) -> Any:
  """Returns what texts share that differ by blanks, case or coding alone, or are equal numbers.

  Characters that only format others, as zero width spaces do, are invisible.  Only numbers without
  an exponent are compared as such: 00e1 and 00e7 are parts of hashes more often.
  """
  form = unicodedata.normalize("NFKC", text)
  form = "".join(one for one in form if unicodedata.category(one) != "Cf").strip().casefold()
  return decimal.Decimal(form) if re.fullmatch(NUMBER, form) and "e" not in form else form
