"""The settings of a study: everything that changes its numbers."""

import dataclasses
from typing import Optional

from clustering_basics import validate
from experiments.grouping_study import settings as settings_lib
from fl_clustering import config as run_config
from fl_clustering.methods import registry as method_registry
from fl_clustering.tasks import folds

SETTINGS = ("iid", "quantity", "dirichlet", "shards", "rotated", "permuted_labels", "feature_shift")
METHODS = tuple(method_registry.METHODS)
# Only these data sets name what was used, also when a study is resumed elsewhere.
_UNNAMED = "auto"


@dataclasses.dataclass(frozen=True, order=True)
class Group:
  """The cells that share their data and phase 1: those of all methods.

  Attributes:
    setting: A key of `settings.SETTINGS`.
    seed: The seed.
    fold: The number of the fold that tests; None without folds.
  """

  setting: str
  seed: int
  fold: Optional[int]

  @property
  def name(self):
    """A name for its folder."""
    fold = "" if self.fold is None else f"-fold{self.fold}"
    return f"{self.setting}-seed{self.seed}{fold}"


@dataclasses.dataclass(frozen=True)
class StudyConfig:
  """The settings of a study, checked when made.

  Attributes:
    run: What all its runs have in common, a `ThreePhaseConfig`; its seed is the first one.
    settings: Keys of `settings.SETTINGS`.
    num_seeds: How many seeds each setting has.
    num_folds: In how many folds every client's examples are; None for one random split.
  """

  run: run_config.ThreePhaseConfig
  settings: tuple[str, ...] = SETTINGS
  num_seeds: int = 5
  num_folds: Optional[int] = None

  def __post_init__(self):
    if not self.settings or len(set(self.settings)) != len(self.settings):
      raise validate.error("settings", "name something, and nothing twice", list(self.settings))
    for name in self.settings:
      validate.one_of(settings_lib.SETTINGS, settings=name)
    validate.integer(1, num_seeds=self.num_seeds)
    if self.num_folds is not None:
      validate.integer(2, num_folds=self.num_folds)
    for name in settings_lib.DECIDED:
      if getattr(self.run, name) is not None:
        raise validate.error(name, "be left to the study's settings", getattr(self.run, name))
    if self.run.dataset == _UNNAMED:
      raise validate.error("dataset", "be named in a study", self.run.dataset)
    if self.run.control_repeats:
      raise validate.error(
          "control_repeats", "be 0 in a study, which has seeds instead", self.run.control_repeats
      )
    for group in self.groups:
      self.run_config(group)

  @property
  def groups(self):
    """The `Group`s of the study, in the order of its tables."""
    seeds = range(self.run.seed, self.run.seed + self.num_seeds)
    fold_numbers = (None,) if self.num_folds is None else range(self.num_folds)
    return [
        Group(setting, seed, fold)
        for setting in self.settings for seed in seeds for fold in fold_numbers
    ]

  def run_config(self, group):
    """Returns the `ThreePhaseConfig` of a group."""
    values = settings_lib.SETTINGS[group.setting].values
    return dataclasses.replace(self.run, seed=group.seed, **values)

  def fold(self, group):
    """Returns the `folds.Fold` of a group, or None."""
    return None if group.fold is None else folds.Fold(group.fold, self.num_folds)

  def to_json(self):
    """Returns the settings as a dict for JSON; `from_json` is the inverse."""
    own = {
        "settings": list(self.settings), "num_seeds": self.num_seeds, "num_folds": self.num_folds
    }
    run = self.run.to_json()
    return {**own, **{name: run[name] for name in run if name not in settings_lib.DECIDED}}

  @classmethod
  def from_json(cls, values):
    """Returns the `StudyConfig` that `to_json` made the dict from.

    Args:
      values: The dict.  It may have more settings without a value, of an earlier version.

    Raises:
      KeyError, TypeError or ValueError: If it is none.
    """
    own = {name: values[name] for name in ("num_seeds", "num_folds")}
    of_run = {
        name: value for name, value in values.items()
        if value is not None and name not in ("settings", *own)
    }
    return cls(run_config.ThreePhaseConfig(**of_run), tuple(values["settings"]), **own)
