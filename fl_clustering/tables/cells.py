"""Cells of tables as text: which are numbers, which are missing, and what is wrong with one."""

from collections.abc import Set
import csv
import dataclasses
import io
import math
import re
import shlex

from fl_clustering.points import given_clients

# Larger numbers can't be squared.
LARGEST = given_clients.LARGEST
# A missing cell has one of these texts.
MISSING = (
    "", "?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "Null", "None",
    "none", "<NA>", "-nan", "-NaN",
)
# A column of text with more different cells is taken for names, dates or notes.
MOST_LEVELS = 20
_MOST_NAMES = 20
# What flags do.
LEAVES_OUT = "--exclude leaves columns out"
_LEVELS = "--categories makes a column of every level"
_FILLS_IN = "--missing=mean or --missing=indicator fills in missing cells"
_COMMAS = "--decimal=, reads numbers with decimal commas, but none may stand between thousands"
_ONE_MARK = "all files must have the decimal mark of --decimal and none between thousands"
# By decimal mark.
_WITH_THOUSANDS = {
    ".": re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?", re.ASCII),
    ",": re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?", re.ASCII),
}
_NUMBER = re.compile(
    r"[+-]?((\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|inf(inity)?|nan)", re.ASCII | re.IGNORECASE
)


class BadTable(Exception):
  """What is wrong with a file, in words.

  Attributes:
    path: The file, or None where whoever reads it knows.
    hints: What flags do that help, in words.
    fix: The arguments of `TableOptions.repaired` that make the file usable; none if only
      another file helps.
  """

  def __init__(self, problem, path=None, hints=(), **fix):
    super().__init__(problem)
    self.path = path
    self.hints = hints
    self.fix = fix


def is_number(cell, decimal="."):
  """Returns whether a cell's text is a number, infinity and NaN included."""
  if decimal == ",":
    cell = cell.replace(",", ".") if "." not in cell else ""
  return _NUMBER.fullmatch(cell.strip()) is not None


def number_of(cell, decimal):
  """Returns a cell's text as a float; what is no number is NaN."""
  if is_missing(cell) or not is_number(cell, decimal):
    return math.nan
  return float(cell.replace(",", ".") if decimal == "," else cell)


def is_missing(cell):
  """Returns whether a cell's text says that there is no value."""
  return cell.strip() in MISSING


def quoted(names):
  """Returns names as a flag of a list takes them in a shell."""
  line = io.StringIO()
  csv.writer(line, lineterminator="").writerow(names)
  return shlex.quote(line.getvalue())


def listed(names):
  """Returns names in words, the first of them if there are many."""
  shown = ", ".join(names[:_MOST_NAMES])
  return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"


def also(names):
  """Returns words for further columns with the same problem."""
  return f" (also {listed([repr(name) for name in names])})" if names else ""


@dataclasses.dataclass(frozen=True)
class TextColumn:
  """A column of numbers that holds text.

  Attributes:
    place: Words for the place of the first text.
    text: That text.
    levels: The column's different cells, or more than `MOST_LEVELS` of them.
  """

  place: str
  text: str
  levels: Set[str]

  def may_be_levels(self, num_rows):
    """Returns whether there are few different cells for so many rows."""
    return len(self.levels) <= min(MOST_LEVELS, max(2, num_rows // 2))


def _is_unclear(text, decimal):
  """Returns whether text may be a number with another decimal mark, or with thousands apart."""
  with_thousands = _WITH_THOUSANDS[decimal].fullmatch(text.strip()) is not None
  return with_thousands or is_number(text) or is_number(text, ",")


def no_numbers(columns, num_rows, num_columns, decimal=".", may_have_commas=False):
  """Returns the `BadTable` for text in columns of numbers.

  Args:
    columns: A mapping from the columns' names to `TextColumn`s, the first text first.
    num_rows: The file's number of rows.
    num_columns: The number of columns that are to hold numbers.
    decimal: The decimal mark.
    may_have_commas: Whether the decimal mark may be a comma.
  """
  with_commas = {
      name: column for name, column in columns.items()
      if may_have_commas and is_number(column.text, ",")
  }
  found = with_commas or columns
  name, *others = found
  problem = (
      f"{found[name].place}, column {name!r}: {found[name].text!r} is not a number{also(others)}"
  )
  if with_commas:
    return BadTable(problem, hints=(_COMMAS,), decimal=",")
  unclear = [name for name, column in columns.items() if _is_unclear(column.text, decimal)]
  levels = [
      name for name, column in columns.items()
      if name not in unclear and column.may_be_levels(num_rows)
  ]
  if not levels and len(columns) == num_columns:
    levels = list(columns)  # Something has to be left.
  hints = [_ONE_MARK] * bool(unclear) + [_LEVELS] * (len(unclear) < len(columns))
  return BadTable(
      problem, hints=(*hints, LEAVES_OUT), categories=tuple(levels),
      exclude=tuple(name for name in columns if name not in levels),
  )


def missing_values(place, names):
  """Returns the `BadTable` for cells that are missing in columns where none may be."""
  return BadTable(
      f"{place}, column {names[0]!r} is empty{also(names[1:])}", hints=(_FILLS_IN, LEAVES_OUT),
      missing="mean",
  )


def bad_values(place, names, value):
  """Returns the `BadTable` for numbers that are not finite or too large.

  Args:
    place: Words for the place of the first of them.
    names: The names of the columns, the one of the first place first.
    value: The first number.
  """
  rule = (
      f"is not between {-LARGEST:g} and {LARGEST:g}" if math.isfinite(value)
      else "is not a finite number"
  )
  return BadTable(
      f"{place}, column {names[0]!r}: {value:g} {rule}{also(names[1:])}", hints=(LEAVES_OUT,),
      exclude=tuple(names),
  )
