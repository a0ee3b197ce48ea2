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
    centroids: Its centers in the data's units, float64 of shape (K, D).  Without noise they are
      right to float precision in every column, also in one that is narrower than a grid step.
    history: Tuple of `RoundRecord`, one per round: of the model that the round
      started from.  Without noise, the last one is of `model` itself.
    privacy_spent: What a private fit guarantees, or None.
    ledger: The frozen `Ledger` of a private fit, or None.
  """

  scaling: scaling_lib.Scaling
  model: server_step.MultiViewModel
  centroids: np.ndarray
  history: tuple[server_step.RoundRecord, ...]
  privacy_spent: Optional[Mapping[str, Any]] = None
  ledger: Optional[ledger_lib.Ledger] = None


def on_grid(points, scaling):
  """Returns points (n, D) in grid steps, as the clients of a fit without noise computed them."""
  return np.rint(np.clip(scaling.apply(points), -_FARTHEST, _FARTHEST))


def by_blocks(function, steps, model, widths):
  """Returns a function's value for every point, computed block by block.

  Args:
    function: `sums.nearest` or `sums.closeness`.
    steps: Points in grid steps, of shape (n, D).
    model: `MultiViewModel`.
    widths: The views' numbers of columns.
  """
  arrays, starts = model.arrays(), range(0, max(len(steps), 1), _BLOCK_ROWS)
  blocks = (steps[start : start + _BLOCK_ROWS] for start in starts)
  return np.concatenate([function(np, block, arrays, widths) for block in blocks])


def assign(points, model, scaling, widths):
  """Returns the cluster of every point at a model without noise, an int array of shape (n,).

  The clients of the fit computed the same, to the last bit.

  Args:
    points: float64 of shape (n, D), the views side by side, in the data's units.
    model: `MultiViewModel`.
    scaling: The `Scaling` of the fit to grid steps.
    widths: The views' numbers of columns.
  """
  return by_blocks(sums.nearest, on_grid(points, scaling), model, widths)
