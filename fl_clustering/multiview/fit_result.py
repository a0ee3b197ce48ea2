"""What a fit of federated multi-view k-means came to, with noise or without."""

import dataclasses
from typing import Any, Mapping, Optional

import numpy as np

from dp_clustering import ledger as ledger_lib
from fl_clustering.multiview import server_step
from fl_clustering.multiview import sums
from fl_clustering.points import scaling as scaling_lib

# Rows that are given to clusters at a time.
_BLOCK_ROWS = 2048
# Grid steps beyond which the kernel sees nothing: far outside the ball that points are in.
_FARTHEST = 2.0**40


@dataclasses.dataclass(frozen=True, eq=False)
class Fit:
  """The result of a fit.

  Attributes:
    scaling: The `Scaling` to grid steps, in which points were clustered.
    model: A `MultiViewModel`.
    history: Tuple of `RoundRecord`, one per round: of the model that the round
      started from.  Without noise, the last one is of `model` itself.
    privacy_spent: What a private fit guarantees, or None.
    ledger: The frozen `Ledger` of a private fit, or None.
  """

  scaling: scaling_lib.Scaling
  model: server_step.MultiViewModel
  history: tuple[server_step.RoundRecord, ...]
  privacy_spent: Optional[Mapping[str, Any]] = None
  ledger: Optional[ledger_lib.Ledger] = None


def assign(points, model, scaling, widths):
  """Returns the cluster of every point at a model without noise, an int array of shape (n,).

  The clients of the fit computed the same, to the last bit.

  Args:
    points: float64 of shape (n, D), the views side by side, in the data's units.
    model: `MultiViewModel`.
    scaling: The `Scaling` of the fit to grid steps.
    widths: The views' numbers of columns.
  """
  steps = np.rint(np.clip(scaling.apply(points), -_FARTHEST, _FARTHEST))
  arrays, starts = model.arrays(), range(0, max(len(steps), 1), _BLOCK_ROWS)
  blocks = (steps[start : start + _BLOCK_ROWS] for start in starts)
  return np.concatenate([sums.nearest(np, block, arrays, widths) for block in blocks])
