"""The settings of the federated k-means experiment, checked as they are made."""

import dataclasses
from typing import Optional

from clustering_basics import validate
from fl_clustering import model_folder
from fl_clustering.kmeans import kmeans_config
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.tables import table_options

# Files of a run of the papers' experiments,
MEASUREMENTS = "measurements.csv"
TIMING = "timing.json"
# and of one on the user's own data.
K_SELECTION = "k_selection.csv"
CENTROIDS = "centroids.csv"
ROUNDS = "rounds.csv"
ASSIGNMENTS = "assignments"
PROFILES = "profiles.csv"
MODEL = model_folder.MODEL

# What a source shows, in the order of the report; `cells.FIGURES` says which cells it needs.
FIGURES = ("regular", "noise", "rounds", "extreme", "real", "sse", "privacy")
REAL_DATASETS = ("digits", "emnist", "auto")
_DEFAULT_RANGE = (2, 10)
_NEEDED_WITH_EPSILON = ("delta", "radius", "num_clusters")
_OF_EPSILON = ("delta", "radius", "max_points", "trust", "min_clients")


@dataclasses.dataclass(frozen=True)
class PaperConfig:
  """Everything that changes a number of the papers' experiments.

  Attributes:
    figures: Names in `FIGURES`.
    dataset: The real data, one of `REAL_DATASETS`.
    seed: The first seed.
    num_seeds: How many seeds, one after another.
  """

  figures: tuple[str, ...] = FIGURES
  dataset: str = "digits"
  seed: int = 0
  num_seeds: int = 2

  def __post_init__(self):
    if not self.figures or len(set(self.figures)) < len(self.figures):
      raise validate.error("figure", "name each figure once", ",".join(self.figures))
    for name in self.figures:
      validate.one_of(FIGURES, figure=name)
    validate.one_of(REAL_DATASETS, dataset=self.dataset)
    validate.integer(minimum=0, seed=self.seed)
    validate.integer(minimum=1, seeds=self.num_seeds)

  @property
  def seeds(self):
    return range(self.seed, self.seed + self.num_seeds)

  def to_json(self):
    """Returns the settings as a dict for JSON."""
    return {**dataclasses.asdict(self), "figures": list(self.figures)}


@dataclasses.dataclass(frozen=True)
class OwnDataConfig:
  """Everything that changes the clusters of the user's own data.

  Attributes:
    num_clusters: Number of clusters, or None to choose it from `k_range`.
    k_range: The least and the largest number to try, or None.
    algorithm: A key of `kmeans_config.ALGORITHM_DEFAULTS`.
    n_init: Number of restarts, of which the best is taken; None for the algorithm's.
    min_count: The least number of points whose mean leaves a client; None for the
      algorithm's.
    standardize: Whether every column is brought to variance one over all clients.
    epsilon: Privacy budget of the fit, or None for no privacy.
    delta: As in `privacy.PointPrivacy`; None without `epsilon`.
    radius: Likewise.
    max_points: Likewise; as in `privacy.ClientPrivacy`, or None for privacy of points.
    trust: Likewise; one of `privacy.TRUST`, or None for its default.
    tables: The `TableOptions` of the clients' files.
    min_clients: Likewise.
    seed: Decides everything random but the noise.
  """

  num_clusters: Optional[int] = None
  k_range: Optional[tuple[int, int]] = None
  algorithm: str = "sums"
  n_init: Optional[int] = None
  min_count: Optional[int] = None
  standardize: bool = False
  epsilon: Optional[float] = None
  delta: Optional[float] = None
  radius: Optional[float] = None
  max_points: Optional[int] = None
  trust: Optional[str] = None
  tables: table_options.TableOptions = table_options.TableOptions()
  min_clients: Optional[int] = None
  seed: int = 0

  def __post_init__(self):
    self._check_privacy()
    if self.num_clusters is not None and self.k_range is not None:
      raise ValueError(
          f"`k_range` must be left out with `num_clusters`, got {self.k_range}."
      )
    if self.num_clusters is not None:
      validate.integer(minimum=1, num_clusters=self.num_clusters)
    elif self.k_range is None:
      object.__setattr__(self, "k_range", _DEFAULT_RANGE)
    if self.k_range is not None:
      # The silhouette compares with a second cluster.
      validate.integer(minimum=2, k_range=self.k_range[0])
      validate.integer(minimum=self.k_range[0], k_range=self.k_range[1])
    self.kmeans(self.candidates[0])  # Checks the rest.

  def _check_privacy(self):
    if self.epsilon is None:
      refused, rule = _OF_EPSILON, "be left out without `epsilon`"
    else:
      # Each number of clusters that is tried would cost budget, and so would the columns' scale.
      refused, rule = ("k_range", "standardize"), "be left out with `epsilon`"
    for name in refused:
      if getattr(self, name) not in (None, False):
        raise validate.error(name, rule, getattr(self, name))
    if self.epsilon is None:
      return
    # Names of levels and means of columns would leave the clients without noise.
    for name in ("categories", "missing"):
      value = getattr(self.tables, name)
      if value != getattr(table_options.TableOptions(), name):
        raise validate.error(name, "be left out with `epsilon`", value)
    if not self.tables.allow_any_number:
      tables = dataclasses.replace(self.tables, allow_any_number=True)
      object.__setattr__(self, "tables", tables)
    if self.algorithm != "sums":
      rule = f"be left out with `algorithm`={self.algorithm!r}"
      raise validate.error("epsilon", rule, self.epsilon)
    for name in _NEEDED_WITH_EPSILON:
      if getattr(self, name) is None:
        raise validate.error(name, "be given with `epsilon`", None)

  @property
  def privacy(self):
    """The `PointPrivacy` or `ClientPrivacy`, or None."""
    if self.epsilon is None:
      return None
    trust = privacy_lib.SERVER if self.trust is None else self.trust
    if self.max_points is None:
      return privacy_lib.PointPrivacy(
          self.epsilon, self.delta, self.radius, trust, self.min_clients
      )
    return privacy_lib.ClientPrivacy(
        self.epsilon, self.delta, self.radius, self.max_points, trust, self.min_clients
    )

  @property
  def candidates(self):
    """The numbers of clusters to try."""
    if self.num_clusters is not None:
      return (self.num_clusters,)
    return tuple(range(self.k_range[0], self.k_range[1] + 1))

  def check_enough_points(self, num_points):
    """Raises a ValueError unless there are as many points as clusters to try."""
    # The number of points of a private fit is secret, and may be too small.
    if self.privacy is None and self.candidates[-1] > num_points:
      name = "k_range" if self.num_clusters is None else "num_clusters"
      raise validate.error(
          name, f"be at most the {num_points} points of all clients", self.candidates[-1]
      )

  def check_enough_clients(self, num_clients):
    """Raises a ValueError unless there are as many clients as shares of the noise."""
    if self.privacy is not None:
      privacy_lib.least_shares(self.privacy, num_clients)

  def kmeans(self, num_clusters):
    """Returns the `KMeansConfig` for a number of clusters."""
    return kmeans_config.KMeansConfig(
        num_clusters,
        self.algorithm,
        n_init=self.n_init,
        min_count=self.min_count,
        privacy=self.privacy,
        standardize=self.standardize,
        seed=self.seed,
    )

  def to_json(self):
    """Returns the settings as a dict for JSON."""
    return {
        **dataclasses.asdict(self), "k_range": self.k_range and list(self.k_range),
        "tables": self.tables.to_json(),
    }

  @classmethod
  def from_json(cls, settings):
    """Returns the settings that `to_json` returned as a dict."""
    return cls(**{
        **settings, "k_range": settings["k_range"] and tuple(settings["k_range"]),
        "tables": table_options.TableOptions.from_json(settings["tables"]),
    })
