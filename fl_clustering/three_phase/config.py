"""The configuration of a three-phase run: everything that changes its result.

Paths, threads and other things that do not change a number are arguments of the functions
that need them.
"""

import dataclasses
import functools
import textwrap
from typing import Any, Mapping, TYPE_CHECKING

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.engine import aggregation
from fl_clustering.methods import grouping
from fl_clustering.methods import num_clusters as num_clusters_lib
from fl_clustering.methods import registry as method_registry
from fl_clustering.tables import table_options
from fl_clustering.tasks import held_out
from fl_clustering.tasks import models
from fl_clustering.tasks import partition as partition_lib
from fl_clustering.tasks import registry as task_registry

if TYPE_CHECKING:
  from fl_clustering.tasks import federated_task

# Bounds of what TensorFlow gets: integers of 32 bits, of which a batch and a client's
# examples must be one together.
_MAX_INT = 2**31 - 1
_MAX_BATCH_SIZE = 2**30
_MAX_ROUNDS = 100_000
_MAX_REPEATS = 1_000
_METHOD_REPEATS = 2
# What a task of the caller's own has decided.
_OF_TASKS = ("model", "partition", "tables", "test_share", "validation_share")

# From each setting whose choices have options to those options: from an option's name to
# a dict from the names of the choices that have it to their `options.Option`.
OPTIONS = {
    "partition": partition_lib.OPTIONS,
    "model": models.OPTIONS,
    "aggregator": options.by_name(aggregation.AGGREGATORS),
    "methods": options.by_name(
        {name: entry.settings for name, entry in method_registry.METHODS.items()},
        same_defaults=True,
    ),
    "personal": options.by_name(
        {name: entry.settings for name, entry in method_registry.PERSONAL.items()}
    ),
}


# A field for every option of `OPTIONS`, whose class declares it (`num_clusters` in `grouping.py`);
# `None` = not given.
_OptionFields = dataclasses.make_dataclass(
    "_OptionFields",
    [
        (name, next(iter(users.values())).kind | str | None, None)
        for by_name in OPTIONS.values()
        for name, users in by_name.items()
    ],
    frozen=True,
    kw_only=True,
)


def _positive(maximum: int) -> functools.partial[None]:
  return functools.partial(validate.integer, 1, maximum)


def _none_or_several(**repeats: int) -> None:
  validate.integer(0, _MAX_REPEATS, **repeats)
  for name, number in repeats.items():
    if number == 1:
      raise validate.error(name, "be 0 or at least 2, as one says too little of chance", number)


@dataclasses.dataclass(frozen=True)
class ThreePhaseConfig(_OptionFields):  # type: ignore[valid-type, misc]
  """Settings of a three-phase run, checked and completed as it is made.

  `None` stands for "not given". The options of partitions, models, aggregators and methods
  are attributes too. An option of a choice that was not made is refused when it is given
  and stays `None` otherwise. Those of the chosen model, aggregator and methods are completed
  with their defaults, so a saved configuration says every value that was used.

  `dataset` and `model` are `None` for a task of the caller's own, see `for_task`.

  Attributes:
  """

  dataset: str | None = options.option(
      str, options.listed(task_registry.DATASETS), "auto", values=task_registry.DATASETS,
      may_be_none=True,
  )
  num_clients: int = options.option(
      int, "Number of clients.", 100, rule=_positive(_MAX_INT),
      default_text="100; with --dataset=files all of them",
  )
  num_new_clients: int = options.option(
      int,
      "How many of the clients, drawn at random, don't train. They join after the training, and "
      "every method finds a model for them.",
      0,
  )
  partition: str | None = options.option(
      str, "How examples are split over clients.", None, values=task_registry.PARTITION_NAMES,
      default_text="natural (by writer) for emnist, dirichlet for the rest",
  )
  model: str | None = options.option(
      str, options.listed(models.MODELS), None, values=models.MODELS,
      default_text="mlp for files, cnn_small for the rest",
  )
  # As a dict in JSON; `None` for data other than tables.
  tables: table_options.TableOptions | None = None
  test_share: float | None = options.option(
      float,
      "Share of every client's rows, drawn at random, that are for testing and not for training "
      "(files).",
      None, default_text=f"{held_out.TEST_SHARE}",
  )
  validation_share: float | None = options.option(
      float,
      "Share of every client's training rows, of 20 or more, on which no model is trained and which "
      "decide instead of test rows: the weights of the weighted mean (b) of phase 3, and which "
      "method's models are saved. 0: test rows decide.",
      None, rule=functools.partial(validate.within, 0, 1),
      default_text=f"{held_out.VALIDATION_SHARE}",
  )
  article_weights: bool = options.option(
      bool,
      "Weighs the clusters' models in (b) as in the article, by the highest accuracy on test rows "
      "that they reached after any round.",
      False,
  )
  pretrain_rounds: int = options.option(
      int, "Rounds of phase 1.", 20, rule=_positive(_MAX_ROUNDS)
  )
  cluster_rounds: int = options.option(
      int, "Rounds of phase 2.", 20, rule=_positive(_MAX_ROUNDS)
  )
  client_epochs_per_round: int = options.option(
      int, "Passes of a client over its data in a round.", 1, rule=_positive(_MAX_INT)
  )
  clients_per_round: int | None = options.option(
      int, "How many clients take part in each round of both phases, drawn at random.", None,
      default_text="all",
  )
  batch_size: int = options.option(
      int, "Examples per step of SGD.", 20, rule=_positive(_MAX_BATCH_SIZE)
  )
  learning_rate: float = options.option(
      float, "Step size of SGD.", 0.1, rule=validate.float32
  )
  aggregator: str = options.option(
      str,
      "How phase 1 averages (cluster training and the controls always by `mean`). "
      + options.listed(aggregation.AGGREGATORS)
      + " The guarantee covers the global models of phase 1 for whoever sees nothing else: "
      "not the clients' own weights, which the server gets unprotected to group them, and "
      "nothing that follows from those. --clients_per_round does not improve it, since the "
      "draw follows from --seed: what counts is the number of rounds of the client that takes "
      "part most often. The noise of dp does not follow --seed.",
      "mean", values=aggregation.AGGREGATORS,
  )
  methods: tuple[str, ...] = options.option(
      str,
      "Comma-separated, of: " + ", ".join(method_registry.METHODS) + ". All that build on phase 1 "
      "share it. The controls " + ", ".join(method_registry.CONTROLS) + " always run.",
      ("kmeans", "dynamic_distance", "hierarchical"), several=True,
  )
  personal: tuple[str, ...] = options.option(
      str,
      "Comma-separated, of: " + ", ".join(method_registry.PERSONAL) + ". Controls that give every "
      "client a model of its own, which depends on the others'.",
      (), several=True, values=method_registry.PERSONAL,
  )
  num_clusters_criterion: str | None = options.option(
      str,
      "What chooses the number of clusters with --num_clusters=auto, from the clients' own "
      "weights.",
      None, values=num_clusters_lib.CRITERIA, default_text=num_clusters_lib.DEFAULT_CRITERION,
  )
  grouping_epochs: int | None = options.option(
      int,
      "Every client trains for this many epochs from the final global model, and the resulting "
      "weights are grouped.",
      None, rule=_positive(_MAX_INT),
      default_text="no such training; the weights of the last round are grouped",
  )
  control_repeats: int = options.option(
      int,
      "How often the control fedavg is trained again, with other random numbers. The intervals "
      "of the gains then include the chance in training; without repeats they are about this "
      "run's models only.",
      4, rule=_none_or_several,
  )
  method_repeats: int | None = options.option(
      int,
      "How often every method is trained again, start included, so that its interval includes "
      "the chance in its own training; 0: it is taken to vary as fedavg does.",
      None, rule=_none_or_several,
      default_text=f"{_METHOD_REPEATS}; with --control_repeats=0 none",
  )
  target_accuracy: float = options.option(
      float, "The share of clients that reach this accuracy, above 0 and at most 1, is reported.",
      0.9, rule=functools.partial(validate.up_to, 1),
  )
  seed: int = options.option(
      int, "Seed of everything random but dp's noise.", 0,
      rule=functools.partial(validate.integer, 0),
  )

  def __post_init__(self) -> None:
    self._set("methods", tuple(self.methods))
    self._set("personal", tuple(self.personal))
    options.check(self)
    self._check_clients()
    self._check_task()
    self._complete_options_of("aggregator")
    # It checks its own options.
    if self.build_aggregator().is_private and self.tables is not None:
      raise validate.error(
          "aggregator", "not be private for tables, whose columns are scaled by unprotected sums "
          "(private_clusters scales them by a public schema)", self.aggregator,
      )
    self._check_methods()
    self._check_personal()
    if self.method_repeats is None and self.control_repeats:
      self._set("method_repeats", _METHOD_REPEATS)
    if self.method_repeats and not self.control_repeats:
      raise validate.error("method_repeats", "be 0 with control_repeats=0", self.method_repeats)

  @classmethod
  def for_task(cls, task: "federated_task.FederatedTask", **settings: Any) -> "ThreePhaseConfig":
    """Returns the settings of a run on a task of the caller's own, which has data and model.

    Args:
      **settings: Any other settings, by name.
    """
    return cls(
        dataset=None, model=None, num_clients=len(task.all_clients),
        num_new_clients=len(task.new_clients), **settings,
    )

  def _set(self, name: str, value: Any) -> None:
    object.__setattr__(self, name, value)

  def _check_clients(self) -> None:
    validate.integer(0, self.num_clients - 1, num_new_clients=self.num_new_clients)
    if self.clients_per_round is not None:
      validate.integer(1, self.num_training_clients, clients_per_round=self.clients_per_round)

  def _check_task(self) -> None:
    if self.dataset is None:
      self._check_own_task()
      return
    task_registry.check_options(
        self.dataset, self.partition, num_clients=self.num_clients, **self.partition_options
    )
    if self.partition in partition_lib.PARTITIONS:
      self._complete_options_of("partition")
    if isinstance(self.tables, dict):  # As in JSON.
      self._set("tables", table_options.TableOptions.from_json(self.tables))
    task_registry.check_tables(self.dataset, self.tables, self.test_share)
    if self.validation_share is None:
      self._set("validation_share", held_out.VALIDATION_SHARE)
    if self.model is None:
      self._set("model", task_registry.DATASETS[self.dataset].default_model)
    self._complete_options_of("model")
    models.choose(self.model, **self.model_options)

  def _check_own_task(self) -> None:
    own = {name: getattr(self, name) for name in _OF_TASKS}
    for name, value in {**own, **self.partition_options, **self.model_options}.items():
      if value is not None:
        raise validate.error(name, "be None for a task of your own, which has its own", value)

  def _complete_options_of(self, setting: str) -> None:
    """Completes the options of the choice that a setting names, and refuses the others'."""
    choice = getattr(self, setting)
    for name, users in OPTIONS[setting].items():
      value = getattr(self, name)
      if choice in users:
        self._complete(users[choice])
      elif value is not None:
        raise ValueError(f"`{name}` must not be given with {setting}={choice}, got {value!r}.")

  def _complete(self, option: options.Option) -> None:
    if getattr(self, option.name) is None:
      self._set(option.name, option.value_for(self.num_training_clients))

  def _check_methods(self) -> None:
    for method in self.methods:
      validate.one_of({**method_registry.METHODS, **method_registry.CONTROLS}, methods=method)
    if len(set(self.methods)) != len(self.methods):
      raise validate.error("methods", "name every method once", self.methods)
    for method in self.chosen_methods:
      for option in _options_of(method).values():
        if option.selects is not None:
          self._select(option.name, option.selects)
    used = {
        name: option
        for method in self.chosen_methods
        for name, option in self._options_in_use(method).items()
    }
    for name, users in OPTIONS["methods"].items():
      if name in used:
        self._complete(used[name])
      elif getattr(self, name) is not None:
        raise self._unused(name, users)
    for name, option in used.items():
      value = getattr(self, name)
      if option.up_to_num_clients and value not in (None, option.word):
        validate.integer(1, self.num_training_clients, **{name: value})
    self._check_criterion()
    # They check their own options.
    checked = self.with_num_clusters(1) if self.chooses_num_clusters else self
    for method in self.chosen_methods:
      checked.method_settings(method)

  def _check_personal(self) -> None:
    if len(set(self.personal)) != len(self.personal):
      raise validate.error("personal", "name every control once", ",".join(self.personal))
    for name, users in OPTIONS["personal"].items():
      chosen = [users[one] for one in self.personal if one in users]
      if chosen:
        self._complete(chosen[0])
      elif getattr(self, name) is not None:
        rule = f"be given only with personal={' or '.join(users)}"
        raise validate.error(name, rule, getattr(self, name))
    for name in self.personal:
      self.method_settings(name)  # It checks its own options.
      if self.model is not None:
        # What layers it has does not depend on the examples.
        built = models.choose(self.model, **self.model_options)((28, 28, 1), 2, "uint8")
        method_registry.PERSONAL[name].check_model(built)

  def _select(self, selector: str, selects: Mapping[str, tuple[str, ...]]) -> None:
    """Completes and checks an option that decides which others its method uses.

    Its usual value gives way to the one that comes with an option which is given and which no
    method without this selector has.
    """
    if getattr(self, selector) is None:
      own = map(_options_of, self.chosen_methods)
      of_others = {name for found in own if selector not in found for name in found}
      usual, *others = selects
      asked_for = (
          value for value in others for name in selects[value]
          if getattr(self, name) is not None and name not in of_others
      )
      self._set(selector, next(asked_for, usual))
    validate.one_of(selects, **{selector: getattr(self, selector)})

  def _unused(self, name: str, users: dict[str, options.Option]) -> ValueError:
    """Returns the error for an option of methods that is given though no chosen one uses it."""
    value = getattr(self, name)
    if any(option.selects for option in users.values()):
      return ValueError(
          f"`{name}` must be given only with the method {' or '.join(users)}, got {value!r}."
      )
    selected = "".join(
        f" and {selector}={getattr(self, selector)}"
        for selector, of_methods in OPTIONS["methods"].items()
        if any(option.selects for option in of_methods.values())
        and getattr(self, selector) is not None
    )
    return ValueError(
        f"`{name}` must be given only with a method that uses it, got "
        f"{value!r} with methods={','.join(self.methods)}{selected}."
    )

  def _check_criterion(self) -> None:
    if self.chooses_num_clusters:
      if self.num_clusters_criterion is None:
        self._set("num_clusters_criterion", num_clusters_lib.DEFAULT_CRITERION)
    elif self.num_clusters_criterion is not None:
      raise validate.error(
          "num_clusters_criterion",
          f"be given only with num_clusters={grouping.AUTO}",
          self.num_clusters_criterion,
      )

  def _options_in_use(self, method: str) -> dict[str, options.Option]:
    """Returns the options that a method takes in this run, by name."""
    found = _options_of(method)
    left_out = {
        name
        for selector in found.values()
        for value, names in (selector.selects or {}).items()
        if value != getattr(self, selector.name)
        for name in names
    }
    return {name: option for name, option in found.items() if name not in left_out}

  @property
  def num_training_clients(self) -> int:
    return self.num_clients - self.num_new_clients

  @property
  def chosen_methods(self) -> tuple[str, ...]:
    """The methods that were chosen, without controls."""
    return tuple(name for name in self.methods if name in method_registry.METHODS)

  @property
  def chooses_num_clusters(self) -> bool:
    """Whether the run finds the number of clusters."""
    return self.num_clusters == grouping.AUTO

  def with_num_clusters(self, num_clusters: int) -> "ThreePhaseConfig":
    """Returns these settings with the number of clusters that the run found."""
    found: dict[str, Any] = {"num_clusters": num_clusters, "num_clusters_criterion": None}
    return dataclasses.replace(self, **found)

  @property
  def partition_options(self) -> dict[str, Any]:
    """The options of partitions, by name; `None` where one is not given."""
    return {name: getattr(self, name) for name in OPTIONS["partition"]}

  @property
  def model_options(self) -> dict[str, Any]:
    """The same of the options of models."""
    return {name: getattr(self, name) for name in OPTIONS["model"]}

  def training_settings(self) -> dict[str, Any]:
    """Returns the settings that phase 1 follows from, a dict for JSON."""
    others = {
        "methods", "personal", "article_weights", "cluster_rounds", "control_repeats",
        "method_repeats", "num_clusters_criterion", "target_accuracy",
        *OPTIONS["methods"], *OPTIONS["personal"],
    }
    return {name: value for name, value in self.to_json().items() if name not in others}

  def options_of(self, name: str) -> dict[str, Any]:
    """Returns the values of a method's options in this run, for JSON; other controls have none."""
    if name not in method_registry.METHODS and name not in method_registry.PERSONAL:
      return {}
    return {option: getattr(self, option) for option in self._options_in_use(name)}

  def repeats_of(self, name: str) -> int:
    """Returns how often a method or control is trained again."""
    if name == method_registry.FEDAVG:
      return self.control_repeats
    return self.method_repeats or 0 if name in self.chosen_methods else 0

  def build_aggregator(self) -> Any:
    """Returns the aggregator, an instance of a class in `aggregation.AGGREGATORS`."""
    chosen = aggregation.AGGREGATORS[self.aggregator]
    return chosen(**{name: getattr(self, name) for name in options.of(chosen)})

  def method_settings(self, name: str, **overrides: Any) -> Any:
    """Returns the settings of a method with this run's options; of a grouping, itself.

    Args:
      name: A key of `registry.METHODS` or `registry.PERSONAL`.
      **overrides: Options to use instead of this run's.
    """
    return method_registry.entry(name).settings(**{**self.options_of(name), **overrides})

  def to_json(self) -> dict[str, Any]:
    """Returns a dict of plain values; options follow the choice that they belong to."""
    values = options.to_json(self)
    return {
        name: values[name] for setting in _SETTINGS for name in (setting, *OPTIONS.get(setting, ()))
    }


def _options_of(method: str) -> dict[str, options.Option]:
  return options.of(method_registry.entry(method).settings)


# The settings that are no options of a choice.
_SETTINGS = tuple(ThreePhaseConfig.__annotations__)


def _documented() -> str:
  """Returns the attributes' part of the configuration's docstring."""
  texts = {name: option.about for name, option in options.of(ThreePhaseConfig).items()}
  texts["tables"] = "How the tables of own clients are read, `TableOptions`."
  for setting, by_name in OPTIONS.items():
    for name, users in by_name.items():
      if name in _SETTINGS:
        raise TypeError(f"`{name}` must be the name of one setting, got a second one.")
      texts[name] = f"Option of `{setting}`. {options.describe(users)}"
  return "\n".join(
      textwrap.fill(f"{name}: {text}", 88, initial_indent=" " * 4, subsequent_indent=" " * 6)
      for name, text in texts.items()
  )


ThreePhaseConfig.__doc__ = f"{(ThreePhaseConfig.__doc__ or '').rstrip()}\n{_documented()}\n"
