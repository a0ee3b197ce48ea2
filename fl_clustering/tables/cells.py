"""Cells of tables as text: which are numbers, and which are missing."""

import math
import re

from fl_clustering.points import given_clients

# Larger numbers can't be squared.
LARGEST = given_clients.LARGEST
# A missing cell has one of these texts.
MISSING = (
    "", "?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "Null", "None",
    "none", "<NA>", "-nan", "-NaN",
)
_NUMBER = re.compile(
    r"[+-]?((\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|inf(inity)?|nan)", re.ASCII | re.IGNORECASE
)


def is_number(cell: str, decimal: str = ".") -> bool:
  """Returns whether a cell's text is a number, infinity and NaN included."""
  if decimal == ",":
    cell = cell.replace(",", ".") if "." not in cell else ""
  return _NUMBER.fullmatch(cell.strip()) is not None


def number_of(cell: str, decimal: str) -> float:
  """Returns a cell's text as a float; what is no number is NaN."""
  if is_missing(cell) or not is_number(cell, decimal):
    return math.nan
  return float(cell.replace(",", ".") if decimal == "," else cell)


def is_missing(cell: str) -> bool:
  """Returns whether a cell's text says that there is no value."""
  return cell.strip() in MISSING
