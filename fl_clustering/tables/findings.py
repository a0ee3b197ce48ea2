"""What is wrong with clients' files: all of it in one message, with the flags that help."""

import contextlib
import dataclasses
from typing import Any, Mapping

from fl_clustering.tables import cells

_MOST_SHOWN = 10


@dataclasses.dataclass(frozen=True)
class Finding:
  """What is wrong with a file, as `BadTable` says it.

  It is no exception, which would keep the tables that were being read.
  """

  path: str
  problem: str
  hints: tuple[str, ...] = ()
  fix: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def _problem(argument, found):
  texts, path = [], None
  for finding in found[:_MOST_SHOWN]:
    place = "" if finding.path == path else f"{finding.path!r}: "
    texts.append(place + finding.problem)
    path = finding.path
  if len(found) > _MOST_SHOWN:
    texts.append(f"and {len(found) - _MOST_SHOWN} more problems")
  return f"`{argument}` must hold tables that can be used, got {'; '.join(texts)}"


class UnusableTables(ValueError):
  """Files can't be used.

  Attributes:
    findings: The `Finding`s.
    problem: The message without hints.
  """

  def __init__(self, argument, found, flags=""):
    self.findings = found
    self.problem = _problem(argument, found)
    hints = ", ".join(dict.fromkeys(hint for finding in found for hint in finding.hints))
    message = f"{self.problem}; {hints}." if hints else f"{self.problem}."
    super().__init__(f"{message} Try: {flags}" if flags else message)


@contextlib.contextmanager
def without_hints():
  """Leaves hints at flags out of messages, where a model has settled how tables are read."""
  try:
    yield
  except UnusableTables as e:
    raise ValueError(f"{e.problem}.") from e


@contextlib.contextmanager
def gathered(argument):
  """Yields a function to a context for each part of some work; raises what all of them found.

  Args:
    argument: What messages call the folder of the files.
  """
  found = []

  @contextlib.contextmanager
  def part():
    try:
      yield
    except UnusableTables as e:
      found.extend(e.findings)

  yield part
  if found:
    raise UnusableTables(argument, found)


def _flags(options, repaired):
  """Returns the flags that turn options into the repaired ones."""
  flags = []
  for field in dataclasses.fields(options):
    value = getattr(repaired, field.name)
    if value != getattr(options, field.name):
      text = cells.quoted(value) if isinstance(value, tuple) else value
      flags.append(f"--{field.name}={text}")
  return " ".join(flags)


def open_tables(open_with, options, argument, hints=()):
  """Returns `open_with(options)`, or says all that is wrong at once.

  What is wrong may hide more: text, for instance, that a cell is missing further down.  So after
  a problem the tables are opened with the flags that help, until nothing is wrong that flags
  help with.  A message ends with all these flags.  Every round changes the options, and none
  takes a change back.

  Args:
    open_with: A function from `TableOptions` to what it opens.
    options: `TableOptions`.
    argument: What messages call the folder of the files.
    hints: What flags do that may help with any problem of these files, in words.

  Raises:
    UnusableTables: If `open_with` raises it.
  """
  found, repaired = [], options
  while True:
    before = repaired
    try:
      opened = open_with(repaired)
      if not found:
        return opened
    except UnusableTables as e:
      for finding in e.findings:
        after = repaired.repaired(**finding.fix)
        if after != repaired or not finding.fix and finding not in found:
          found.append(finding)
        repaired = after
    if repaired == before:
      found[-1] = dataclasses.replace(found[-1], hints=(*found[-1].hints, *hints))
      raise UnusableTables(argument, found, _flags(options, repaired))
