"""The flags of a command line and of the flag files that it names.

A flag is given once on the command line, and once in a flag file: which of two lists is meant, or
whether both are, nobody can know.  The command line takes precedence over flag files wherever it
names them, a flag file over those that it names itself, and a later one over an earlier one.
"""

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


def parse(given: Sequence[str], inside: tuple[str, ...] = ()) -> list[str]:
  """Sets the flags that arguments name; returns the arguments that are no flags.

  Args:
    inside: Paths of the flag files that the arguments are from, one named by the other.

  Raises:
    ValueError: If a flag is given twice in one place, has no such value or is not there, or a flag
      file can't be used.
  """
  known, own, rest = flags.FLAGS, [""], iter(given)  # absl skips the first argument, the program.
  others: list[str] = []
  for argument in rest:
    name, equals, value = argument.lstrip("-").partition("=")
    if name != _FILE or not argument.startswith("-"):
      own.append(argument)
      continue
    path = os.path.expanduser(value if equals else next(rest, ""))
    if path in inside:
      raise validate.error(_FILE, "not name itself", path)
    others += parse(_lines(path), (*inside, path))
  for name in known:
    # absl then refuses a flag's second value, of those that it is given from here on.
    known[name].present, known[name].allow_overwrite = 0, False
  try:
    return [*others, *known(own)[1:]]
  except flags.Error as e:
    raise ValueError(f"{e} (in {inside[-1]})" if inside else f"{e}") from e
