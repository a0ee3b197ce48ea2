"""Cells of tables as text: which are numbers, which are missing, and what is wrong with one."""

import csv
import io
import math
import re
import shlex

from fl_clustering.points import client_points

# Larger numbers can't be squared.
LARGEST = client_points.LARGEST
# A missing cell has one of these texts.
MISSING = (
    "", "?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "Null", "None",
    "none", "<NA>", "-nan", "-NaN",
)
# By decimal mark.
_WITH_THOUSANDS = {
    ".": re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?", re.ASCII),
    ",": re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?", re.ASCII),
}
_NUMBER = re.compile(
    r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf(inity)?|nan)", re.ASCII | re.IGNORECASE
)


class BadTable(Exception):
  """What is wrong with a file, in words.

  Attributes:
    path: The file, or None where whoever reads it knows.
    hint: Which flag helps, in words; None if there is none.
  """

  def __init__(self, problem, path=None, hint=None):
    super().__init__(problem)
    self.path = path
    self.hint = hint


def is_number(cell, decimal="."):
  """Returns whether a cell's text is a number, infinity and NaN included."""
  if decimal == ",":
    cell = cell.replace(",", ".") if "." not in cell else ""
  return _NUMBER.fullmatch(cell.strip()) is not None


def is_missing(cell):
  """Returns whether a cell's text says that there is no value."""
  return cell.strip() in MISSING


def quoted(names):
  """Returns names as a flag of a list takes them in a shell."""
  line = io.StringIO()
  csv.writer(line, lineterminator="").writerow(names)
  return shlex.quote(line.getvalue())


def leaving_out(names):
  """Returns words for the flag that leaves columns out."""
  columns = "the column" if len(names) == 1 else "such columns"
  return f"--exclude={quoted(names)} leaves {columns} out"


def no_numbers(place, texts, decimal="."):
  """Returns the `BadTable` for text in columns of numbers.

  Args:
    place: Words for the place of the first text.
    texts: A mapping from the columns' names to a text in each, the first one first.
    decimal: The decimal mark.
  """
  name, cell = next(iter(texts.items()))
  if decimal == "." and is_number(cell, ","):
    hint = "--decimal=, reads numbers with decimal commas, but none may stand between thousands"
  elif is_number(cell) or _WITH_THOUSANDS[decimal].fullmatch(cell.strip()):
    hint = (
        "all files must have the same decimal mark and none between thousands, "
        + leaving_out([name])
    )
  else:
    hint = f"--categories={quoted(texts)} makes a column of every level, {leaving_out(texts)}"
  return BadTable(f"{place}, column {name!r}: {cell!r} is not a number", hint=hint)


def missing_values(place, names):
  """Returns the `BadTable` for cells that are missing in columns where none may be."""
  return BadTable(
      f"{place}, column {names[0]!r} is empty",
      hint="--missing=mean or --missing=indicator fills such cells in, " + leaving_out(names),
  )


def bad_value(place, name, value):
  """Returns the `BadTable` for a number that is not finite or too large."""
  rule = (
      f"is not between {-LARGEST:g} and {LARGEST:g}" if math.isfinite(value)
      else "is not a finite number"
  )
  return BadTable(f"{place}, column {name!r}: {value:g} {rule}", hint=leaving_out([name]))
