"""Flags that have another name now: the message says which."""

from absl import flags

# The flags belong to the modules that call `define`, for `--help`.
flags.disclaim_key_flags()


class _RenamedParser(flags.ArgumentParser):

  def __init__(self, name, successor):
    super().__init__()
    self._name = name
    self._successor = successor

  def parse(self, argument):
    raise ValueError(f"--{self._name} is called --{self._successor} now")


def define(name, successor):
  """Defines a flag that can't be given.

  Args:
    name: Its name.
    successor: The flag to use instead.
  """
  flags.DEFINE(_RenamedParser(name, successor), name, None, f"It is called --{successor} now.")
