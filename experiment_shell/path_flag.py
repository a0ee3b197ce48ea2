"""Flags that are paths: a leading `~` is the user's home folder.

Shells replace it in `--output_dir ~/out`, but most don't in `--output_dir=~/out`.
"""

import os

from absl import flags

# The flags belong to the modules that call `define`, for `--help`.
flags.disclaim_key_flags()


class _PathParser(flags.ArgumentParser):

  def parse(self, argument):
    return os.path.expanduser(super().parse(argument))


def define(name, default, about, flag_values=flags.FLAGS):
  """Defines a flag that is the path of a file or folder.

  Args:
    name: The flag's name.
    default: Its default, a path or None.
    about: Its help text.
    flag_values: Where it is defined.
  """
  flags.DEFINE(_PathParser(), name, default, about, flag_values)
