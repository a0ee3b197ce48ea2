"""The settings that a study compares methods in: kinds of differences between clients.

A setting is a name, what it is, and the settings of a three-phase run that make it.  The others,
such as the number of clients and of rounds, are the study's and the same in all of them.
"""

import dataclasses
from typing import Any, Mapping

from fl_clustering.tasks import registry as task_registry


@dataclasses.dataclass(frozen=True)
class Setting:
  """A kind of differences between clients.

  Attributes:
    values: Settings of a `ThreePhaseConfig`, by name.
  """

  about: str
  values: Mapping[str, Any]


SETTINGS = {
    "iid": Setting("no differences", {"partition": "iid"}),
    "quantity": Setting(
        "different amounts of data", {"partition": "quantity", "dirichlet_alpha": 0.5}
    ),
    "dirichlet": Setting(
        "different shares of the labels", {"partition": "dirichlet", "dirichlet_alpha": 0.5}
    ),
    "dirichlet_0.1": Setting(
        "very different shares of the labels", {"partition": "dirichlet", "dirichlet_alpha": 0.1}
    ),
    "shards": Setting("two labels or so per client", {"partition": "shards"}),
    "rotated": Setting(
        "four groups, images turned by quarter turns", {"partition": "rotated", "num_groups": 4}
    ),
    "permuted_labels": Setting(
        "four groups, each with its own meaning of the labels",
        {"partition": "permuted_labels", "num_groups": 4},
    ),
    "feature_shift": Setting(
        "four groups: images unchanged, inverted, noisy, with thin strokes",
        {"partition": "feature_shift", "num_groups": 4},
    ),
    "natural": Setting(
        "the data set's own clients, for data that have some",
        {"partition": task_registry.NATURAL},
    ),
}

# What the values of settings decide, which is therefore not the study's.
DECIDED = ("partition", "dirichlet_alpha", "num_groups")
