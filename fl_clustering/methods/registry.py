"""The methods by name.

To add one, write its function (settings, engine) -> Method in a file of its own, with a
frozen dataclass of its settings, and add a row to `METHODS`: its name is then a value of
--groupings, and its settings' options are flags.
"""

from typing import Callable, NamedTuple

from fl_clustering.grouping import registry as grouping_registry
from fl_clustering.methods import controls
from fl_clustering.methods import one_shot


class MethodEntry(NamedTuple):
  """A row of `METHODS`.

  Attributes:
    settings: A frozen dataclass, whose options (see `options.py`) are the method's.
    build: A function from such settings and an `engine.Engine` to a `method.Method`.
  """

  settings: type
  build: Callable


METHODS = {
    name: MethodEntry(grouping, one_shot.one_shot)
    for name, grouping in grouping_registry.GROUPINGS.items()
}

# What runs beside the methods that are chosen; from the name to a function from an
# `engine.Engine` to a `method.Method`.
CONTROLS = {"fedavg": controls.fedavg, "local": controls.local}
