"""The settings of private clustered training: everything that changes its numbers."""

from __future__ import annotations

import dataclasses
import functools
import math

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.engine import engines
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.private_clusters import plan as plan_lib
from fl_clustering.tasks import registry as task_registry

_MAX_INT = 2**31 - 1
_DEFAULTS = plan_lib.PrivateClusters
_AT_LEAST_ONE = functools.partial(validate.integer, 1, _MAX_INT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivateClustersConfig(task_registry.TaskOptions):
  """The settings of a run, checked and completed when made; of tables, the schema is public."""

  model: str = options.changed(
      task_registry.TaskOptions, "model", default="logistic", default_text=None
  )
  seed: int = options.changed(
      task_registry.TaskOptions, "seed", about="Seed of everything random that is no secret."
  )
  num_clusters: int = options.option(int, "Number of clusters.", 4, rule=_AT_LEAST_ONE)
  epsilon: tuple[float, ...] = options.option(
      float,
      "The budget for one client and the whole run. A list, such as 2,4,8, is a sweep in a "
      "simulation: on real clients budgets would add up.",
      (8.0,), several=True, rule=validate.positive,
  )
  delta: float = options.option(
      float, "The budget's delta; below 1 / number of clients.", 1e-5,
      rule=functools.partial(validate.between, 0, 1),
  )
  rounds: int = options.option(int, "Rounds of training.", _DEFAULTS.rounds, rule=_AT_LEAST_ONE)
  clients_per_round: int | None = options.option(
      int,
      "At most how many clients take part in a round. They take turns, so that each takes part in "
      "as many rounds, and pays for these alone. --rounds must be a multiple of the rounds in "
      "which every client takes part once.",
      None, default_text="all", rule=_AT_LEAST_ONE,
  )
  local_steps: int = options.option(
      int, "A client's gradient steps in a round, each on all of its examples.",
      _DEFAULTS.local_steps, rule=_AT_LEAST_ONE,
  )
  learning_rate: float = options.option(
      float, "Size of these steps.", _DEFAULTS.learning_rate, rule=validate.positive
  )
  target_unclipped_quantile: float = options.option(
      float,
      "The share of updates that are sent as they are; longer ones are clipped. The noise grows "
      "with the clip norm, which pays where it is small: with many clients.",
      _DEFAULTS.target_unclipped_quantile, rule=functools.partial(validate.within, 0.1, 0.9),
  )
  trust: str = options.option(
      str,
      "Who adds the noise: `server` to the sum, which it sees without noise, or with `none` every "
      "client a share of it.",
      privacy_lib.SERVER, values=privacy_lib.TRUST,
  )
  min_clients: int | None = options.option(
      int, "With --trust=none, how many clients' shares of the noise count.", None,
      default_text="all",
  )
  engine: str = options.option(
      str, "What trains the clients' models. " + options.listed(engines.ENGINES), None,
      values=engines.ENGINES,
      default_text="tff; jax where TensorFlow Federated is not installed",
  )
  simulation: bool | None = options.option(
      bool,
      "Whether the clients are played for an experiment. Then methods without privacy run beside "
      "it, exact accuracies are written, marked as NOT private, and noise follows --seed, which "
      "is NOT private either. Without it, noise is secure and nothing but noisy sums is written; "
      "that takes clients' own tables and their schema.",
      None, default_text="no with --dataset=files, else yes",
  )
  evaluated_clients: int | None = options.option(
      int,
      "Of a simulation: on how many clients' data the models are evaluated at the end, drawn at "
      "random once.",
      None, default_text="all", rule=_AT_LEAST_ONE,
  )
  num_seeds: int = options.option(
      int, "How often a simulation is repeated, with other data and noise.", 1, rule=_AT_LEAST_ONE
  )

  def __post_init__(self) -> None:
    self._set("epsilon", tuple(map(float, self.epsilon)))
    self._set("engine", self.engine or engines.usual())
    self._check_data()
    super().__post_init__()
    if not self.simulation:
      for name, number in (("epsilon", len(self.epsilon)), ("num_seeds", self.num_seeds)):
        if number > 1:
          raise validate.error(
              name, "be one without `simulation`, as budgets add up", getattr(self, name)
          )
      if self.evaluated_clients is not None:
        raise validate.error(
            "evaluated_clients", "be left out without `simulation`", self.evaluated_clients
        )
    for epsilon in self.epsilon:
      self.settings(epsilon)

  def _check_data(self) -> None:
    if self.reads_tables and self.schema is None:
      raise ValueError(
          f"`schema` must be given for `dataset` {self.dataset}, as no private row may decide how "
          "rows are read, got None; experiments:draft_schema drafts one from a public sample."
      )
    if self.reads_tables and self.num_clients is not None:
      raise validate.error(
          "num_clients", f"be left out for `dataset` {self.dataset}", self.num_clients
      )
    if self.simulation is None:
      self._set("simulation", not self.reads_tables)
    if not self.simulation and not self.reads_tables:
      # Shapes, classes and words would come from the data, and a partition deals out the rows of
      # all clients by what they are.
      raise validate.error(
          "simulation",
          f"be left on with `dataset` {self.dataset}: a private run takes tables, of which a "
          "schema says what is public",
          self.simulation,
      )

  def settings(self, epsilon: float, num_clusters: int | None = None) -> plan_lib.PrivateClusters:
    """Returns the settings of a training with this budget; `inf` for none."""
    names = (field.name for field in dataclasses.fields(plan_lib.PrivateClusters))
    values = {**{name: getattr(self, name) for name in names}, "epsilon": epsilon}
    if num_clusters is not None:
      values["num_clusters"] = num_clusters
    if epsilon == math.inf:
      values |= {"trust": privacy_lib.SERVER, "min_clients": None}  # No noise is to be shared.
    return plan_lib.PrivateClusters(**values)
