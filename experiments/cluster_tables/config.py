"""The settings of the clusters of one's own tables, checked as they are made."""

from __future__ import annotations

import dataclasses
from typing import Any

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.kmeans import kmeans_config
from fl_clustering.multiview import multiview_config
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.tables import encode
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views

_DEFAULT_RANGE = (2, 10)
_NEEDED_WITH_EPSILON = ("delta", "num_clusters")
_OF_EPSILON = (
    "delta", "radius", "view_norms", "max_points", "public_num_points", "trust", "min_clients",
)
_OF_ROWS = ("k_range", "max_points", "public_num_points")
_OF_VIEWS = ("view_weights", "alpha")


@dataclasses.dataclass(frozen=True)
class Config(options.Settings):
  """Everything that changes the clusters of one's own tables.

  Attributes:
    schemas: What the tables hold, by view.
    at_sites: Whether the rows stay at their sites.  How they are protected there is in the
      federation file, but for `epsilon`, the part of its budget for this fit.
    k_range: The least and the largest number of clusters to try, if `num_clusters` is None.
    view_norms: For every view, what `radius` is for rows without views.
  """

  schemas: schema_lib.Schemas
  at_sites: bool = False
  num_clusters: int | None = options.option(
      int, "Number of clusters. Views need it, and --epsilon, and --federation.", None,
      rule=validate.AT_LEAST_ONE, default_text="that of --k_range",
  )
  k_range: tuple[int, int] | None = None
  standardize: bool | None = options.option(
      bool,
      "Scale every column to mean 0 and variance 1 over all clients first; of a column of levels, "
      "the sum of their variances. Only with exact sums.",
      None, default_text="for views with exact sums",
  )
  view_weights: str | None = options.option(
      str, "How much each view counts: the same, or by a rule that learns.", None,
      values=tuple(multiview_config.VIEW_WEIGHTS),
      default_text=multiview_config.MultiViewConfig.view_weights,
  )
  alpha: float | None = options.option(
      float, "Exponent of view weights that are learnt, > 1; closer to 1 makes them less equal.",
      None, default_text=f"{multiview_config.MultiViewConfig.alpha:g}",
  )
  epsilon: float | None = options.option(
      float,
      "Differentially private clusters with this budget (also --schema, --num_clusters and "
      "--delta). With --federation, the part of its file's budget for this fit.",
      None, default_text="no privacy; with --federation half of the file's",
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
  view_norms: tuple[float, ...] | None = None
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
  seed: int = options.option(int, "The seed.", 0, rule=validate.AT_LEAST_ZERO)

  def __post_init__(self) -> None:
    if self.has_views:
      self._check_left_out(_OF_ROWS, "for views")
    else:
      self._check_left_out(_OF_VIEWS, "without views")
    if self.at_sites:
      self._check_left_out(("k_range", *_OF_EPSILON), "of rows at sites")
    else:
      self._check_privacy()
    if self.num_clusters is not None:
      self._check_left_out(("k_range",), "with `num_clusters`")
    elif self.has_views or self.at_sites:
      place = "for views" if self.has_views else "for rows at sites"
      raise validate.error("num_clusters", f"be given {place}", None)
    super().__post_init__()
    if self.num_clusters is None and self.k_range is None:
      object.__setattr__(self, "k_range", _DEFAULT_RANGE)
    if self.k_range is not None:
      first, last = self.k_range
      if not 2 <= first <= last:  # The silhouette compares with a second cluster.
        raise ValueError(
            f"`k_range` must be FROM:TO with 2 <= FROM <= TO, got {first}:{last}."
        )
    self.settings(self.candidates[0], self.privacy is not None)  # Checks the rest.

  def _check_left_out(self, names: tuple[str, ...], rule: str) -> None:
    for name in names:
      value = getattr(self, name)
      if value is not None and value is not False:  # 0 was given.
        raise validate.error(name, f"be left out {rule}", value)

  def _check_privacy(self) -> None:
    if self.epsilon is None:
      self._check_left_out(_OF_EPSILON, "without `epsilon`")
      return
    # Each number of clusters that is tried would cost budget, and so would the columns' scale.
    self._check_left_out(("k_range", "standardize"), "with `epsilon`")
    for schema in self.schemas.values():
      schema.check_private()
      if schema.client is not None:
        # It would say in which rows there are clients.
        raise validate.error("client", "be left out of the schema with `epsilon`", schema.client)
    for name in _NEEDED_WITH_EPSILON:
      if getattr(self, name) is None:
        raise validate.error(name, "be given with `epsilon`", None)
    if self.max_points is not None:
      self._check_left_out(("public_num_points",), "with `max_points`")

  @property
  def has_views(self) -> bool:
    return schema_lib.NO_VIEW not in self.schemas

  @property
  def privacy(self) -> privacy_lib.Privacy | None:
    """What the fit guarantees here; None with exact sums and at sites."""
    if self.epsilon is None or self.at_sites:
      return None
    names = ("epsilon", "delta", "trust", "min_clients", "max_points", "public_num_points")
    given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
    norms, _ = encode.checked_norms(self.schemas, self.radius, self.view_norms)
    return privacy_lib.privacy_of(**given, **norms)

  @property
  def candidates(self) -> tuple[int, ...]:
    """The numbers of clusters to try."""
    if self.k_range is None:
      assert self.num_clusters is not None
      return (self.num_clusters,)
    first, last = self.k_range
    return tuple(range(first, last + 1))

  def settings(
      self, num_clusters: int, is_private: bool
  ) -> kmeans_config.KMeansConfig | multiview_config.MultiViewConfig:
    """Returns the settings of a fit, which at sites lack its `privacy`."""
    standardize = self.standardize
    if standardize is None:
      standardize = self.has_views and not is_private
    field_widths = tuple(width for one in self.schemas.values() for width in one.field_widths)
    shared: dict[str, Any] = {
        "n_clusters": num_clusters, "privacy": self.privacy, "standardize": standardize,
        "field_widths": field_widths if standardize else None, "seed": self.seed,
    }
    if not self.has_views:
      return kmeans_config.KMeansConfig(**shared)
    if is_private:
      shared |= multiview_config.PRIVATE_DEFAULTS
    of_views = {"view_weights": self.view_weights, "alpha": self.alpha}
    shared |= {name: value for name, value in of_views.items() if value is not None}
    config = multiview_config.MultiViewConfig(**shared)
    if self.alpha is not None and not config.rule.learns:
      raise validate.error("alpha", "be left out with equal `view_weights`", self.alpha)
    return config

  def to_json(self) -> dict[str, Any]:
    return {**super().to_json(), "schemas": views.to_json(self.schemas)}
