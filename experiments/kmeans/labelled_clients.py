"""Points at clients, with known classes to score against."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class LabelledClients:
  """A data set that is split over clients.

  Attributes:
    points: A mapping from client id to float64 of shape (n, d).
    labels: A mapping from client id to int64 of shape (n,), the classes.
    num_clusters: How many clusters to look for.
  """

  points: dict[str, np.ndarray]
  labels: dict[str, np.ndarray]
  num_clusters: int

  @property
  def pooled_points(self):
    return np.concatenate(list(self.points.values()))

  @property
  def pooled_labels(self):
    return np.concatenate(list(self.labels.values()))


def by_owner(points, labels, owners, num_clusters):
  """Returns the `LabelledClients` of points whose clients are numbers.

  Args:
    points: float64 of shape (n, d).
    labels: int64 of shape (n,).
    owners: int64 of shape (n,), the client that has the point.
    num_clusters: How many clusters to look for.
  """
  ids = {f"client_{owner}": owners == owner for owner in np.unique(owners)}
  return LabelledClients(
      {client_id: points[own] for client_id, own in ids.items()},
      {client_id: labels[own] for client_id, own in ids.items()},
      num_clusters,
  )
