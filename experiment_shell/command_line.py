"""The flags of a command line and of the flag files that it names.

A flag is given once on the command line, and once in a flag file: which of two lists is meant, or
whether both are, nobody can know.  The command line takes precedence over flag files wherever it
names them, a flag file over those that it names itself, and a later one over an earlier one.
"""

import itertools
import os
from typing import Sequence

from absl import flags

from clustering_basics import validate

_FILE = "flagfile"


def _lines(path: str) -> list[str]:
  """Returns what a flag file gives: its lines but for comments and empty ones."""
  try:
    with open(path, encoding="utf-8-sig") as file:
      lines = [line.strip() for line in file]
  except (OSError, UnicodeDecodeError) as e:
    raise validate.error(_FILE, f"be a text file in UTF-8 that can be read ({e})", path) from e
  return [line for line in lines if line and not line.startswith(("#", "//"))]


def _meant(name: str) -> flags.Flag | None:
  """Returns the flag that an argument gives a value to, None if there is none."""
  known = flags.FLAGS
  if name in known:
    return known[name]
  name = name.removeprefix("no")
  return known[name] if name in known and known[name].boolean else None


def arguments(
    given: Sequence[str], place: str = "on the command line", inside: tuple[str, ...] = ()
) -> list[str]:
  """Returns arguments without flag files, whose flags stand before the others.

  Args:
    place: Where the arguments are from, for messages.
    inside: Paths of the flag files that they are from, one named by the other.

  Raises:
    ValueError: If a flag is given twice in one place, or a flag file can't be used.
  """
  of_files: list[str] = []
  own: list[str] = []
  found: dict[str, str] = {}
  rest = iter(given)
  for argument in rest:
    if not argument.startswith("-") or argument == "--":
      own += [argument, *rest]
      break
    name, equals, value = argument.removeprefix("-").removeprefix("-").partition("=")
    flag = _meant(name)
    takes_next = not equals and (name == _FILE or flag is not None and not flag.boolean)
    parts = [argument, *(itertools.islice(rest, 1) if takes_next else ())]
    if name == _FILE:
      path = os.path.expanduser(value or parts[-1])
      if path in inside:
        raise validate.error(_FILE, "not name itself", path)
      of_files += arguments(_lines(path), f"in {path}", (*inside, path))
      continue
    own += parts
    if flag is None or isinstance(flag, flags.MultiFlag):
      continue
    text = " ".join(parts)
    if flag.name in found:
      hint = ", with commas between its values" if isinstance(flag.parser, flags.ListParser) else ""
      raise validate.error(flag.name, f"be given once {place}{hint}", [found[flag.name], text])
    found[flag.name] = text
  return [*of_files, *own]
