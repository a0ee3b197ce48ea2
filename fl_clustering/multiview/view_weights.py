"""How much each view counts: the rules for the view weights v_h.

The weights sum to one.  `equal` gives every view the same weight.  `mvkm` is the paper's
rule, the minimum of sum_h v_h^alpha cost_h: it rewards the view that is easiest to
compress, which need not be the view that shows the clusters.  `regret` measures how much
of a view's own optimum the common clusters give away: a view that the others agree with
keeps nearly all of it.
"""

import dataclasses
from typing import Callable

import numpy as np

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
