"""Flags that are paths: a leading `~` is the user's home folder.

Shells replace it in `--output_dir ~/out`, but most don't in `--output_dir=~/out`.

Reports name paths, so they must be in UTF-8.
"""

import os

from absl import flags

from clustering_basics import atomic_file
from clustering_basics import validate

# The flags belong to the modules that call `define`, for `--helpfull`.
flags.disclaim_key_flags()


class _PathParser(flags.ArgumentParser):

  def parse(self, argument: str) -> str:
    path = os.path.expanduser(super().parse(argument))
    validate.utf_8(path=os.path.abspath(path))
    return path


class _OutputParser(_PathParser):

  def parse(self, argument: str) -> str:
    path = super().parse(argument)
    try:
      folder = os.path.dirname(atomic_file.target(path))
    except OSError as e:
      raise ValueError(f"must be a file that can be written ({e.strerror})") from e
    if path == "-" or not os.path.basename(path) or not os.path.isdir(folder):
      raise ValueError("must be a file in a folder that exists")
    return path


def define(name: str, default: str | None, about: str) -> None:
  """Defines a flag that is the path of a file or folder."""
  flags.DEFINE(_PathParser(), name, default, about)


def define_output(name: str, about: str) -> None:
  """Defines a flag without a default that is the path of a file to write."""
  flags.DEFINE(_OutputParser(), name, None, about)
