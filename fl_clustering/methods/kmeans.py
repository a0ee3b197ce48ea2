"""Groups clients by K-means on their weights: each in exactly one of K clusters.

Lloyd: "Least squares quantization in PCM", IEEE Transactions on Information
Theory, 1982; started by K-means++ (Arthur, Vassilvitskii, SODA 2007).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from clustering_basics import options
from clustering_basics import single_thread_kmeans
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import distances as distances_lib
from fl_clustering.methods import grouping

if TYPE_CHECKING:
  from fl_clustering.methods import client_weights as client_weights_lib

# Of more clients, the centers are those of so many, drawn at random, and the others join the
# nearest.
_MOST_FITTED = 20_000


@dataclasses.dataclass(frozen=True)
class KMeans(options.Settings):
  """The K-means grouping.

  Clients with identical vectors are never separated: where that leaves fewer
  than K clusters, the assignment has those, and a warning.
  """

  num_clusters: int = grouping.num_clusters_option("Number of clusters.")
  representation: str = grouping.representation_option()

  def __call__(
      self, client_weights: client_weights_lib.ClientWeights, rng: np.random.Generator
  ) -> cluster_assignment.ClusterAssignment:
    """Groups the clients; of sketches, the vectors are these."""
    grouping.check_num_clusters(self.num_clusters, len(client_weights.clients))
    if self.representation == grouping.SKETCH:
      # As they are: there are few numbers of each client, and may be many clients.
      clients, points = client_weights.clients, client_weights.vectors
      if np.any(np.diff(clients) < 0):
        order = np.argsort(clients)
        clients, points = clients[order], points[order]
    else:
      clients, distances = distances_lib.client_distances(
          client_weights, self.representation, "l2"
      )
      points = distances_lib.euclidean_points(distances)
    random_state, fitted = int(rng.integers(2**32)), points
    if len(points) > _MOST_FITTED:
      fitted = points[np.sort(rng.choice(len(points), _MOST_FITTED, replace=False))]
    found = single_thread_kmeans.fit(
        fitted,
        self.num_clusters,
        n_init=10,
        # Until no client changes its cluster: the default depends on the number of
        # dimensions, which the embedding changes.
        tol=0,
        random_state=random_state,
    )
    labels = found.labels_ if fitted is points else found.predict(points)
    return assignment(clients, labels, self.num_clusters, self.representation)


def assignment(
    clients: np.ndarray, labels: np.ndarray, num_clusters: int, grouped: str
) -> cluster_assignment.ClusterAssignment:
  """Returns the clusters that K-means found; they have a warning if they are too few.

  Args:
    num_clusters: The number of clusters that was asked for.
    grouped: What of the clients was grouped, in words.
  """
  num_found = len(np.unique(labels))
  warning = None
  if num_found < num_clusters:
    warning = (
        f"K-means found {num_found} clusters instead of `num_clusters`={num_clusters}: too "
        f"many clients have identical vectors ({grouped})."
    )
  return cluster_assignment.ClusterAssignment.from_labels(clients, labels, warning)
