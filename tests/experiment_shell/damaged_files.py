"""Damages the files of an interrupted run, as a machine that loses its power may leave them."""

import fnmatch
import os
import shutil

_DAMAGES = {
    "empty": lambda content: b"",
    "halved": lambda content: content[: len(content) // 2],
    "with_zeros": lambda content: (
        content[: (third := len(content) // 3)] + bytes(third) + content[2 * third :]
    ),
}


def parameters(files):
  """Returns parameters of a test: each pattern of files, and each way to damage them.

  Args:
    files: From patterns of files to what a resumed run does where all of them are damaged.
  """
  return [
      (f"{damage}_{number}", pattern, damage, expected)
      for number, (pattern, expected) in enumerate(files.items()) for damage in _DAMAGES
  ]


def _names(folder):
  return [
      os.path.relpath(os.path.join(directory, name), folder)
      for directory, _, names in os.walk(folder) for name in names
  ]


def without_pattern(folder, files):
  """Returns the files of a run of which no pattern tells, or several do."""
  return [
      name for name in _names(folder)
      if sum(fnmatch.fnmatch(name, pattern) for pattern in files) != 1
  ]


def damaged_copy(folder, copy, pattern, damage):
  """Copies a run to a folder that isn't there, and damages the files of a pattern."""
  shutil.copytree(folder, copy)
  names = fnmatch.filter(_names(copy), pattern)
  if not names:
    raise ValueError(f"`pattern` must be of a file of the run, got {pattern!r}.")
  for name in names:
    path = os.path.join(copy, name)
    with open(path, "rb") as file:
      content = file.read()
    with open(path, "wb") as file:
      file.write(_DAMAGES[damage](content))
