"""Numbers as people write them: decimal marks, marks between thousands, units, comparisons.

A file has one decimal mark, which is found from all of its numbers.  Where "1.911" may be a number
below two or one of thousands, nothing is guessed: it is a fault that names both.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc

from fl_clustering.tables import cells

_DECIMALS = {".": "a decimal point", ",": "a decimal comma"}
# A column with more different units holds codes such as 12A.
_MOST_UNITS = 3
# More levels than this need not be known.
_MOST_LEVELS = 20
BESIDE = "{beside}"


def _surely_grouped(mark: str) -> str:
  """Returns the pattern of what has this mark between thousands, whatever the decimal mark."""
  thousand = f"{re.escape(mark)}[0-9]{{3}}"
  decimals = f"{re.escape(cells.OTHER_DECIMAL[mark])}[0-9]*"
  return rf"[+-]?[0-9]{{1,3}}(?:(?:{thousand}){{2,}}(?:{decimals})?|{thousand}{decimals})"


def _may_be_grouped(mark: str) -> str:
  return rf"[+-]?[1-9][0-9]{{0,2}}{re.escape(mark)}[0-9]{{3}}"


def _surely_decimal(mark: str) -> str:
  """Returns the pattern of what has this decimal mark, and no other reading."""
  mark = re.escape(mark)
  return (
      rf"[+-]?(?:0+{mark}[0-9]*|[0-9]+{mark}(?:[0-9]{{0,2}}|[0-9]{{4,}})|[0-9]{{4,}}{mark}[0-9]*|"
      rf"{mark}[0-9]+|[0-9]+{mark}[0-9]*[eE][+-]?[0-9]+)"
  )


# What is the same number, whatever the decimal mark of the file.
SURE = rf"[+-]?[0-9]+(?:[eE][+-]?[0-9]+)?|{_surely_decimal('.')}"
# What is like a number, whatever the decimal mark.
LIKE_A_NUMBER = "|".join((
    *map(cells.plain, cells.OTHER_DECIMAL),
    *(
        cells.grouped(mark, decimal) for mark in cells.THOUSANDS for decimal in cells.OTHER_DECIMAL
        if mark != decimal
    ),
))


@dataclasses.dataclass(frozen=True)
class Cell:
  """A cell of text; rows are counted from 0."""

  column: str
  row: int
  text: str


@dataclasses.dataclass(frozen=True)
class Fault:
  """Why a cell is no number.

  Attributes:
    cell: The first such cell of its column.
    reason: What is wrong, in words that may follow the cell; `BESIDE` stands for another cell.
    hint: What a flag does that helps, in words, or None.
    fix: The arguments of `TableOptions.repaired` that make it a number.
    levels: The column's different cells, or more than `_MOST_LEVELS` of them, if the cell is
      text; else None.
  """

  cell: Cell
  reason: str
  beside: Cell | None = None
  hint: str | None = None
  fix: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  levels: frozenset[str] | None = None


@dataclasses.dataclass(frozen=True)
class Reading:
  """What was found in a file's columns of numbers.

  Attributes:
    style: The `cells.Style`, with the decimal mark that was found.
    numbers: The columns by name, float64, NaN where missing; all of them if there is no fault.
    counts: By column, how many cells are like numbers, and how many are other text.
    units: By column, the units beside numbers, "" for none, and which cells have them; of columns
      of numbers whose units are left out.
    bad: Which cells are no numbers, by column where some are: bool of shape (n,).
  """

  style: cells.Style
  numbers: Mapping[str, np.ndarray]
  counts: Mapping[str, tuple[int, int]]
  units: Mapping[str, Mapping[str, np.ndarray]]
  faults: tuple[Fault, ...]
  bad: Mapping[str, np.ndarray]


def _as_array(column: Any) -> np.ndarray:
  return column.to_numpy(zero_copy_only=False)


def _matches(texts: Any, pattern: str) -> np.ndarray:
  """Returns which texts are as a pattern says, bool of shape (n,)."""
  found = pc.match_substring_regex(texts, f"^(?:{pattern})$")
  return _as_array(pc.fill_null(found, False))


class _Column:
  """A column of text, and what it is like.

  Attributes:
    texts: Its cells, trimmed, null where missing: an Arrow array.
    cores: The same without units and comparisons.
    is_text: Which cells are neither missing nor like a number.
    is_dressed: Which cells have a unit or a comparison.
  """

  def __init__(self, name: str, texts: Any):
    self.name = name
    for odd, common in cells.ODD_CHARACTERS.items():
      texts = pc.replace_substring(texts, odd, common)
    self.texts = texts
    pattern = f"^(?:{cells.DRESSED})$"
    cores = pc.replace_substring_regex(texts, pattern=pattern, replacement=r"\1\3")
    self.cores = pc.if_else(pa.array(_matches(texts, cells.NO_NUMBER)), texts, cores)
    differs = _as_array(pc.fill_null(pc.not_equal(self.cores, texts), False))
    self.is_dressed = differs & _matches(self.cores, LIKE_A_NUMBER)
    dressed = texts.filter(pa.array(self.is_dressed))
    self._units = pc.replace_substring_regex(dressed, pattern=pattern, replacement=r"\2\4")
    self.units = frozenset(map(cells.unit, pc.unique(self._units).to_pylist()))
    is_like = _matches(texts, LIKE_A_NUMBER)
    if len(self.units - {""}) <= _MOST_UNITS:
      is_like |= self.is_dressed
    self.is_text = _as_array(pc.is_valid(texts)) & ~is_like
    num_amounts = int(np.sum(self.is_text & _matches(texts, cells.AMOUNT)))
    self.counts = int(is_like.sum()) + num_amounts, int(self.is_text.sum()) - num_amounts

  @property
  def is_mostly_numbers(self) -> bool:
    like, text = self.counts
    return like > text

  def by_unit(self) -> dict[str, np.ndarray]:
    """Returns which of the numbers have each unit, "" for none, bool of shape (n,).

    Limits, such as <0.5, are left out, as they may be far from what is measured.
    """
    units = np.full(len(self.texts), "", object)
    written = self._units.to_pylist()
    one = {text: cells.unit(text) for text in set(written)}
    units[self.is_dressed] = [one[text] for text in written]
    is_number = _as_array(pc.is_valid(self.texts)) & ~self.is_text
    is_measured = is_number & ~_matches(self.texts, "[<>≤≥~].*")
    return {unit: is_measured & (units == unit) for unit in sorted(set(units[is_number]))}

  def first(self, chosen: np.ndarray) -> Cell:
    """Returns the first of some cells."""
    row = int(np.argmax(chosen))
    return Cell(self.name, row, self.texts[row].as_py())

  def levels(self) -> frozenset[str]:
    """Returns the different cells, or more than `_MOST_LEVELS` of them."""
    return frozenset(pc.unique(self.texts.drop_null())[: _MOST_LEVELS + 1].to_pylist())


def _without_spaces(texts: Any) -> Any:
  """Returns texts without what, between thousands, can't be a decimal mark."""
  is_grouped = pa.array(_matches(texts, "[+-]?[0-9]{1,3}(?:[ '][0-9]{3})+(?:[.,][0-9]*)?"))
  return pc.if_else(is_grouped, pc.replace_substring_regex(texts, "[ ']", ""), texts)


def _first_match(columns: Iterable[_Column], pattern: str) -> Cell | None:
  """Returns the first cell of columns, by row, that is as a pattern says; None without."""
  found = []
  for column in columns:
    chosen = _matches(_without_spaces(column.cores), pattern)
    if chosen.any():
      found.append(column.first(chosen))
  return min(found, key=lambda cell: cell.row, default=None)


@dataclasses.dataclass(frozen=True)
class _Marks:
  """What the numbers of a file say of its decimal mark.

  Attributes:
    proof: A cell that can't be read with another one; None if there is none.
    shown: The mark that a cell surely has between thousands, or None.
    fault: Why it can't be known, or None.
    opposed: Whether a cell can only be read with another mark than the one that was given.
  """

  decimal: str
  proof: Cell | None = None
  shown: str | None = None
  fault: Fault | None = None
  opposed: bool = False


def _find_marks(columns: Sequence[_Column], likely: str | None) -> _Marks:
  """Returns the `_Marks` of columns of numbers; with the `likely` one if they leave it open."""
  grouped = {mark: _first_match(columns, _surely_grouped(mark)) for mark in cells.OTHER_DECIMAL}
  proofs = {
      mark: _first_match(columns, _surely_decimal(mark)) or grouped[other]
      for mark, other in cells.OTHER_DECIMAL.items()
  }
  point, comma = proofs["."], proofs[","]
  if point is not None and comma is not None:
    reason = f"has {_DECIMALS['.']}, and {BESIDE} {_DECIMALS[',']}"
    return _Marks(".", fault=Fault(point, reason, comma, "a file must have one decimal mark"))
  for mark, proof in proofs.items():
    if proof is not None:
      other = cells.OTHER_DECIMAL[mark]
      return _Marks(mark, proof, other if grouped[other] else None)
  unclear = _first_match(columns, _may_be_grouped(","))
  if unclear is None or likely is not None:
    return _Marks(likely or ".")
  return _Marks(".", fault=Fault(
      unclear, "may be {} or {}".format(*_readings(unclear, ",")),
      hint="--decimal=, or --thousands=, says which, or --thousands=. where other files have "
      "decimal points",
  ))


def _readings(cell: Cell, mark: str) -> tuple[str, str]:
  """Returns a cell with a mark as its decimal mark, and without it."""
  return cell.text.replace(mark, "."), cell.text.replace(mark, "")


def _dressed_fault(column: _Column, chosen: np.ndarray) -> Fault:
  """Returns the `Fault` of cells with a unit or a comparison."""
  units = sorted(column.units - {""})
  first = column.first(chosen)
  has = "a percent sign" if "%" in units else "a unit"
  if first.text[0] in "<>≤≥~":
    has = "a comparison"
  if len(units) > 1:
    return Fault(first, f"has one of the units {', '.join(units)}, and a column must have one")
  return Fault(
      first, f"is not a number: it has {has}",
      hint="--strip_units reads the number alone where a unit, a percent sign or a comparison "
      "stands beside it", fix={"strip_units": True},
  )


def _thousands_fault(cell: Cell, mark: str) -> Fault:
  return Fault(
      cell, f"is not a number: it has {cells.THOUSANDS[mark]} between thousands",
      hint=f"--thousands={cells.shown(mark)} reads such numbers", fix={"thousands": mark},
  )


def _other_mark_fault(column: _Column, chosen: np.ndarray, marks: _Marks) -> Fault:
  """Returns the `Fault` of numbers with the decimal mark that the file has not."""
  other = cells.OTHER_DECIMAL[marks.decimal]
  if marks.proof is None:
    is_sure = chosen & _matches(column.texts, _surely_decimal(other))
    cell = column.first(is_sure if is_sure.any() else chosen)
    return Fault(
        cell, f"is not a number: it has {_DECIMALS[other]}",
        hint="without --decimal, each file's decimal mark is found out, and --thousands="
        f"{other} says what it is where a file leaves that open",
    )
  cell = column.first(chosen)
  small, large = _readings(cell, other)
  return Fault(
      cell, f"may be {small} or {large}, as {BESIDE} has {_DECIMALS[marks.decimal]}", marks.proof,
      f"--thousands={other} reads it as {large}",
  )


def _faults(
    column: _Column, bases: Any, is_bad: np.ndarray, style: cells.Style, marks: _Marks
) -> list[Fault]:
  """Returns the `Fault`s of a column.

  Args:
    bases: Its cells as they are read, an Arrow array.
    is_bad: Which of them are no numbers.
  """
  if not column.is_mostly_numbers:
    return [Fault(column.first(column.is_text), "is not a number", levels=column.levels())]
  found, other = [], cells.OTHER_DECIMAL[marks.decimal]
  is_dressed = is_bad & column.is_dressed & ~column.is_text
  if not style.strips_units and is_dressed.any():
    found.append(_dressed_fault(column, is_dressed))
    is_bad = is_bad & ~is_dressed
  for mark in cells.THOUSANDS:
    if mark == marks.decimal:
      continue
    is_grouped = is_bad & _matches(bases, cells.grouped(mark, marks.decimal))
    # Where nothing else shows that it stands between thousands, another reading is possible.
    is_shown = marks.proof is None or marks.shown == mark
    if mark == other and (marks.opposed or not is_shown):
      is_grouped = is_grouped & _matches(bases, _surely_grouped(mark))
    if is_grouped.any():
      found.append(_thousands_fault(column.first(is_grouped), mark))
      is_bad = is_bad & ~is_grouped
  is_other = is_bad & _matches(bases, cells.plain(other))
  if is_other.any():
    found.append(_other_mark_fault(column, is_other, marks))
    is_bad = is_bad & ~is_other
  if is_bad.any():
    found.append(Fault(column.first(is_bad), "is not a number", levels=column.levels()))
  return found


def _unclear(column: _Column, bases: Any, marks: _Marks) -> Fault | None:
  """Returns the `Fault` of a column whose marks may all stand between thousands, or None."""
  may_be_grouped = _matches(bases, _may_be_grouped(marks.decimal))
  if not may_be_grouped.any() or _matches(bases, _surely_decimal(marks.decimal)).any():
    return None
  cell = column.first(may_be_grouped)
  small, large = _readings(cell, marks.decimal)
  why = "" if marks.proof is None else f", as {BESIDE} has {_DECIMALS[marks.decimal]}"
  return Fault(
      cell, f"may be {small} or {large}{why}", marks.proof,
      "all files must have one decimal mark, with --thousands",
  )


def read(columns: Mapping[str, Any], style: cells.Style) -> Reading:
  """Returns what columns of text, as of `_Column`, hold as numbers."""
  known = [_Column(name, texts) for name, texts in columns.items()]
  of_numbers = [column for column in known if column.is_mostly_numbers]
  if style.decimal is None:
    likely = style.decimals[0] if style.thousands in cells.OTHER_DECIMAL else style.likely
    marks = _find_marks(of_numbers, likely)
  else:
    other = _surely_decimal(cells.OTHER_DECIMAL[style.decimal])
    marks = _Marks(style.decimal, opposed=_first_match(of_numbers, other) is not None)
  # What is the decimal mark of a file does not stand between its thousands.
  given = style.thousands
  thousands = given if given != marks.decimal else None
  style = dataclasses.replace(style, decimal=marks.decimal, thousands=thousands)
  numbers, bad, faults = {}, {}, [marks.fault] if marks.fault else []
  for column in known:
    bases = column.texts
    if style.strips_units and column.is_mostly_numbers:
      bases = column.cores
    if style.thousands is not None:
      is_grouped = pa.array(_matches(bases, cells.grouped(style.thousands, marks.decimal)))
      bases = pc.if_else(is_grouped, pc.replace_substring(bases, style.thousands, ""), bases)
    if style.thousands != given and column.is_mostly_numbers:
      unclear = _unclear(column, bases, marks)
      if unclear is not None:
        faults.append(unclear)
    is_bad = ~_matches(bases, cells.plain(marks.decimal)) & _as_array(pc.is_valid(bases))
    if not is_bad.any():
      points = pc.replace_substring(bases, marks.decimal, ".")
      numbers[column.name] = np.asarray(_as_array(points.cast(pa.float64())), np.float64)
    elif marks.fault is None or not column.is_mostly_numbers:
      bad[column.name] = is_bad
      faults += _faults(column, bases, is_bad, style, marks)
  return Reading(
      style, numbers, {column.name: column.counts for column in known},
      {c.name: c.by_unit() for c in known if style.strips_units and c.name in numbers},
      tuple(faults), bad,
  )


def unclear_point(columns: Mapping[str, Any]) -> tuple[Cell | None, bool]:
  """Returns the first cell whose point may stand between thousands, if nothing says; or None.

  Also returns whether whole numbers stand beside such cells.
  """
  known = [_Column(name, texts) for name, texts in columns.items()]
  if _first_match(known, _surely_decimal(".")) or _first_match(known, _surely_grouped(",")):
    return None, False
  unclear = [column for column in known if _first_match([column], _may_be_grouped("."))]
  return _first_match(unclear, _may_be_grouped(".")), bool(_first_match(unclear, "[+-]?[0-9]+"))


def proves_comma(columns: Mapping[str, Any]) -> bool:
  """Returns whether a cell of columns of text can be read with a decimal comma only."""
  return any(_matches(texts, _surely_decimal(",")).any() for texts in columns.values())
