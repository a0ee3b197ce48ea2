"""What a fit of federated k-means came to, whatever the algorithm."""

import dataclasses
from typing import Any, Mapping, Optional

import numpy as np
from sklearn import metrics

from clustering_basics import core_count
from dp_clustering import ledger as ledger_lib
from dp_clustering import metrics as private_metrics
from fl_clustering.points import scaling as scaling_lib


@dataclasses.dataclass(frozen=True, eq=False)
class RoundRecord:
  """One round of the restart that was taken.

  Attributes:
    stage: The kind of round: `gather`, where the server sees every client's means;
      `minibatch`; where it sees sums, `lloyd`, or one of the stages of `split_and_swap` or
      `dp_clustering.refine`.
    centroids: The global centroids after it, in the data's units; float64 of shape (K, d), or
      of another number of centroids while they are split.
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
class Fit:
  """The result of a fit.

  Attributes:
    scaling: The `Scaling` of the coordinates that were clustered.
    centroids: In the data's units; float64 (K, d).
    inertia: Sum of the squared distances to the nearest centroid; of standardised
      columns, if they are.  None with `privacy`.
    silhouette: The mean simplified silhouette, likewise.
    history: Tuple of `RoundRecord`.
    num_rounds: Number of all rounds.
    column_scales: What distances along every column are multiplied with: one over its
      standard deviation if columns are standardised, else one; float64 (d,).
    radius: Radius of the ball that points with NaN or infinities are mapped into, with
      `privacy`; else None, and points must be finite.
    privacy_spent: What a private fit guarantees (`points.privacy.guarantee`), or None.
    ledger: The frozen `Ledger` of a private fit, or None.
  """

  scaling: scaling_lib.Scaling
  centroids: np.ndarray
  inertia: Optional[float]
  silhouette: Optional[float]
  history: tuple[RoundRecord, ...]
  num_rounds: int
  column_scales: np.ndarray
  radius: Optional[float] = None
  privacy_spent: Optional[Mapping[str, Any]] = None
  ledger: Optional[ledger_lib.Ledger] = None

  def assign(self, points):
    """Returns the nearest centroid of every point (n, d), an int array of shape (n,)."""
    return assign(points, self.centroids, self.scaling, self.radius)

  def distances(self, points):
    """Returns the distances of points (n, d) to the centroids, float64 (n, K)."""
    if not len(points):
      return np.zeros((0, len(self.centroids)))
    points = _bounded(points, self.radius)
    shifted = ((x - self.scaling.shift) * self.column_scales for x in (points, self.centroids))
    return metrics.pairwise.euclidean_distances(*shifted)


def _bounded(points, radius):
  return points if radius is None else private_metrics.bounded_rows(points, radius)


def assign(points, centroids, scaling, radius=None):
  """Returns the nearest centroid of every point, an int array of shape (n,).

  Args:
    points: float64 of shape (n, d), in the data's units.
    centroids: float64 of shape (K, d), likewise.
    scaling: The `Scaling` of the coordinates that distances are measured in.
    radius: As of a `Fit`.
  """
  if not len(points):
    return np.zeros(0, np.intp)
  points = _bounded(points, radius)
  core_count.count_quietly()
  far = scaling_lib.FARTHEST
  scaled = (np.clip(scaling.apply(x), -far, far) for x in (points, centroids))
  return metrics.pairwise_distances_argmin(*scaled)
