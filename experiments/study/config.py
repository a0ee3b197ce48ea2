"""The settings of a study: everything that changes its numbers.

Methods are compared in several kinds of differences between clients.  Each is a name, what it is,
and the settings of a three-phase run that make it.  The others, such as the number of clients and
of rounds, are the same in all of them.
"""

import dataclasses
import functools
from typing import Any, Mapping, Sequence

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

_OF_METHODS = {
    name for setting in ("methods", "personal")
    for name in run_config.ThreePhaseConfig.of_choices[setting]
}
_DECIDING = {
    name for row in method_registry.METHODS.values() for name, option in options.of(row).items()
    if option.selects
}

# Those of a study that names none.
DEFAULT_SETTINGS = (
    "iid", "quantity", "dirichlet", "shards", "rotated", "permuted_labels", "feature_shift"
)
DEFAULT_METHODS = tuple(
    name for name, entry in method_registry.METHODS.items() if not entry.only_if_named
)
# A pull, and a mixture that is learned.
DEFAULT_PERSONAL = ("ditto", "apfl")
_LEARNING_RATE = "learning_rate"
_TUNING_SEEDS = 3


@dataclasses.dataclass(frozen=True)
class Tuned:
  """The option that every method has the best candidate of, in every setting."""

  name: str
  candidates: tuple[Any, ...]

  def texts(self) -> dict[str, Any]:
    """Returns the candidates by what files call them."""
    return {f"{value}": value for value in self.candidates}


def tuned_option(learning_rates: Sequence[float] | None, tune: str | None) -> Tuned | None:
  """Returns what is tuned, given two options of a study; None where neither is given.

  Raises:
    ValueError: If both are, or there is no such option, or less than two candidates.
  """
  if learning_rates is not None and tune is not None:
    raise validate.error("tune", "be left out with `learning_rates`", tune)
  if learning_rates is not None:
    found = Tuned(_LEARNING_RATE, tuple(learning_rates))
  elif tune is not None:
    name, _, values = tune.partition(":")
    # With others, clients or the work of FedAvg, with which all are compared, would differ; and
    # with those that decide which others there are, these would have no value for all candidates.
    if name not in {_LEARNING_RATE, *_OF_METHODS} - _DECIDING:
      rule = f"begin with {_LEARNING_RATE} or a method's option that decides no others, and :"
      raise validate.error("tune", rule, tune)
    found = Tuned(name, options.of(run_config.ThreePhaseConfig)[name].read(values.split(",")))
  else:
    return None
  flag = "tune" if learning_rates is None else "learning_rates"
  if len(found.texts()) != max(2, len(found.candidates)):
    raise validate.error(flag, "have at least two candidates, none of them twice", found.candidates)
  return found


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
  learning_rates: tuple[float, ...] | None = options.option(
      float,
      "Candidates in place of --learning_rate: in every setting, every method and control has the "
      "one with which it is the most accurate on validation rows, with seeds of its own.",
      None, several=True,
  )
  tune: str | None = options.option(
      str,
      "An option of methods in place of the rate, and its candidates, such as ifca_restarts:1,3.",
      None,
  )
  tuning_seeds: int | None = options.option(
      int, "Seeds with which candidates are compared; they follow those that are reported.", None,
      rule=validate.AT_LEAST_ONE, default_text=f"{_TUNING_SEEDS} where there are candidates",
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
    self._check_tuning()
    candidates: Sequence[str | None] = [None] if self.tuned is None else [*self.tuned.texts()]
    for name in self.settings:
      for candidate in candidates:
        self.run_config(name, self.run.seed, candidate)

  def _check_tuning(self) -> None:
    if self.tuned is None:
      if self.tuning_seeds is not None:
        raise validate.error(
            "tuning_seeds", "be left out without `learning_rates` or `tune`", self.tuning_seeds
        )
      return
    if self.run.examples_per_client is not None:
      raise validate.error(
          "examples_per_client", "be left out where validation rows choose, as there are none",
          self.run.examples_per_client,
      )
    if not self.run.validation_share:
      raise validate.error(
          "validation_share", "exceed 0, so that validation rows choose", self.run.validation_share
      )
    if self.tuning_seeds is None:
      object.__setattr__(self, "tuning_seeds", _TUNING_SEEDS)

  @functools.cached_property
  def tuned(self) -> Tuned | None:
    """What is tuned; None in a study without candidates."""
    return tuned_option(self.learning_rates, self.tune)

  @property
  def trained(self) -> tuple[str, ...]:
    """The methods and controls of its runs."""
    return (*self.run.methods, *method_registry.CONTROLS, *self.run.personal)

  @property
  def seeds(self) -> range:
    """The seeds that are reported."""
    return range(self.run.seed, self.run.seed + self.num_seeds)

  @property
  def seeds_to_tune(self) -> range:
    """The seeds with which candidates are compared."""
    return range(self.seeds.stop, self.seeds.stop + (self.tuning_seeds or 0))

  def run_config(
      self, setting: str, seed: int, candidate: str | None = None
  ) -> run_config.ThreePhaseConfig:
    """Returns the settings of a run; with a candidate, by what files call it."""
    values = dict(SETTINGS[setting].values)
    if candidate is not None and self.tuned is not None:
      values[self.tuned.name] = self.tuned.texts()[candidate]
    return dataclasses.replace(self.run, seed=seed, **values)

  def to_json(self) -> dict[str, Any]:
    """Returns the settings as a dict for JSON: the study's, and those that all runs share."""
    own = super().to_json()
    decided = {*_DECIDED, self.tuned and self.tuned.name}
    run = {name: v for name, v in own.pop("run").items() if name not in decided}
    return {**own, **run}
