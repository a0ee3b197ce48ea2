"""The methods of three-phase runs: phase 1, those that group, and the controls; their names."""

from typing import Iterable

from fl_clustering.methods import registry as method_registry

PRETRAIN = "pretrain"
FEDAVG = method_registry.FEDAVG
FEDAVG_MATCHED = "fedavg_matched"
FINETUNED = method_registry.FINETUNED
LOCAL = "local"
# In the order of the tables: from no cooperation to everyone together.
PERSONAL = tuple(method_registry.PERSONAL)
CONTROLS = (LOCAL, FINETUNED, *PERSONAL, FEDAVG, FEDAVG_MATCHED)

_LABELS = {
    PRETRAIN: "phase 1",
    "kmeans": "K-means",
    "ifca": "IFCA",
    "cfl": "CFL",
    "fesem": "FeSEM",
    "pacfl": "PACFL",
    "clove": "CLoVE",
    "flexcfl": "FlexCFL",
    "flux": "FLUX",
    LOCAL: "local",
    FINETUNED: "fine-tuned",
    "ditto": "Ditto",
    "fedrep": "FedRep",
    "apfl": "APFL",
    "mr_mtl": "MR-MTL",
    FEDAVG: "FedAvg",
    FEDAVG_MATCHED: "FedAvg matched",
}


def method_name(method: str) -> str:
  """Returns the name of a method for readers, within a sentence."""
  return _LABELS.get(method, method.replace("_", " "))


def method_label(method: str) -> str:
  """Returns the name of a method for readers, with a word where it is a control."""
  return f"{method_name(method)} (control)" if method in CONTROLS else method_name(method)


def ordered(methods: Iterable[str]) -> list[str]:
  """Returns phase 1, the methods that are no controls in their order, and the controls."""
  methods = list(methods)
  first = [method for method in methods if method not in CONTROLS]
  first.sort(key=lambda method: method != PRETRAIN)
  return first + [method for method in CONTROLS if method in methods]
