"""Centroids that give clusters to points, and the records of the rounds that found them."""

from __future__ import annotations

import dataclasses

import numpy as np

from clustering_basics import core_count
from dp_clustering import clustering_params

# Times the largest coordinate of a centroid: how far a point may be before rounding of its products
# with them would show.
_FAR = 2.0**10


@dataclasses.dataclass(frozen=True, eq=False)
class RoundRecord:
  """One round of the restart that was taken.

  Attributes:
    stage: The kind of round: `gather`, where the server sees every client's means;
      `minibatch`; where it sees sums, `lloyd`, or one of the stages of `split_and_swap` or
      `dp_clustering.refine`.
    centroids: The global centroids after it, in the data's units; float64 of shape (K, d), or
      of another number of centroids while they are split.  Of shape (0, d) in
      `FederatedKMeans.history_` without `keep_history`.
    inertia: The inertia of these centroids, or None if no round told it.
    bytes_down: What the server sent each client for this restart, in bytes.
    bytes_up: What each client sent for it.
  """

  stage: str
  centroids: np.ndarray
  inertia: float | None
  bytes_down: int
  bytes_up: int


def _nearest_to_far(points: np.ndarray, centroids: np.ndarray) -> np.ndarray:
  """Returns the nearest centroids of points (n, d) that are far from all of them.

  Two centroids are compared at a time.  A coordinate in which they agree then cancels, however far
  the point is, where its square would hide all other coordinates.
  """
  nearest = np.zeros(len(points), np.intp)
  for index, other in enumerate(centroids):
    best = centroids[nearest]
    sides = (points - best) + (points - other)
    nearest[((other - best) * sides).sum(axis=1) > 0] = index
  return nearest


@dataclasses.dataclass(frozen=True, eq=False)
class KMeansModel:
  """Gives points to the nearest centroid.

  All are in the coordinates in which distances are measured: standardised columns if they are, else
  the data's units; from the mean of the fit's points, or with `privacy` from the origin.

  Attributes:
    centroids: float64 of shape (K, d).
    radius: Radius of the ball that points are mapped into, as in the fit, with `privacy`; else
      None, and points must be finite.
  """

  centroids: np.ndarray
  radius: float | None = None

  def with_centroids(self, centroids: np.ndarray) -> KMeansModel:
    """Returns the model with other centroids."""
    return dataclasses.replace(self, centroids=centroids)

  def _as_fitted(self, points: np.ndarray) -> np.ndarray:
    return points if self.radius is None else clustering_params.map_to_ball(points, self.radius)

  def assign(self, points: np.ndarray) -> np.ndarray:
    """Returns the clusters of points (n, d), an int array of shape (n,)."""
    if not len(points):
      return np.zeros(0, np.intp)
    from sklearn import metrics  # It takes long to import.  pylint: disable=g-import-not-at-top

    points = self._as_fitted(points)
    core_count.count_quietly()
    far = np.abs(points).max(axis=1) > _FAR * np.abs(self.centroids).max()
    near = np.where(far[:, np.newaxis], 0.0, points) if far.any() else points
    nearest = metrics.pairwise_distances_argmin(near, self.centroids)
    nearest[far] = _nearest_to_far(points[far], self.centroids)
    return nearest

  def distances_to(self, clusters: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Returns the distance of every point to the centroid of its cluster, of shape (n,)."""
    return np.linalg.norm(self._as_fitted(points) - self.centroids[clusters], axis=1)

  def distances(self, points: np.ndarray) -> np.ndarray:
    """Returns the distances of points to the centroids, of shape (n, K)."""
    if not len(points):
      return np.zeros((0, len(self.centroids)))
    from sklearn import metrics  # It takes long to import.  pylint: disable=g-import-not-at-top

    return metrics.pairwise.euclidean_distances(self._as_fitted(points), self.centroids)

  def are_clipped(self, points: np.ndarray) -> np.ndarray:
    """Returns which points (n, d) are beyond the radius, if there is one; booleans (n,)."""
    if self.radius is None:
      return np.zeros(len(points), bool)
    return clustering_params.are_beyond(points, self.radius)

  def losses(self, points: np.ndarray) -> np.ndarray:
    """Returns what every point would add to the loss in every cluster, of shape (n, K).

    Points beyond a radius count as they are, or else the best radius would be the smallest.
    """
    is_finite = np.isfinite(points).all(axis=1)
    own = dataclasses.replace(self, radius=None).distances(points[is_finite])
    found = self.distances(points)
    found[is_finite] = own
    return found**2
