"""The methods by name.

To add one, write its function (settings, engine) -> Method in a file of its own, with a
frozen dataclass of its settings, and add a row to `METHODS`: its name is then a value of
--methods, and its settings' options are flags.
"""

from typing import Callable, NamedTuple

from fl_clustering.methods import cfl
from fl_clustering.methods import controls
from fl_clustering.methods import fesem
from fl_clustering.methods import groupings
from fl_clustering.methods import ifca
from fl_clustering.methods import one_shot
from fl_clustering.methods import pacfl


class MethodEntry(NamedTuple):
  """A row of `METHODS`.

  Attributes:
    settings: A frozen dataclass, whose options (see `options.py`) are the method's.
    build: A function from such settings and an `engine.Engine` to a `method.Method`.
  """

  settings: type
  build: Callable


METHODS = {
    **{
        name: MethodEntry(grouping, one_shot.one_shot)
        for name, grouping in groupings.GROUPINGS.items()
    },
    "dynamic_distance": MethodEntry(
        groupings.GROUPINGS["dynamic_distance"], one_shot.overlapping
    ),
    "ifca": MethodEntry(ifca.Ifca, ifca.ifca),
    "cfl": MethodEntry(cfl.Cfl, cfl.cfl),
    "cfl_as_copied": MethodEntry(cfl.Cfl, cfl.cfl_as_copied),
    "fesem": MethodEntry(fesem.Fesem, fesem.fesem),
    "pacfl": MethodEntry(pacfl.Pacfl, pacfl.pacfl),
}

# What runs beside the methods that are chosen; from the name to a function from the run's
# `ThreePhaseConfig` and an `engine.Engine` to a `method.Method`.
FEDAVG = "fedavg"
CONTROLS = {
    FEDAVG: controls.fedavg,
    "finetuned": controls.finetuned,
    "local": controls.local,
}
