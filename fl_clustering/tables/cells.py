"""Cells of tables as text: which are numbers, which are missing, and what is wrong with one."""

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
_NUMBER = re.compile(
    r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf(inity)?|nan)", re.ASCII | re.IGNORECASE
)


class BadTable(Exception):
  """What is wrong with a file, in words.

  Attributes:
    path: The file, or None where whoever reads it knows.
  """

  def __init__(self, problem, path=None):
    super().__init__(problem)
    self.path = path


def is_number(cell, decimal="."):
  """Returns whether a cell's text is a number, infinity and NaN included."""
  if decimal == ",":
    cell = cell.replace(",", ".") if "." not in cell else ""
  return _NUMBER.fullmatch(cell.strip()) is not None


def is_missing(cell):
  """Returns whether a cell's text says that there is no value."""
  return cell.strip() in MISSING


def quoted(names):
  """Returns names as a flag takes them in a shell."""
  return shlex.quote(",".join(names))


def no_numbers(texts, decimal="."):
  """Returns what is wrong with text in columns of numbers.

  Args:
    texts: A mapping from the columns' names to a text in each, the first one first.
    decimal: The decimal mark.
  """
  name, cell = next(iter(texts.items()))
  problem = f"column {name!r}: {cell!r} is not a number; "
  if decimal == "." and is_number(cell, ","):
    return problem + "--decimal=, reads numbers with decimal commas"
  names = quoted(texts)
  return problem + (
      f"--categories={names} makes a column of every level, --exclude={names} leaves "
      f"{'the column' if len(texts) == 1 else 'such columns'} out"
  )


def missing_values(names):
  """Returns what is wrong with cells that are missing in columns where none may be."""
  listed = quoted(names)
  return (
      f"column {names[0]!r} is empty; --missing=mean or --missing=indicator fills such cells in, "
      f"--exclude={listed} leaves {'the column' if len(names) == 1 else 'such columns'} out"
  )


def bad_value(name, value):
  """Returns what is wrong with a number that is not finite or too large."""
  rule = (
      f"is not between {-LARGEST:g} and {LARGEST:g}" if math.isfinite(value)
      else "is not a finite number"
  )
  return f"column {name!r}: {value:g} {rule}; --exclude={quoted([name])} leaves the column out"
