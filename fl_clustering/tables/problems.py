"""What is wrong with clients' files: all of it in one message, with flags that surely help.

No hint leaves out, or makes levels of, a column that holds mostly numbers and that most files have.
Flags are tried before a message ends with them: the files can be read with them, and keep these
columns.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import re
import shlex
from typing import (
    Any, Callable, Collection, Iterable, Iterator, Mapping, Protocol, Sequence, TypeVar,
)

from fl_clustering.tables import cells
from fl_clustering.tables import table_options

# A column of text with more different cells is taken for names, dates or notes.
_MOST_LEVELS = 20
_MOST_NAMES = 20
_MOST_SHOWN = 10
# Numbers in one unit, and those in another one, such as g and mg, may differ by this factor.
_APART = 100
# What flags do.
LEAVES_OUT = "--exclude leaves columns out"
_LEVELS = "--categories makes a column of every level"
# What hints at marks between thousands begin with.
_THOUSANDS = "--thousands="
# What only the files can change.
_OTHER_THOUSANDS = (
    "no --thousands reads all files, since they have different marks between thousands: write some "
    "of them like the others"
)
REMOVE_TITLES = "remove the lines above the table where not all files have as many"
_MOSTLY_NUMBERS = "where most cells of a column are numbers, the others must be so too or be empty"


@dataclasses.dataclass(frozen=True)
class TextColumn:
  """A column of numbers that holds text.

  `levels` are its different cells, or more than `_MOST_LEVELS` of them.
  """

  name: str
  levels: frozenset[str]
  num_rows: int

  @property
  def may_be_levels(self) -> bool:
    """Whether there are few different cells for so many rows."""
    return len(self.levels) <= min(_MOST_LEVELS, max(2, self.num_rows // 2))


@dataclasses.dataclass(frozen=True)
class Finding:
  """What is wrong with a file, in words.

  It is no exception, which would keep the tables that were being read.

  Attributes:
    path: The file, or None where whoever reads it knows.
    hints: What flags do that help, in words.
    fix: The arguments of `TableOptions.repaired` that make the file usable; none if only
      another file helps.
    texts: The columns that hold text instead of numbers, from which `ColumnFacts` makes hints.
    against: What hints begin with that don't help, or "".
  """

  problem: str
  path: str | None = None
  hints: tuple[str, ...] = ()
  fix: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  texts: tuple[TextColumn, ...] = ()
  against: str = ""

  def is_in(self, other: Finding) -> bool:
    """Returns whether another finding says all that this one says."""
    has_texts = bool(self.texts) and self.path == other.path
    return self == other or has_texts and set(self.texts) <= set(other.texts)

  @property
  def left_out(self) -> tuple[str, ...]:
    """The columns that the fix takes no numbers from."""
    return (*self.fix.get("exclude", ()), *self.fix.get("categories", ()))

  def with_hint(self, hint: str) -> Finding:
    """Returns the finding with a further hint."""
    return dataclasses.replace(self, hints=(*self.hints, hint))

  def without_hints(self, beginnings: tuple[str, ...]) -> Finding:
    """Returns the finding without hints that begin so."""
    hints = (hint for hint in self.hints if not hint.startswith(beginnings))
    return dataclasses.replace(self, hints=tuple(hints))

  def with_ids(self, name: str) -> Finding:
    """Returns the finding with a fix that compares the views' rows by a column it leaves out."""
    if name not in self.left_out:
      return self
    fix = {**self.fix, "id_column": name}
    unneeded = []
    for key, words in (("exclude", LEAVES_OUT), ("categories", _LEVELS)):
      fix[key] = tuple(other for other in self.fix.get(key, ()) if other != name)
      if not fix[key]:
        unneeded.append(words)
    hints = [
        hint for hint in self.hints
        if hint not in unneeded and not hint.startswith("--id_column")
    ]
    return dataclasses.replace(self, fix=fix, hints=(comparing(name), *hints))


class BadTable(Exception):
  """Files can't be used; `refusing` says so to whoever gave the folder.

  Attributes:
    findings: What is wrong with them.
    numbers: The columns that hold mostly numbers, as far as files were read.
  """

  def __init__(
      self, problem: str, path: str | None = None, hints: tuple[str, ...] = (), **fix: Any
  ):
    super().__init__(problem)
    self.findings: tuple[Finding, ...] = (Finding(problem, path, hints, fix),)
    self.numbers: frozenset[str] = frozenset()

  @classmethod
  def of(cls, findings: Sequence[Finding], numbers: Collection[str] = ()) -> BadTable:
    """Returns the exception of several findings."""
    error = cls("; ".join(finding.problem for finding in findings))
    error.findings, error.numbers = tuple(findings), frozenset(numbers)
    return error


def _problem(argument: str, found: Sequence[Finding]) -> str:
  texts, path = [], None
  for finding in found[:_MOST_SHOWN]:
    place = "" if finding.path == path else f"{finding.path!r}: "
    texts.append(place + finding.problem)
    path = finding.path
  if len(found) > _MOST_SHOWN:
    num_more = len(found) - _MOST_SHOWN
    texts.append(f"and {num_more} more problem{'s' if num_more > 1 else ''}")
  return f"`{argument}` must hold tables that can be used, got {'; '.join(texts)}"


class UnusableTables(ValueError):
  """Files can't be used.

  Attributes:
    findings: What is wrong with them.
    problem: The message without hints.
  """

  def __init__(self, argument: str, found: Sequence[Finding], flags: str = ""):
    self.findings = tuple(found)
    self.problem = _problem(argument, found)
    hints = ", ".join(dict.fromkeys(hint for finding in found for hint in finding.hints))
    message = f"{self.problem}; {hints}." if hints else f"{self.problem}."
    super().__init__(f"{message} Try: {flags}" if flags else message)


class Opened(Protocol):
  """What `open_tables` opens."""

  @property
  def number_columns(self) -> frozenset[str]:
    """The columns that are features as numbers."""


OpenedT = TypeVar("OpenedT", bound=Opened)


def quoted(names: Sequence[str]) -> str:
  """Returns names as a flag of a list takes them in a shell."""
  line = io.StringIO()
  csv.writer(line, lineterminator="").writerow(names)
  return shlex.quote(line.getvalue())


def listed(names: Sequence[str]) -> str:
  """Returns names in words, the first of them if there are many."""
  shown = ", ".join(names[:_MOST_NAMES])
  return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"


def named(names: Iterable[str]) -> str:
  """Returns names in quotes, the first of them if there are many."""
  return listed([repr(name) for name in names])


def first_of(texts: Sequence[str]) -> str:
  """Returns sentences in one, the first of them if there are many."""
  more = len(texts) - _MOST_SHOWN
  return "; ".join((*texts[:_MOST_SHOWN], *([f"and {more:,} more"] if more > 0 else [])))


def comparing(name: str) -> str:
  """Returns words for the flag that compares the rows of views by a column."""
  return f"--id_column={shlex.quote(name)} compares the rows of all views"


def also(names: Sequence[str]) -> str:
  """Returns words for further columns with the same problem."""
  return f" (also {named(names)})" if names else ""


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> str:
  """Returns words for how clients' digests differ by client; "" where one is not known."""
  if not before or not now:
    return ""
  others = sorted(before.keys() ^ now.keys())
  if others:
    return f"further or fewer clients: {listed(others)}"
  found = [client_id for client_id in sorted(before) if before[client_id] != now[client_id]]
  return f"other rows of {listed(found)}" if found else ""


@contextlib.contextmanager
def refusing(argument: str, flags: Collection[str] | None = None) -> Iterator[None]:
  """Turns a `BadTable` into a ValueError.

  Args:
    argument: What the message calls the folder of the files.
    flags: The flags that hints may be at, where a model has settled the others; None for all.
  """
  try:
    yield
  except BadTable as e:
    if flags is None:
      raise UnusableTables(argument, e.findings) from e
    helps = tuple(f"{start}--{name}" for name in flags for start in ("", "no "))
    hints = [hint for one in e.findings for hint in one.hints if hint.startswith(helps)]
    problem = _problem(argument, e.findings)
    raise ValueError("; ".join((problem, *dict.fromkeys(hints))) + ".") from e


@contextlib.contextmanager
def in_file(path: str) -> Iterator[None]:
  """Names the file in a `BadTable`."""
  try:
    yield
  except BadTable as e:
    e.findings = tuple(dataclasses.replace(one, path=one.path or path) for one in e.findings)
    raise


@contextlib.contextmanager
def gathered() -> Iterator[Callable[..., contextlib.AbstractContextManager[None]]]:
  """Yields a function to a context for each part of some work; raises what all of them found.

  The function may be given the path of the part's file.
  """
  found: list[Finding] = []
  numbers: set[str] = set()

  @contextlib.contextmanager
  def part(path: str | None = None) -> Iterator[None]:
    try:
      with in_file(path) if path else contextlib.nullcontext():
        yield
    except BadTable as e:
      found.extend(e.findings)
      numbers.update(e.numbers)

  yield part
  if found:
    raise BadTable.of(found, numbers)


@dataclasses.dataclass(frozen=True)
class _Unit:
  """The first file with a unit, and the least and the largest size of its numbers but zero."""

  path: str
  least: float
  largest: float

  def is_apart(self, other: _Unit) -> bool:
    """Returns whether one's numbers are so much smaller that they hardly have the same unit."""
    return self.largest > 0 < other.largest and any(
        _APART * one.least <= two.least and _APART * one.largest <= two.largest
        for one, two in ((self, other), (other, self))
    )


class ColumnFacts:
  """What the cells of the columns of numbers are like, over all files."""

  def __init__(self, takes_split: bool = False) -> None:
    """Begins with no cells.

    Args:
      takes_split: Whether one of the columns may say which rows are for testing.
    """
    self._takes_split = takes_split
    self._counts: dict[str, tuple[int, int]] = {}
    self._units: dict[str, dict[str, _Unit]] = {}

  def add(self, name: str, num_like: int, num_text: int) -> None:
    """Adds how many cells of a file's column are like numbers, and how many are other text."""
    like, text = self._counts.get(name, (0, 0))
    self._counts[name] = like + num_like, text + num_text

  def add_unit(self, name: str, unit: str, path: str, least: float, largest: float) -> None:
    """Adds the least and the largest size of a file's numbers with a unit, or with none, ""."""
    of_column = self._units.setdefault(name, {})
    known = of_column.get(unit, _Unit(path, least, largest))
    of_column[unit] = _Unit(known.path, min(known.least, least), max(known.largest, largest))

  def check_units(self) -> None:
    """Raises `BadTable` if a column whose units are left out has several of them."""
    found = []
    for name, units in self._units.items():
      named = [unit for unit in units if unit]
      # Units may be left out at some numbers, but a share is no percentage.
      if "" in units and named and (
          any(re.fullmatch(cells.SCALE, unit) for unit in named)
          or units[""].is_apart(units[named[0]])
      ):
        named = list(units)
      if len(named) > 1:
        first, other = named[:2]
        path, of_other = units[first].path, units[other].path
        where = "" if path == of_other else f" in {path!r}"
        found.append(Finding(
            f"column {name!r} has {_unit(other)}, and {_unit(first)}{where}; a column must have "
            "one unit", of_other, against="--strip_units",
        ))
    if found:
      raise BadTable.of(found)

  @property
  def mostly_numbers(self) -> frozenset[str]:
    """The columns most of whose cells are like numbers."""
    return frozenset(name for name, (like, text) in self._counts.items() if like > text)

  @contextlib.contextmanager
  def settled(self) -> Iterator[None]:
    """Gives a `BadTable` the hints that need a look at all files, which are read in here."""
    try:
      yield
    except BadTable as e:
      words: dict[str, set[str]] = {}
      for text in (text for one in e.findings for text in one.texts):
        words.setdefault(text.name, set()).update(map(str.lower, text.levels))
      splits = {name for name, found in words.items() if found == {*table_options.TRAIN_OR_TEST}}
      splits -= self.mostly_numbers
      e.findings = tuple(self._with_hints(one, splits) if one.texts else one for one in e.findings)
      e.numbers = self.mostly_numbers
      raise

  def _with_hints(self, finding: Finding, splits: Collection[str]) -> Finding:
    texts = [text for text in finding.texts if text.name not in self.mostly_numbers]
    hints = [_MOSTLY_NUMBERS] if len(texts) < len(finding.texts) else []
    fix: dict[str, Any] = {}
    if splits and self._takes_split:
      fix["split_column"] = name = min(splits)
      hints.append(f"--split_column={shlex.quote(name)} says which rows are for testing")
      texts = [text for text in texts if text.name != name]
    levels = [text.name for text in texts if text.may_be_levels and text.name not in splits]
    if not levels and len(texts) == len(self._counts):
      levels = [text.name for text in texts]  # Something has to be left.
    if texts:
      hints = [_LEVELS, LEAVES_OUT, *hints]
      fix["categories"] = tuple(levels)
      fix["exclude"] = tuple(text.name for text in texts if text.name not in levels)
    return dataclasses.replace(finding, hints=(*finding.hints, *hints), fix=fix)


def _unit(unit: str) -> str:
  return f"the unit {unit!r}" if unit else "no unit"


def flags(
    options: table_options.TableOptions, repaired: table_options.TableOptions
) -> str:
  """Returns the flags that turn options into the repaired ones."""
  found = []
  for field in dataclasses.fields(options):
    value = getattr(repaired, field.name)
    if value == getattr(options, field.name):
      continue
    if value is True:
      found.append(f"--{field.name}")
    else:
      text = quoted(value) if isinstance(value, tuple) else shlex.quote(str(value))
      found.append(f"--{field.name}={text}")
  return " ".join(found)


def _marks(found: Iterable[Finding]) -> set[str]:
  """Returns the marks between thousands that hints name."""
  hints = [hint for one in found for hint in one.hints]
  return {
      mark for mark in cells.THOUSANDS
      if any(hint.startswith(f"{_THOUSANDS}{cells.shown(mark)} ") for hint in hints)
  }


def _with_one_mark(found: Sequence[Finding], others: Sequence[Finding] = ()) -> list[Finding]:
  """Returns findings without hints at marks between thousands if these, or others, need several."""
  if len(_marks((*found, *others))) < 2:
    return list(found)
  found = [one.without_hints((_THOUSANDS,)) for one in found]
  return [*found[:-1], found[-1].with_hint(_OTHER_THOUSANDS)]


def check_mark(error: BadTable, open_with: Callable[[str], object]) -> None:
  """Looks whether files can be read with the mark between thousands that an exception hints at.

  Args:
    error: Is changed to say so if there is no such mark.
    open_with: Raises `BadTable` if the files can't be read with a mark.
  """
  others: tuple[Finding, ...] = ()
  for mark in sorted(_marks(error.findings))[:1]:
    try:
      open_with(mark)
    except BadTable as e:
      others = e.findings
  error.findings = tuple(_with_one_mark(error.findings, others))


def open_tables(
    open_with: Callable[[table_options.TableOptions], OpenedT],
    options: table_options.TableOptions,
    argument: str,
    hints: tuple[str, ...] = (),
) -> OpenedT:
  """Returns `open_with(options)`, or raises `UnusableTables` with all that is wrong.

  What is wrong may hide more: text, for instance, that a cell is missing further down.  So after
  a problem the tables are opened with the flags that help, until nothing is wrong that flags
  help with.  A message ends with all these flags if the tables could be opened with them, and
  every column of numbers is still one.

  Args:
    open_with: Raises `BadTable`.
    argument: What messages call the folder of the files.
    hints: What flags do that may help with any problem of these files, in words.
  """
  found: list[Finding] = []
  numbers: set[str] = set()
  repaired, opened = options, None
  tried = set()
  while repaired not in tried:
    tried.add(repaired)
    try:
      opened = open_with(repaired)
      if not found:
        return opened
    except BadTable as e:
      numbers |= e.numbers
      for finding in e.findings:
        if finding in found:  # Its fix was tried, and taken back.
          continue
        after = repaired.repaired(**finding.fix)
        if after != repaired or not finding.fix and not any(map(finding.is_in, found)):
          found.append(finding)
        repaired = after
  helps = opened is not None and numbers <= opened.number_columns
  against = [one.against for one in found if one.against]
  if helps:
    against.append(REMOVE_TITLES)
  else:
    found = _with_one_mark(found)
  found = [one.without_hints(tuple(against)) for one in found]
  for i, one in enumerate(found):
    taken_back = (name for name in ("comment", "skip_lines") if name in one.fix)
    if any(one.fix[name] != getattr(repaired, name) for name in taken_back):
      found[i] = one.without_hints(("--",))
    if helps and not one.hints and "exclude" in one.fix:
      found[i] = dataclasses.replace(one, hints=(LEAVES_OUT,))
  for hint in hints:
    found[-1] = found[-1].with_hint(hint)
  raise UnusableTables(argument, found, flags(options, repaired) if helps else "")
