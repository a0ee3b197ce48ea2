"""The flags that say how clients' tables are read, for every program that reads some."""

from typing import Any, Iterable

from absl import flags

from clustering_basics import options
from experiment_shell import option_flags
from fl_clustering.tables import table_options

# The flags belong to the modules that adopt them, for `--help`.
_OPTIONS = options.of(table_options.TableOptions)
OF_LABELS = ("label_column", "label_above", "split_column")
TASK = "task"
NAMES = tuple(name for name in _OPTIONS if name not in (*OF_LABELS, TASK))


def _define(names: Iterable[str]) -> None:
  """Defines flags that have no value unless they are given."""
  for name in names:
    option, about = _OPTIONS[name], _OPTIONS[name].about
    if option.default_text is not None or option.default not in (None, ()):
      about += f" Default: {option.stated_default()}."
    option_flags.define_one(option, None, about)


_define(NAMES)


def define_of_labels() -> None:
  """Defines the flags of classes and of rows for testing, for a program that needs them."""
  _define(OF_LABELS)


def define_task() -> None:
  """Defines the flag of what is learned of the label column, for a program that can choose."""
  _define([TASK])


def given() -> dict[str, Any]:
  """Returns the flags that were given, a dict of arguments of `TableOptions`."""
  values = {
      name: getattr(flags.FLAGS, name) for name in (*OF_LABELS, TASK, *NAMES) if name in flags.FLAGS
  }
  return {
      name: tuple(value) if isinstance(value, list) else value
      for name, value in values.items() if value is not None
  }
