"""The settings of federated multi-view k-means, checked as they are made."""

import dataclasses
from typing import Optional

from clustering_basics import validate
from fl_clustering.multiview import point_privacy
from fl_clustering.multiview import view_weights as view_weights_lib


@dataclasses.dataclass(frozen=True)
class MultiViewConfig:
  """Everything but the data that changes the result.

  Attributes:
    n_clusters: Number of clusters.
    view_weights: A key of `view_weights.VIEW_WEIGHTS`.
    alpha: The exponent of the view weights in the objective; above one where the
      weights are learnt, and the nearer to one, the more unequal they are.
    n_init: Number of restarts; the one with the lowest objective is kept.
    num_rounds: Most rounds of a restart.
    tol: A restart ends when a round lowers the objective by less than this share of
      it; 0 runs all rounds.
    standardize: Whether every column is brought to mean zero and variance one over
      all clients.
    min_count: The least number of points whose mean leaves a client, when the first
      centers are found.
    privacy: A `PointPrivacy`, or None for exact sums.
    seed: Decides everything random but the noise of `privacy`.
  """

  n_clusters: int
  view_weights: str = "equal"
  alpha: float = 2.0
  n_init: int = 5
  num_rounds: int = 50
  tol: float = 1e-6
  standardize: bool = True
  min_count: int = 2
  privacy: Optional[point_privacy.PointPrivacy] = None
  seed: int = 0

  def __post_init__(self):
    validate.integer(minimum=1, n_clusters=self.n_clusters)
    validate.one_of(view_weights_lib.VIEW_WEIGHTS, view_weights=self.view_weights)
    validate.positive(alpha=self.alpha)
    if self.rule.learns and self.alpha <= 1:
      raise validate.error("alpha", f"be > 1 with `view_weights`={self.view_weights!r}", self.alpha)
    validate.integer(minimum=1, n_init=self.n_init)
    validate.integer(minimum=1, num_rounds=self.num_rounds)
    validate.not_negative(tol=self.tol)
    if not isinstance(self.standardize, bool):
      raise validate.error("standardize", "be True or False", self.standardize)
    validate.integer(minimum=2, min_count=self.min_count)
    validate.integer(minimum=0, seed=self.seed)
    if self.privacy is not None:
      self._check_private()

  def _check_private(self):
    """Refuses what would look at the data outside the rounds that are accounted."""
    if not isinstance(self.privacy, point_privacy.PointPrivacy):
      raise TypeError(f"`privacy` must be a PointPrivacy, got {type(self.privacy).__name__}.")
    if self.standardize:
      raise validate.error("standardize", "be False with `privacy`", self.standardize)
    if self.n_init != 1:
      raise validate.error("n_init", "be 1 with `privacy`", self.n_init)
    if self.rule.needs_own_costs:
      raise validate.error(
          "view_weights", "not need every view's own optimum with `privacy`", self.view_weights
      )

  @property
  def rule(self):
    """The `ViewWeightRule`."""
    return view_weights_lib.VIEW_WEIGHTS[self.view_weights]
