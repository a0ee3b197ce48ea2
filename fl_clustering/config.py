"""The configuration of a three-phase run: everything that changes its result.

Paths, threads and other things that do not change a number are arguments of the functions
that need them.
"""

import dataclasses
import textwrap
from typing import Optional, Union

from clustering_basics import validate
from fl_clustering import options
from fl_clustering.engine import aggregation
from fl_clustering.methods import grouping
from fl_clustering.methods import num_clusters as num_clusters_lib
from fl_clustering.methods import registry as method_registry
from fl_clustering.tables import table_options
from fl_clustering.tasks import models
from fl_clustering.tasks import partition as partition_lib
from fl_clustering.tasks import registry as task_registry

# Bounds of what TensorFlow gets: integers of 32 bits, of which a batch and a client's
# examples must be one together.
_MAX_INT = 2**31 - 1
_MAX_BATCH_SIZE = 2**30
_MAX_ROUNDS = 100_000
_MAX_REPEATS = 1_000

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
}


# A field for every option; `None` = not given.
_OptionFields = dataclasses.make_dataclass(
    "_OptionFields",
    [
        (name, Optional[Union[next(iter(users.values())).kind, str]], None)
        for by_name in OPTIONS.values()
        for name, users in by_name.items()
    ],
    frozen=True,
    kw_only=True,
)


@dataclasses.dataclass(frozen=True)
class ThreePhaseConfig(_OptionFields):  # type: ignore[valid-type, misc]
  """Settings of a three-phase run, checked and completed as it is made.

  `None` stands for "not given". The options of partitions, models, aggregators and methods
  are attributes too. An option of a choice that was not made is refused when it is given
  and stays `None` otherwise. Those of the chosen model, aggregator and methods are completed
  with their defaults, so a saved configuration says every value that was used.

  Attributes:
    dataset: A key of `tasks.registry.DATASETS`; `None` for a task of the caller's own, see
      `for_task`.
    num_clients: Number of clients, new ones included.
    num_new_clients: How many of them don't train: they come when the training is over, and
      every method finds a model for them.
    partition: How a data set without clients of its own is split; `natural` for
      federated EMNIST.
    model: A key of `tasks.models.MODELS`; `None` for the data set's default, or the model of the
      caller's own task.
    tables: How the tables of own clients are read, `TableOptions` or a dict of its fields; `None`
      for other data.
    test_share: The share of every such client's rows that is for testing; `None` for the
      default, or where a column says it.
    pretrain_rounds: Rounds of phase 1.
    cluster_rounds: Rounds of phase 2.
    client_epochs_per_round: Passes of a client over its data per round.
    clients_per_round: Clients that take part in a round; `None` = all.
    batch_size: Examples per step of SGD.
    learning_rate: Step size of SGD.
    aggregator: How phase 1 averages, a key of `engine.aggregation.AGGREGATORS`.
    methods: Keys of `methods.registry.METHODS`; may be empty.  Controls, which always run,
      may be named too.
    num_clusters_criterion: What chooses the number of clusters with num_clusters=auto, a key
      of `grouping.num_clusters.CRITERIA`.
    grouping_epochs: Local epochs from the final global model after which the
      weights that are grouped are taken; `None` = those of the last round.
    control_repeats: How often the control `fedavg` is trained again, to know how much chance
      there is in training.
    target_accuracy: The accuracy whose share of clients is reported.
    seed: Seed of everything random but the noise of `dp`.
  """

  dataset: Optional[str] = "auto"
  num_clients: int = 100
  num_new_clients: int = 0
  partition: Optional[str] = None
  model: Optional[str] = None
  tables: Optional[table_options.TableOptions] = None
  test_share: Optional[float] = None
  pretrain_rounds: int = 20
  cluster_rounds: int = 20
  client_epochs_per_round: int = 1
  clients_per_round: Optional[int] = None
  batch_size: int = 20
  learning_rate: float = 0.1
  aggregator: str = "mean"
  methods: tuple[str, ...] = ("kmeans", "dynamic_distance", "hierarchical")
  num_clusters_criterion: Optional[str] = None
  grouping_epochs: Optional[int] = None
  control_repeats: int = 4
  target_accuracy: float = 0.9
  seed: int = 0

  def __post_init__(self):
    self._check_task()
    self._check_training()
    self._check_aggregator()
    self._check_methods()

  @classmethod
  def for_task(cls, task, **settings):
    """Returns the settings of a run on a task of the caller's own.

    Args:
      task: The `FederatedTask`, which has its data, its clients and its model.
      **settings: Any other settings, by name.
    """
    return cls(
        dataset=None, model=None, num_clients=len(task.all_clients),
        num_new_clients=len(task.new_clients), **settings,
    )

  def _set(self, name, value):
    object.__setattr__(self, name, value)

  def _check_task(self):
    validate.integer(1, _MAX_INT, num_clients=self.num_clients)
    validate.integer(0, self.num_clients - 1, num_new_clients=self.num_new_clients)
    validate.integer(0, seed=self.seed)
    if self.dataset is None:
      self._check_own_task()
      return
    task_registry.check_options(
        self.dataset, self.partition, num_clients=self.num_clients, **self.partition_options
    )
    self._complete_tables()
    if self.model is None:
      self._set("model", task_registry.DATASETS[self.dataset].default_model)
    validate.one_of(models.MODELS, model=self.model)
    self._complete_options_of("model")
    models.choose(self.model, **self.model_options)

  def _complete_tables(self):
    if isinstance(self.tables, dict):  # As in JSON.
      self._set("tables", table_options.TableOptions.from_json(self.tables))
    task_registry.check_tables(self.dataset, self.tables, self.test_share)

  def _check_own_task(self):
    own = {name: getattr(self, name) for name in ("model", "partition", "tables", "test_share")}
    for name, value in {**own, **self.partition_options, **self.model_options}.items():
      if value is not None:
        raise validate.error(name, "be None for a task of your own, which has its own", value)

  def _check_training(self):
    validate.integer(1, _MAX_ROUNDS, pretrain_rounds=self.pretrain_rounds)
    validate.integer(1, _MAX_ROUNDS, cluster_rounds=self.cluster_rounds)
    validate.integer(1, _MAX_INT, client_epochs_per_round=self.client_epochs_per_round)
    validate.integer(1, _MAX_BATCH_SIZE, batch_size=self.batch_size)
    validate.float32(learning_rate=self.learning_rate)
    validate.integer(0, _MAX_REPEATS, control_repeats=self.control_repeats)
    validate.up_to(1, target_accuracy=self.target_accuracy)
    if self.clients_per_round is not None:
      validate.integer(1, self.num_training_clients, clients_per_round=self.clients_per_round)
    if self.grouping_epochs is not None:
      validate.integer(1, _MAX_INT, grouping_epochs=self.grouping_epochs)

  def _check_aggregator(self):
    validate.one_of(aggregation.AGGREGATORS, aggregator=self.aggregator)
    self._complete_options_of("aggregator")
    # It checks its own options.
    self.build_aggregator()

  def _complete_options_of(self, setting):
    """Completes the options of the choice that a setting names, and refuses the others'."""
    choice = getattr(self, setting)
    for name, users in OPTIONS[setting].items():
      value = getattr(self, name)
      if choice in users:
        self._complete(users[choice])
      elif value is not None:
        raise ValueError(f"`{name}` must not be given with {setting}={choice}, got {value!r}.")

  def _check_methods(self):
    self._set("methods", tuple(self.methods))
    for name in self.methods:
      validate.one_of({**method_registry.METHODS, **method_registry.CONTROLS}, methods=name)
    if len(set(self.methods)) != len(self.methods):
      raise validate.error("methods", "name every method once", self.methods)
    for name, users in OPTIONS["methods"].items():
      if any(one.selects for one in users.values()):
        self._check_selector(name, users)
    used = [self._options_in_use(name) for name in self.chosen_methods]
    for name in OPTIONS["methods"]:
      value = getattr(self, name)
      mine = next((options_of[name] for options_of in used if name in options_of), None)
      if mine is None:
        if value is not None:
          raise ValueError(
              f"`{name}` must be given only with a method that uses it, got "
              f"{value!r} with methods={','.join(self.methods)}{self._selected_text()}."
          )
        continue
      self._complete(mine)
    for name, users in OPTIONS["methods"].items():
      value = getattr(self, name)
      one = next(iter(users.values()))
      if value not in (None, one.word) and one.up_to_num_clients:
        validate.integer(1, self.num_training_clients, **{name: value})
    self._check_criterion()
    # They check their own options.
    checked = self.with_num_clusters(1) if self.chooses_num_clusters else self
    for name in self.chosen_methods:
      checked.method_settings(name)

  def _check_criterion(self):
    if self.chooses_num_clusters:
      if self.num_clusters_criterion is None:
        self._set("num_clusters_criterion", num_clusters_lib.DEFAULT_CRITERION)
      validate.one_of(
          num_clusters_lib.CRITERIA, num_clusters_criterion=self.num_clusters_criterion
      )
    elif self.num_clusters_criterion is not None:
      raise validate.error(
          "num_clusters_criterion",
          f"be given only with num_clusters={grouping.AUTO}",
          self.num_clusters_criterion,
      )

  def _complete(self, option):
    if getattr(self, option.name) is None:
      self._set(option.name, option.value_for(self.num_training_clients))

  def _check_selector(self, name, users):
    """Completes and checks an option that decides which others are in use."""
    chosen = [method for method in self.chosen_methods if method in users]
    if not chosen:
      if getattr(self, name) is not None:
        raise ValueError(
            f"`{name}` must be given only with the method {' or '.join(users)}, got "
            f"{getattr(self, name)!r}."
        )
      return
    selects = users[chosen[0]].selects
    if getattr(self, name) is None:
      self._set(name, self._meant(selects, chosen))
    validate.one_of(selects, **{name: getattr(self, name)})

  def _meant(self, selects, chosen):
    """Returns the value of a selector that the other options given ask for."""
    # An option that another method uses may not be meant for this one.
    used_by_others = {
        option
        for method in self.chosen_methods
        if method not in chosen
        for option in options.of(method_registry.METHODS[method].settings)
    }
    usual, *others = selects
    for value in others:
      for option in selects[value]:
        if getattr(self, option) is not None and option not in used_by_others:
          return value
    return usual

  def _selected_text(self):
    """Returns what the selectors decided, for a message."""
    return "".join(
        f" and {name}={getattr(self, name)}"
        for name, users in OPTIONS["methods"].items()
        if any(one.selects for one in users.values()) and getattr(self, name) is not None
    )

  def _options_in_use(self, method):
    """Returns the options that `method` takes in this run, by name."""
    found = options.of(method_registry.METHODS[method].settings)
    selectors = [one for one in found.values() if one.selects]
    for selector in selectors:
      for value, names in selector.selects.items():
        if value != getattr(self, selector.name):
          found = {name: one for name, one in found.items() if name not in names}
    return found

  @property
  def num_training_clients(self):
    """Number of clients that train."""
    return self.num_clients - self.num_new_clients

  @property
  def chosen_methods(self):
    """The methods that were chosen, without controls."""
    return tuple(name for name in self.methods if name in method_registry.METHODS)

  @property
  def chooses_num_clusters(self):
    """Whether the run finds the number of clusters."""
    return self.num_clusters == grouping.AUTO

  def with_num_clusters(self, num_clusters):
    """Returns these settings with the number of clusters that the run found.

    Args:
      num_clusters: The number.
    """
    return dataclasses.replace(
        self, num_clusters=num_clusters, num_clusters_criterion=None
    )

  @property
  def partition_options(self):
    """The options of partitions, by name; `None` where one is not given."""
    return {name: getattr(self, name) for name in OPTIONS["partition"]}

  @property
  def model_options(self):
    """The same of the options of models."""
    return {name: getattr(self, name) for name in OPTIONS["model"]}

  def training_settings(self):
    """Returns the settings that phase 1 follows from, a dict for JSON."""
    others = {
        "methods", "cluster_rounds", "control_repeats", "num_clusters_criterion",
        "target_accuracy", *OPTIONS["methods"],
    }
    return {name: value for name, value in self.to_json().items() if name not in others}

  def options_of(self, name):
    """Returns the values of a method's options in this run, a dict for JSON.

    Args:
      name: The name of a method; a control has no options.
    """
    if name not in method_registry.METHODS:
      return {}
    return {option: getattr(self, option) for option in self._options_in_use(name)}

  def build_aggregator(self):
    """Returns the aggregator, an instance of a class in `aggregation.AGGREGATORS`."""
    chosen = aggregation.AGGREGATORS[self.aggregator]
    return chosen(**{name: getattr(self, name) for name in options.of(chosen)})

  def method_settings(self, name, **overrides):
    """Returns the settings of a method with this run's options; of a grouping, itself.

    Args:
      name: A key of `methods.registry.METHODS`.
      **overrides: Options to use instead of this run's.
    """
    return method_registry.METHODS[name].settings(**{**self.options_of(name), **overrides})

  def to_json(self):
    """Returns a dict of plain values; options follow the choice that they belong to."""
    values = {}
    for setting in _SETTINGS:
      for name in (setting, *OPTIONS.get(setting, ())):
        values[name] = getattr(self, name)
    tables = None if self.tables is None else self.tables.to_json()
    return {**values, "methods": list(self.methods), "tables": tables}


# The settings that are no options.
_SETTINGS = tuple(ThreePhaseConfig.__annotations__)


def _option_docs():
  """Returns the options' part of the configuration's docstring."""
  documented = []
  for setting, by_name in OPTIONS.items():
    for name, users in by_name.items():
      if name in _SETTINGS:
        raise TypeError(f"`{name}` must be the name of one setting, got a second one.")
      text = f"{name}: Option of `{setting}`. {options.describe(users)}"
      documented.append(
          textwrap.fill(text, 88, initial_indent=" " * 4, subsequent_indent=" " * 6)
      )
  return "\n".join([*documented, ""])


ThreePhaseConfig.__doc__ = f"{(ThreePhaseConfig.__doc__ or '').rstrip()}\n{_option_docs()}"
