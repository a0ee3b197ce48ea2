"""The settings of federated multi-view k-means, checked as they are made, and its view weights.

The weights v_h sum to one.  `equal` gives every view the same weight.  `mvkm` is the paper's
rule, the minimum of sum_h v_h^alpha cost_h: it rewards the view that is easiest to
compress, which need not be the view that shows the clusters.  `regret` measures how much
of a view's own optimum the common clusters give away: a view that the others agree with
keeps nearly all of it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.points import grid_scaling
from fl_clustering.points import privacy as privacy_lib


# A view whose cost is zero takes all the weight; this keeps the quotients finite.
LEAST_COST = 1e-12


@dataclasses.dataclass(frozen=True)
class ViewWeightRule:
  """A row of the registry.

  Attributes:
    weigh: A function of (view_costs, own_costs, alpha) that returns the weights, all
      of shape (H,).
    learns: Whether the weights depend on the data; then alpha must be above one.
    needs_own_costs: Whether `own_costs` is needed, the cost that each view reaches
      when it is clustered alone; otherwise it is None.
  """

  weigh: Callable[..., np.ndarray]
  learns: bool
  needs_own_costs: bool = False


def _shares(quotients: np.ndarray, alpha: float) -> np.ndarray:
  # Divided by the largest first: a small alpha - 1 makes the powers overflow.
  powers = (quotients / quotients.max()) ** (1 / (alpha - 1))
  return powers / powers.sum()


def _equal(
    view_costs: np.ndarray, own_costs: np.ndarray | None, alpha: float
) -> np.ndarray:
  del own_costs, alpha  # The same for all.
  return np.full(len(view_costs), 1 / len(view_costs))


def _mvkm(
    view_costs: np.ndarray, own_costs: np.ndarray | None, alpha: float
) -> np.ndarray:
  del own_costs
  return _shares(1 / np.maximum(view_costs, LEAST_COST), alpha)


def _regret(
    view_costs: np.ndarray, own_costs: np.ndarray, alpha: float
) -> np.ndarray:
  quotients = np.maximum(own_costs, LEAST_COST) / np.maximum(view_costs, LEAST_COST)
  # Above one, the view alone has only been clustered less well.
  return _shares(np.minimum(quotients, 1.0), alpha)


VIEW_WEIGHTS = {
    "equal": ViewWeightRule(_equal, learns=False),
    "mvkm": ViewWeightRule(_mvkm, learns=True),
    "regret": ViewWeightRule(_regret, learns=True, needs_own_costs=True),
}

# Choosing among restarts, or when to end, would make the number of rounds depend on the data.
PRIVATE_DEFAULTS: Mapping[str, Any] = {"n_init": 1, "num_rounds": 3, "tol": 0.0}


@dataclasses.dataclass(frozen=True)
class MultiViewConfig(options.Settings):
  """Everything but the data that changes the result.

  `FederatedMultiViewKMeans` documents every setting.
  """

  n_clusters: int
  view_weights: str = "equal"
  alpha: float = options.option(
      float, "Exponent of the view weights, > 1; closer to 1 makes learnt weights less equal.", 2.0,
      rule=validate.positive,
  )
  n_init: int = options.option(
      int, "Restarts; the one with the lowest objective is kept.", 5, rule=validate.AT_LEAST_ONE
  )
  num_rounds: int = options.option(
      int, "Maximum number of rounds of a restart.", 50, rule=validate.AT_LEAST_ONE
  )
  tol: float = options.option(
      float, "A restart ends when a round lowers the objective by less than this share of it.",
      1e-6, rule=validate.not_negative,
  )
  standardize: bool = True
  field_widths: Sequence[int] | None = None
  privacy: privacy_lib.ViewPrivacy | None = None
  seed: int = 0

  def __post_init__(self) -> None:
    validate.integer(minimum=1, n_clusters=self.n_clusters)
    validate.one_of(VIEW_WEIGHTS, view_weights=self.view_weights)
    super().__post_init__()
    if self.rule.learns and self.alpha <= 1:
      raise validate.error("alpha", f"be > 1 with `view_weights`={self.view_weights!r}", self.alpha)
    validate.boolean(standardize=self.standardize)
    grid_scaling.check_field_widths(self.field_widths, self.standardize)
    validate.integer(minimum=0, seed=self.seed)
    if self.privacy is not None:
      self._check_private()

  def _check_private(self) -> None:
    """Refuses settings that look at the data outside the accounted rounds."""
    validate.instance(privacy_lib.ViewPrivacy, privacy=self.privacy)
    if self.standardize:
      raise validate.error("standardize", "be False with `privacy`", self.standardize)
    if self.tol:
      raise validate.error("tol", "be 0 with `privacy`", self.tol)
    if self.n_init != 1:
      raise validate.error("n_init", "be 1 with `privacy`", self.n_init)
    if self.rule.needs_own_costs:
      raise validate.error(
          "view_weights", "not need every view's own optimum with `privacy`", self.view_weights
      )

  @property
  def rule(self) -> ViewWeightRule:
    return VIEW_WEIGHTS[self.view_weights]
