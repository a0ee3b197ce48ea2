"""The configuration of a three-phase run: everything that changes its result.

Paths, threads and other things that do not change a number are arguments of the functions
that need them.
"""

import dataclasses
import functools
import itertools
import textwrap
from typing import Any, Mapping, TYPE_CHECKING

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.engine import engines
from fl_clustering.methods import grouping
from fl_clustering.methods import registry as method_registry
from fl_clustering.tasks import held_out
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
# All others of a task's settings are decided where the task is the caller's own.
_NOT_OF_TASKS = ("num_clients", "num_new_clients", "seed")


def _positive(maximum: int) -> functools.partial[None]:
  return functools.partial(validate.integer, 1, maximum)


def _none_or_several(**repeats: int) -> None:
  validate.integer(0, _MAX_REPEATS, **repeats)
  for name, number in repeats.items():
    if number == 1:
      raise validate.error(name, "be 0 or at least 2, as one says too little of chance", number)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ThreePhaseConfig(held_out.HeldOut, task_registry.TaskOptions):
  """Settings of a three-phase run, checked and completed as it is made.

  `None` stands for "not given". The options of partitions, models and methods are
  attributes too. An option of a choice that was not made is refused when it is given and stays
  `None` otherwise. Those of the chosen model and methods are completed with their defaults, so a
  saved configuration says every value that was used.

  `dataset` and `model` are `None` for a task of the caller's own, see `for_task`.

  Attributes:
  """

  dataset: str | None = options.changed(task_registry.TaskOptions, "dataset", may_be_none=True)
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
  evaluated_clients: int | None = options.option(
      int,
      "On how many clients' data models are evaluated, after every round and at the end, drawn at "
      "random once.",
      None, default_text="all",
  )
  batch_size: int = options.option(
      int, "Examples per step of SGD.", 20, rule=_positive(_MAX_BATCH_SIZE)
  )
  learning_rate: float = options.option(
      float, "Step size of SGD.", 0.1,
      rule=functools.partial(validate.within, 1e-30, 1e30),  # The middle of float32's range.
  )
  engine: str = options.option(
      str,
      "What trains the clients' models. " + options.listed(engines.ENGINES) + " Each draws its own "
      "random numbers, so their runs differ as those of two seeds do.",
      None, values=engines.ENGINES,
      default_text="tff; jax where TensorFlow Federated is not installed",
  )
  methods: tuple[str, ...] = options.option(
      str,
      "Comma-separated, of: " + ", ".join(method_registry.METHODS) + ". All that build on phase 1 "
      "share it.",
      ("kmeans", "dynamic_distance", "hierarchical"), several=True, may_be_empty=True,
      values=method_registry.METHODS, choices=method_registry.METHODS,
  )
  controls: tuple[str, ...] = options.option(
      str,
      "Comma-separated, of: " + ", ".join(method_registry.CONTROLS) + ". What runs beside the "
      "methods; fedavg, with which all are compared, must be among them. The others keep a model "
      "per client.",
      tuple(method_registry.CONTROLS), several=True, values=method_registry.CONTROLS,
  )
  personal: tuple[str, ...] = options.option(
      str,
      "Comma-separated, of: " + ", ".join(method_registry.PERSONAL) + ". Controls that give every "
      "client a model of its own, which depends on the others'.",
      (), several=True, may_be_empty=True, values=method_registry.PERSONAL,
      choices=method_registry.PERSONAL,
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

  def __post_init__(self) -> None:
    self._set("methods", tuple(self.methods))
    self._set("personal", tuple(self.personal))
    self._set("controls", tuple(self.controls))
    super().__post_init__()
    self._set("engine", self.engine or engines.usual())
    self._check_clients()
    if self.dataset is None:
      self._check_own_task()
    else:
      self.check_rows(self.schema)
      draws = self.examples_per_client is not None
      if self.validation_share is None:
        self._set("validation_share", 0.0 if draws else held_out.VALIDATION_SHARE)
      if draws and self.validation_share:
        rule = "be 0 with `examples_per_client`, which draws an image for several clients"
        raise validate.error("validation_share", rule, self.validation_share)
    if method_registry.FEDAVG not in self.controls:
      raise validate.error("controls", f"hold {method_registry.FEDAVG}", ",".join(self.controls))
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
      **settings: Any other settings, by name; the usual engine is one that is installed and can
        compute the model.
    """
    settings = {"engine": engines.of_model(task.model), **settings}
    return cls(
        dataset=None, num_clients=len(task.clients) + len(task.new_clients),
        num_new_clients=len(task.new_clients), **settings,
    )

  def _check_clients(self) -> None:
    validate.integer(1, num_clients=self.num_clients)
    validate.integer(0, self.num_clients - 1, num_new_clients=self.num_new_clients)
    for name in ("clients_per_round", "evaluated_clients"):
      if getattr(self, name) is not None:
        validate.integer(1, self.num_training_clients, **{name: getattr(self, name)})

  def _check_own_task(self) -> None:
    of_tasks = map(dataclasses.fields, type(self).__bases__)
    for field in itertools.chain(*of_tasks):
      value = getattr(self, field.name)
      if value is not None and field.name not in _NOT_OF_TASKS:
        raise validate.error(
            field.name, "be None for a task of your own, which has its own", value
        )

  def _complete_options_of(self, setting: str) -> None:
    """Completes the options that the choices of a setting use, and refuses the others."""
    names = getattr(self, setting)
    rows = list(map(method_registry.entry, names))
    used = {name: option for row in rows for name, option in self._options_in_use(row).items()}
    for name, users in self.of_choices[setting].items():
      value = getattr(self, name)
      if name in used and value is None:
        self._set(name, used[name].value_for(self.num_training_clients))
      elif name not in used and value is not None:
        selected = "".join(
            f" and {one.name}={getattr(self, one.name)}"
            for row in rows for one in options.of(row).values() if one.selects
        )
        raise ValueError(
            f"`{name}` must be given only where {' or '.join(users)} uses it, got {value!r} with "
            f"{setting}={','.join(names) or 'none'}{selected}."
        )

  def _check_methods(self) -> None:
    own = {name: options.of(method_registry.METHODS[name]) for name in self.methods}
    for found in own.values():
      for option in found.values():
        if option.selects and getattr(self, option.name) is None:
          of_others = {name for other in own.values() if option.name not in other for name in other}
          self._set(option.name, self._selected(option.selects, of_others))
    self._complete_options_of("methods")
    if self.num_clusters not in (None, grouping.AUTO):
      validate.integer(1, self.num_training_clients, num_clusters=self.num_clusters)
    self._check_sketch()
    # They check their own options.
    checked = self.with_num_clusters(1) if self.chooses_num_clusters else self
    for method in self.methods:
      checked.method_settings(method)

  def _selected(self, selects: Mapping[str, tuple[str, ...]], of_others: set[str]) -> str:
    """Returns the usual value of an option that decides which others its method uses.

    It gives way to the one that comes with an option which is given and which no method without
    this selector has.
    """
    usual, *others = selects
    return next(
        (
            value for value in others for name in selects[value]
            if getattr(self, name) is not None and name not in of_others
        ),
        usual,
    )

  def _check_personal(self) -> None:
    self._complete_options_of("personal")
    for name in self.personal:
      self.method_settings(name)  # It checks its own options.

  def _check_sketch(self) -> None:
    if self.representation == grouping.SKETCH:
      for name, is_bad in (
          ("num_clusters", self.chooses_num_clusters),
          ("grouping_epochs", self.grouping_epochs is not None),
      ):
        if is_bad:
          raise validate.error(
              name, f"need no weights with representation={grouping.SKETCH}", getattr(self, name)
          )

  def _options_in_use(self, row: Any) -> dict[str, options.Option]:
    """Returns the options that a choice, a row of its registry, takes in this run, by name."""
    found = options.of(row)
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
  def chooses_num_clusters(self) -> bool:
    """Whether the run finds the number of clusters."""
    return self.num_clusters == grouping.AUTO

  def with_num_clusters(self, num_clusters: int) -> "ThreePhaseConfig":
    """Returns these settings with the number of clusters that the run found."""
    found: dict[str, Any] = {"num_clusters": num_clusters}
    return dataclasses.replace(self, **found)

  def training_settings(self) -> dict[str, Any]:
    """Returns the settings that phase 1 follows from, a dict for JSON."""
    others = {
        "methods", "controls", "personal", "article_weights", "cluster_rounds", "control_repeats",
        "method_repeats", "target_accuracy",
        *self.of_choices["methods"], *self.of_choices["personal"],
    }
    return {name: value for name, value in self.to_json().items() if name not in others}

  def options_of(self, name: str) -> dict[str, Any]:
    """Returns the values of a method's options in this run, for JSON; other controls have none."""
    if name in method_registry.CONTROLS:
      return {}
    return {n: getattr(self, n) for n in self._options_in_use(method_registry.entry(name))}

  def repeats_of(self, name: str) -> int:
    """Returns how often a method or control is trained again."""
    if name == method_registry.FEDAVG:
      return self.control_repeats
    return self.method_repeats or 0 if name in self.methods else 0

  def method_settings(self, name: str, **overrides: Any) -> Any:
    """Returns the settings of a method with this run's options; of a grouping, itself.

    Args:
      name: A key of `registry.METHODS` or `registry.PERSONAL`.
      **overrides: Options to use instead of this run's.
    """
    return method_registry.entry(name).settings(**{**self.options_of(name), **overrides})


def _documented() -> str:
  """Returns the attributes' part of the configuration's docstring."""
  texts = {name: option.described() for name, option in options.of(ThreePhaseConfig).items()}
  texts["schema"] = "What the tables of own clients hold, a `Schema`."
  return "\n".join(
      textwrap.fill(f"{name}: {text}", 88, initial_indent=" " * 4, subsequent_indent=" " * 6)
      for name, text in texts.items()
  )


ThreePhaseConfig.__doc__ = f"{(ThreePhaseConfig.__doc__ or '').rstrip()}\n{_documented()}\n"
