"""What a fit of federated multi-view k-means came to, with noise or without."""

import dataclasses
from typing import Any, Mapping, Optional

from dp_clustering import ledger as ledger_lib
from fl_clustering.multiview import server_step
from fl_clustering.points import scaling as scaling_lib


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
