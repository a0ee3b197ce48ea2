"""The flags that say how clients' tables are read, for every program that reads some."""

from typing import Any, Iterable

from absl import flags

from clustering_basics import options
from experiment_shell import option_flags
from fl_clustering.tables import table_options

# The flags belong to the modules that adopt them, for `--help`.
_OPTIONS = options.of(table_options.TableOptions)
OF_LABELS = ("label_column", "split_column")
NAMES = tuple(name for name in _OPTIONS if name not in OF_LABELS)


def _define(names: Iterable[str]) -> None:
  """Defines flags that have no value unless they are given."""
  for name in names:
    option = _OPTIONS[name]
    has_default = option.stated_default() != "none"
    option_flags.define_one(option, None, option.described() if has_default else option.about)


_define(NAMES)


def define_of_labels() -> None:
  """Defines the flags of classes and of rows for testing, for a program that needs them."""
  _define(OF_LABELS)


def given() -> dict[str, Any]:
  """Returns the flags that were given, a dict of arguments of `TableOptions`."""
  values = {
      name: getattr(flags.FLAGS, name) for name in (*OF_LABELS, *NAMES) if name in flags.FLAGS
  }
  return {
      name: tuple(value) if isinstance(value, list) else value
      for name, value in values.items() if value is not None
  }
