"""What a fit found, and what every round of it did."""

import dataclasses
from typing import Any, Mapping, Optional

import numpy as np
from sklearn import metrics

from clustering_basics import core_count
from fl_clustering.kmeans import scaling as scaling_lib

_BYTES = 4  # Messages are float32.


@dataclasses.dataclass(frozen=True, eq=False)
class RoundRecord:
  """One round of the restart that was taken.

  Attributes:
    stage: What kind of round: `gather`, where the server sees every client's means;
      `lloyd`, where it sees sums; `minibatch`.
    centroids: The global centroids after it, in the data's units; float64 (K, d).
    inertia: The inertia of these centroids, or None if no round told it.
    bytes_down: What the server sent each client for this restart, in bytes.
    bytes_up: What each client sent for it.
  """

  stage: str
  centroids: np.ndarray
  inertia: Optional[float]
  bytes_down: int
  bytes_up: int


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate:
  """What a restart came to, in the coordinates that the clients compute in.

  Attributes:
    stages: One name per round, see `RoundRecord`.
    centroids: The centroids after each round, float32 (K, d) each.
    inertias: Their inertia, None where no round told it.
    from_scratch: Whether the first round sent the clients no centroids.
  """

  stages: list[str]
  centroids: list[np.ndarray]
  inertias: list[Optional[float]]
  from_scratch: bool


@dataclasses.dataclass(frozen=True, eq=False)
class Fit:
  """The result of a fit.

  Attributes:
    scaling: The `Scaling` of the coordinates that were clustered.
    centroids: In the data's units; float64 (K, d).
    inertia: Sum of the squared distances to the nearest centroid; of standardised
      columns, if they are.  None with `privacy`.
    silhouette: The mean simplified silhouette, likewise.
    history: Tuple of `RoundRecord`.
    privacy_spent: What `point_privacy.privacy_spent` says, or None.
  """

  scaling: scaling_lib.Scaling
  centroids: np.ndarray
  inertia: Optional[float]
  silhouette: Optional[float]
  history: tuple[RoundRecord, ...]
  privacy_spent: Optional[Mapping[str, Any]] = None

  def assign(self, points):
    """Returns the nearest centroid of every point (n, d), an int array of shape (n,)."""
    core_count.count_quietly()
    return metrics.pairwise_distances_argmin(
        self.scaling.apply(points), self.scaling.apply(self.centroids)
    )


def history(candidate, scaling, inertia_unit, tells_inertia=True):
  """Returns the `RoundRecord`s of a candidate.

  Args:
    candidate: A `Candidate`.
    scaling: The `Scaling` of its coordinates.
    inertia_unit: What to multiply its inertias with.
    tells_inertia: Whether clients send the inertia in Lloyd's rounds.
  """
  records = []
  for index, stage in enumerate(candidate.stages):
    num_clusters, num_columns = candidate.centroids[index].shape
    sends_centroids = index > 0 or not candidate.from_scratch
    inertia = candidate.inertias[index]
    records.append(
        RoundRecord(
            stage=stage,
            centroids=scaling.undo(candidate.centroids[index]),
            inertia=None if inertia is None else inertia * inertia_unit,
            bytes_down=_BYTES * num_clusters * num_columns * sends_centroids,
            bytes_up=_BYTES * (
                num_clusters * (num_columns + 1) + (tells_inertia and stage == "lloyd")
            ),
        )
    )
  return tuple(records)
