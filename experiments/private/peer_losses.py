"""Losses of google/differential-privacy's clustering, and the ratios to reach.

They were measured once with its `learning/clustering` of commit b5b0286e, on data sets
prepared as `datasets.py` prepares them, as means over at least five runs.  The
synthetic points were another draw of the same mixture.
"""

import dataclasses

PEER = "google/differential-privacy"
SOURCE = f"{PEER}, learning/clustering, commit b5b0286e"
EPSILON = 1.0
DELTA = 1e-6


@dataclasses.dataclass(frozen=True)
class PeerLoss:
  """The peer's loss for one data set and k, at `EPSILON` and `DELTA`.

  Attributes:
    dataset: Key of `datasets.DATASETS`.
    num_points: Number of points that it was measured on.
    k: Number of clusters.
    loss: Mean squared distance to the nearest center.
    target_ratio: What our better method's loss shall be, at most, over this one.
  """

  dataset: str
  num_points: int
  k: int
  loss: float
  target_ratio: float


PEER_LOSSES = (
    PeerLoss("synthetic", 100_000, 16, 0.563, 0.96),
    PeerLoss("synthetic", 100_000, 64, 0.0756, 0.22),
    PeerLoss("letter", 20_000, 16, 0.0985, 0.82),
    PeerLoss("letter", 20_000, 64, 0.0778, 0.67),
    PeerLoss("sklearn_digits", 1_797, 16, 0.457, 0.86),
    PeerLoss("sklearn_digits", 1_797, 64, 0.486, 0.80),
)
