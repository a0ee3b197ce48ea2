"""The configuration of a three-phase run: everything that changes its result.

Paths, threads and other things that do not change a number are not here, but
arguments of whoever needs them.
"""

import dataclasses
from typing import Optional, Union

from clustering_basics import validate
from fl_clustering.engine import aggregation
from fl_clustering.grouping import dynamic_distance
from fl_clustering.grouping import registry as grouping_registry
from fl_clustering.tasks import models
from fl_clustering.tasks import registry as task_registry

HIERARCHICAL_CUTS = ("num_clusters", "distance")
_DEFAULT_NUM_CLUSTERS = 8

# Bounds of what TensorFlow gets: integers of 32 bits, of which a batch and a client's
# examples must be one together, and floats in the middle of float32's range.
_MAX_INT = 2**31 - 1
_MAX_BATCH_SIZE = 2**30
_MAX_ROUNDS = 100_000
_FLOAT_RANGE = (1e-30, 1e30)
# Outside, an epsilon means nothing, and its computation would lose its precision.
_NOISE_MULTIPLIER_RANGE = (1e-3, 1e6)

# Defaults of the options of groupings.
_GROUPING_DEFAULTS = {
    "distance_threshold": "mean",
    "max_clusters": 32,
    "linkage": "average",
    "metric": "cosine",
    "representation": "weights",
}


@dataclasses.dataclass(frozen=True)
class ThreePhaseConfig:
  """Settings of a three-phase run, checked and completed as it is made.

  `None` stands for "not given". An option that belongs to a choice which was
  not made (such as `linkage` without the hierarchical grouping) is refused when
  it is given and stays `None` otherwise; the others are completed with their
  defaults, so that a saved configuration says every value that was used.

  Attributes:
    dataset: A key of `tasks.registry.DATASETS`.
    num_clients: Number of clients.
    partition: How a data set without clients of its own is split; `natural` for
      federated EMNIST.
    dirichlet_alpha: Concentration of the Dirichlet distribution; small = skewed.
    num_groups: Number of true groups of a partition that has them.
    model: A key of `tasks.models.MODELS`.
    pretrain_rounds: Rounds of phase 1.
    cluster_rounds: Rounds of phase 2.
    client_epochs_per_round: Passes of a client over its data per round.
    clients_per_round: Clients that take part in a round; `None` = all.
    batch_size: Examples per step of SGD.
    learning_rate: Step size of SGD.
    aggregator: How phase 1 averages: `mean`, `clipped` or `dp`.
    clipping_norm: L2 norm that updates are clipped to.
    noise_multiplier: Standard deviation of the noise of `dp` on the sum of the
      updates, in units of `clipping_norm`.
    dp_delta: The delta at which the epsilon of `dp` is stated.
    groupings: Keys of `grouping.registry.GROUPINGS`; may be empty.
    num_clusters: Number of clusters, where a grouping takes it.
    distance_threshold: `mean`, a number, or a quantile such as `q0.3` of the
      pairwise distances.
    hierarchical_cut: Whether the hierarchical grouping is cut at `num_clusters` or at
      `distance_threshold` (`distance`). `None` = at the distance if that is given and
      no other grouping uses it, else at the number.
    max_clusters: Most clusters of the dynamic grouping.
    linkage: Linkage of the hierarchical grouping.
    metric: Distance of the hierarchical grouping.
    representation: What of the clients' weights is grouped.
    grouping_epochs: Local epochs from the final global model after which the
      weights that are grouped are taken; `None` = those of the last round.
    target_accuracy: The accuracy whose share of clients is reported.
    seed: Seed of everything random but the noise of `dp`.
  """

  dataset: str = "auto"
  num_clients: int = 100
  partition: Optional[str] = None
  dirichlet_alpha: Optional[float] = None
  num_groups: Optional[int] = None
  model: str = "cnn_small"
  pretrain_rounds: int = 20
  cluster_rounds: int = 20
  client_epochs_per_round: int = 1
  clients_per_round: Optional[int] = None
  batch_size: int = 20
  learning_rate: float = 0.1
  aggregator: str = "mean"
  clipping_norm: Optional[float] = None
  noise_multiplier: Optional[float] = None
  dp_delta: Optional[float] = None
  groupings: tuple[str, ...] = ("kmeans", "dynamic_distance", "hierarchical")
  num_clusters: Optional[int] = None
  distance_threshold: Optional[Union[str, float]] = None
  hierarchical_cut: Optional[str] = None
  max_clusters: Optional[int] = None
  linkage: Optional[str] = None
  metric: Optional[str] = None
  representation: Optional[str] = None
  grouping_epochs: Optional[int] = None
  target_accuracy: float = 0.9
  seed: int = 0

  def __post_init__(self):
    self._check_task()
    self._check_training()
    self._check_aggregator()
    self._check_groupings()

  def _set(self, name, value):
    object.__setattr__(self, name, value)

  def _check_task(self):
    validate.one_of(task_registry.DATASETS, dataset=self.dataset)
    validate.integer(1, _MAX_INT, num_clients=self.num_clients)
    validate.one_of(models.MODELS, model=self.model)
    validate.integer(0, seed=self.seed)
    task_registry.check_options(
        dataset=self.dataset,
        partition=self.partition,
        dirichlet_alpha=self.dirichlet_alpha,
        num_groups=self.num_groups,
        num_clients=self.num_clients,
    )

  def _check_training(self):
    validate.integer(1, _MAX_ROUNDS, pretrain_rounds=self.pretrain_rounds)
    validate.integer(1, _MAX_ROUNDS, cluster_rounds=self.cluster_rounds)
    validate.integer(1, _MAX_INT, client_epochs_per_round=self.client_epochs_per_round)
    validate.integer(1, _MAX_BATCH_SIZE, batch_size=self.batch_size)
    validate.within(*_FLOAT_RANGE, learning_rate=self.learning_rate)
    validate.up_to(1, target_accuracy=self.target_accuracy)
    if self.clients_per_round is not None:
      validate.integer(1, self.num_clients, clients_per_round=self.clients_per_round)
    if self.grouping_epochs is not None:
      validate.integer(1, _MAX_INT, grouping_epochs=self.grouping_epochs)

  def _check_aggregator(self):
    validate.one_of(aggregation.AGGREGATORS, aggregator=self.aggregator)
    defaults = dict(aggregation.AGGREGATORS[self.aggregator].defaults)
    if "dp_delta" in defaults and self.dp_delta is None:
      if self.num_clients == 1:
        raise validate.error(
            "num_clients",
            f"be >= 2 with aggregator={self.aggregator} unless dp_delta is given, whose "
            "default is num_clients^-1.1",
            self.num_clients,
        )
      # The customary choice: below one over the number of records.
      defaults["dp_delta"] = self.num_clients**-1.1
    for name in ("clipping_norm", "noise_multiplier", "dp_delta"):
      value = getattr(self, name)
      if name not in defaults:
        if value is not None:
          raise ValueError(
              f"`{name}` must not be given with aggregator={self.aggregator}, "
              f"got {value!r}."
          )
        continue
      if value is None:
        self._set(name, defaults[name])
    if self.clipping_norm is not None:
      validate.within(*_FLOAT_RANGE, clipping_norm=self.clipping_norm)
    if self.noise_multiplier is not None:
      validate.within(*_NOISE_MULTIPLIER_RANGE, noise_multiplier=self.noise_multiplier)
    if self.dp_delta is not None:
      validate.between(0, 1, dp_delta=self.dp_delta)

  def _check_groupings(self):
    self._set("groupings", tuple(self.groupings))
    for name in self.groupings:
      validate.one_of(grouping_registry.GROUPINGS, groupings=name)
    if len(set(self.groupings)) != len(self.groupings):
      raise validate.error("groupings", "name every grouping once", self.groupings)
    self._check_hierarchical_cut()
    used = {option for name in self.groupings for option in self._options_of(name)}
    for name in ("num_clusters", *_GROUPING_DEFAULTS):
      value = getattr(self, name)
      if name not in used:
        if value is not None:
          raise ValueError(
              f"`{name}` must be given only with a grouping that uses it, got "
              f"{value!r} with groupings={','.join(self.groupings)}{self._cut_text()}."
          )
        continue
      if value is None:
        default = _GROUPING_DEFAULTS.get(name)
        if name == "num_clusters":
          default = min(_DEFAULT_NUM_CLUSTERS, self.num_clients)
        self._set(name, default)
    if self.num_clusters is not None:
      validate.integer(1, self.num_clients, num_clusters=self.num_clusters)
    if self.distance_threshold is not None:
      dynamic_distance.parse_threshold(self.distance_threshold)
    # The builders check their own options.
    for name in self.groupings:
      self.build_grouping(name)

  def _check_hierarchical_cut(self):
    if "hierarchical" not in self.groupings:
      if self.hierarchical_cut is not None:
        raise ValueError(
            "`hierarchical_cut` must be given only with the grouping hierarchical, "
            f"got {self.hierarchical_cut!r}."
        )
      return
    if self.hierarchical_cut is None:
      # A threshold that another grouping uses may not be meant for this one.
      is_meant = self.distance_threshold is not None and not any(
          "distance_threshold" in grouping_registry.GROUPINGS[name].options
          for name in self.groupings
          if name != "hierarchical"
      )
      self._set("hierarchical_cut", "distance" if is_meant else "num_clusters")
    validate.one_of(HIERARCHICAL_CUTS, hierarchical_cut=self.hierarchical_cut)

  def _cut_text(self):
    if self.hierarchical_cut is None:
      return ""
    return f" and hierarchical_cut={self.hierarchical_cut}"

  def _options_of(self, grouping):
    """Returns the names of the options that `grouping` takes in this run."""
    options = set(grouping_registry.GROUPINGS[grouping].options)
    if grouping == "hierarchical":
      options.discard(
          "num_clusters" if self.hierarchical_cut == "distance" else "distance_threshold"
      )
    return options

  def build_grouping(self, name, **overrides):
    """Returns the `GroupingStrategy` of this name with this run's options.

    Args:
      name: A key of `grouping.registry.GROUPINGS`.
      **overrides: Options to use instead of this run's.
    """
    options = {option: getattr(self, option) for option in self._options_of(name)}
    return grouping_registry.GROUPINGS[name].build(**{**options, **overrides})

  def to_json(self):
    """Returns a dict of plain values."""
    return {**dataclasses.asdict(self), "groupings": list(self.groupings)}

  @classmethod
  def from_json(cls, values):
    """Returns the configuration that `to_json` made the dict from."""
    return cls(**{**values, "groupings": tuple(values["groupings"])})
