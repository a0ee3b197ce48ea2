"""The settings of a study: everything that changes its numbers.

Methods are compared in several kinds of differences between clients.  Each is a name, what it is,
and the settings of a three-phase run that make it.  The others, such as the number of clients and
of rounds, are the same in all of them.
"""

import dataclasses
import functools
from typing import Any, Mapping

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.methods import registry as method_registry
from fl_clustering.tasks import registry as task_registry
from fl_clustering.three_phase import config as run_config


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

# What these decide, which is therefore not the study's.
_DECIDED = tuple(dict.fromkeys(name for one in SETTINGS.values() for name in one.values))

# Those of a study that names none.
DEFAULT_SETTINGS = (
    "iid", "quantity", "dirichlet", "shards", "rotated", "permuted_labels", "feature_shift"
)
DEFAULT_METHODS = tuple(
    name for name, entry in method_registry.METHODS.items() if not entry.only_if_named
)
# A pull, and a mixture that is learned.
DEFAULT_PERSONAL = ("ditto", "apfl")


@dataclasses.dataclass(frozen=True)
class StudyConfig(options.Settings):
  """The settings of a study, checked when made.

  Attributes:
    run: What all its runs have in common; its seed is the first one.
  """

  run: run_config.ThreePhaseConfig
  settings: tuple[str, ...] = options.option(
      str,
      "Comma-separated kinds of differences between clients, of: "
      + options.listed(SETTINGS),
      DEFAULT_SETTINGS, several=True, values=SETTINGS,
  )
  num_seeds: int = options.option(
      int,
      "Seeds per setting, from --seed on. Each draws its own models, orders of training, and "
      "clients where they aren't given.",
      5, rule=validate.AT_LEAST_ONE,
  )
  num_folds: int | None = options.option(
      int,
      "Every client's examples are in so many folds, and each fold is for testing once.",
      None, rule=functools.partial(validate.integer, 2),
      default_text="one random split per seed",
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    for name in _DECIDED:
      if getattr(self.run, name) is not None:
        raise validate.error(name, "be left to the study's settings", getattr(self.run, name))
    if self.run.control_repeats:
      raise validate.error(
          "control_repeats", "be 0 in a study, which has seeds instead", self.run.control_repeats
      )
    if self.run.controls != tuple(method_registry.CONTROLS):
      raise validate.error(
          "controls", "be left out in a study, which runs all", ",".join(self.run.controls)
      )
    for name in self.settings:
      self.run_config(name, self.run.seed)

  def run_config(self, setting: str, seed: int) -> run_config.ThreePhaseConfig:
    """Returns the settings of a run."""
    return dataclasses.replace(self.run, seed=seed, **SETTINGS[setting].values)

  def to_json(self) -> dict[str, Any]:
    """Returns the settings as a dict for JSON: the study's, and those that all runs share."""
    own = super().to_json()
    run = {name: v for name, v in own.pop("run").items() if name not in _DECIDED}
    return {**own, **run}
