"""The methods by name.

To add one, write its function (settings, engine) -> Method in a file of its own, with a
frozen dataclass of its settings, and add a row to `METHODS`: its name is then a value of
--methods, its settings' options are flags, and the contract tests run over it.  A grouping is
a dataclass alone (`grouping.Grouping`), which `one_shot` makes a method of.

A personal model is a control of the same form, with a row in `PERSONAL` and a value of --personal.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, NamedTuple, TYPE_CHECKING

from fl_clustering.methods import apfl
from fl_clustering.methods import cfl
from fl_clustering.methods import clove
from fl_clustering.methods import controls
from fl_clustering.methods import ditto
from fl_clustering.methods import dynamic_distance
from fl_clustering.methods import fedrep
from fl_clustering.methods import fesem
from fl_clustering.methods import flexcfl
from fl_clustering.methods import flux
from fl_clustering.methods import hierarchical
from fl_clustering.methods import ifca
from fl_clustering.methods import kmeans
from fl_clustering.methods import mr_mtl
from fl_clustering.methods import one_shot
from fl_clustering.methods import pacfl

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.methods import method
  from fl_clustering.tasks import model as model_lib


class MethodEntry(NamedTuple):
  """A row of `METHODS` or `PERSONAL`.

  Attributes:
    settings: A frozen dataclass, whose options (see `options.py`) are the method's.
    build: Makes the method of such settings.
    label: What readers call it; by default its name, with spaces.
    sees: What the server sees of it beside the models that it averages, and the clients' own
      weights or sketches after phase 1.
    only_if_named: Whether studies run it only where it is named.
    check_model: Raises a ValueError for a model that it can't work with.
    groups_by_features: Whether it groups clients by their features, and not by a trained model.
  """

  settings: type
  build: Callable[[Any, engine_lib.Engine], method.Method]
  label: str = ""
  sees: str = ""
  only_if_named: bool = False
  check_model: Callable[[model_lib.Model], object] = lambda model: None
  groups_by_features: bool = False


class ControlEntry(NamedTuple):
  """A row of `CONTROLS`: what makes the control of a run's settings, and its label."""

  build: Callable[[controls.Settings, engine_lib.Engine], method.Method]
  label: str


METHODS = {
    "kmeans": MethodEntry(kmeans.KMeans, one_shot.one_shot, "K-means"),
    "dynamic_distance": MethodEntry(dynamic_distance.DynamicDistance, one_shot.overlapping),
    "hierarchical": MethodEntry(hierarchical.Hierarchical, one_shot.by_metric),
    "ifca": MethodEntry(ifca.Ifca, ifca.ifca, "IFCA", "Which model fits each client best."),
    "cfl": MethodEntry(cfl.Cfl, cfl.cfl, "CFL", "Every client's update in every round."),
    "fesem": MethodEntry(
        fesem.Fesem, fesem.fesem, "FeSEM", "Every client's own weights in every round."
    ),
    "pacfl": MethodEntry(
        pacfl.Pacfl, pacfl.pacfl, "PACFL",
        "Directions of every client's raw data: the first one of a label can look like the "
        "client's average example of that label.",
        groups_by_features=True,
    ),
    "clove": MethodEntry(
        clove.Clove, clove.clove, "CLoVE", "Every client's loss under every model.",
        only_if_named=True,
    ),
    "flexcfl": MethodEntry(flexcfl.FlexCfl, flexcfl.flexcfl, "FlexCFL", only_if_named=True),
    "flux": MethodEntry(
        flux.Flux, flux.flux, "FLUX",
        "Means and standard deviations of what the global model makes of every client's examples, "
        "over all and over each label.",
        only_if_named=True, check_model=flux.last_kernel_shape, groups_by_features=True,
    ),
}

# Those whose settings are a `grouping.Grouping`.  Where the true groups are known, the report
# compares what they find in each representation.
GROUPINGS = {
    name: entry.settings
    for name, entry in METHODS.items()
    if entry.build in (one_shot.one_shot, one_shot.by_metric, one_shot.overlapping)
}

# What runs beside the methods that are chosen.
FEDAVG, FINETUNED, LOCAL = "fedavg", "finetuned", "local"
CONTROLS = {
    FEDAVG: ControlEntry(controls.fedavg, "FedAvg"),
    FINETUNED: ControlEntry(controls.finetuned, "fine-tuned"),
    LOCAL: ControlEntry(controls.local, "local"),
}

# Controls that run where they are chosen: a model per client, which depends on the others'.
PERSONAL = {
    "ditto": MethodEntry(ditto.Ditto, ditto.ditto, "Ditto"),
    "fedrep": MethodEntry(
        fedrep.FedRep, fedrep.fedrep, "FedRep",
        "In every round, the layers before the last of every client's own model.",
        check_model=fedrep.in_representation,
    ),
    "apfl": MethodEntry(apfl.Apfl, apfl.apfl, "APFL"),
    "mr_mtl": MethodEntry(
        mr_mtl.MrMtl, mr_mtl.mr_mtl, "MR-MTL", "Every client's own model in every round."
    ),
}

# Phase 1, and what `matched_control.py` adds to the controls.
PRETRAIN, FEDAVG_MATCHED = "pretrain", "fedavg_matched"
_OTHER_LABELS = {PRETRAIN: "phase 1", FEDAVG_MATCHED: "FedAvg matched"}


def all_controls() -> list[str]:
  """Returns the names of all controls, from no cooperation to everyone together."""
  return [LOCAL, FINETUNED, *PERSONAL, FEDAVG, FEDAVG_MATCHED]


def groups(name: str) -> bool:
  """Returns whether it is a method that groups clients, and so neither phase 1 nor a control."""
  return name != PRETRAIN and name not in all_controls()


def ordered(names: Iterable[str]) -> list[str]:
  """Returns phase 1, the methods that group clients as they come, and the controls."""
  names = list(names)
  return [
      *(name for name in names if name == PRETRAIN), *filter(groups, names),
      *(name for name in all_controls() if name in names),
  ]


def label(name: str) -> str:
  """Returns what readers call a method or control, within a sentence.

  A method that is not registered has its name, with spaces.
  """
  row = METHODS.get(name) or PERSONAL.get(name) or CONTROLS.get(name)
  found = _OTHER_LABELS.get(name) if row is None else row.label
  return found or name.replace("_", " ")


def title(name: str) -> str:
  """Returns the label, followed by "(control)" for a control."""
  return f"{label(name)} (control)" if name in all_controls() else label(name)


def entry(name: str) -> MethodEntry:
  """Returns a row of `METHODS` or, if it has none of this name, of `PERSONAL`."""
  return METHODS[name] if name in METHODS else PERSONAL[name]
