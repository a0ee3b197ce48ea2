"""FKM as its paper prints it, in one place and in NumPy: for comparison alone.

Its clients begin by sending rows picked by k-means++: raw data.  So it is no algorithm
of the library, whose clients can't send a row.

Reference:
  Swier Garst, Marcel Reinders. Federated K-Means Clustering. 2023, Algorithm 1.
  https://arxiv.org/abs/2310.01195
"""

import numpy as np
from sklearn import cluster
from sklearn import metrics

from clustering_basics import core_count
from fl_clustering.kmeans import server_step

_ROUNDS = 20
_LEAST_COUNT = 2


def _picked_rows(points, num_clusters, rng):
  """Returns rows picked by k-means++, and how many points are nearest to each."""
  rows, _ = cluster.kmeans_plusplus(
      points, min(num_clusters, len(points)), random_state=int(rng.integers(2**32))
  )
  owners = metrics.pairwise_distances_argmin(points, rows)
  return rows, np.bincount(owners, minlength=len(rows))


def _local_means(points, centroids):
  """Returns the means of the centroids' points and their counts, without the empty ones."""
  owners = metrics.pairwise_distances_argmin(points, centroids)
  found, counts = np.unique(owners, return_counts=True)
  return np.array([points[owners == k].mean(axis=0) for k in found]), counts


def centroids_by_round(clients, num_clusters, rng):
  """Returns the global centroids after every round, a list of float32 (K, d).

  Args:
    clients: A list of float64 arrays of shape (n, d).
    num_clusters: Number of clusters, K.
    rng: A `np.random.Generator`.
  """
  core_count.count_quietly()
  sent = [_picked_rows(points, num_clusters, rng) for points in clients]
  after_rounds = []
  for _ in range(_ROUNDS):
    kept = [(means[counts >= _LEAST_COUNT], counts[counts >= _LEAST_COUNT])
            for means, counts in sent]
    means, weights = (np.concatenate(parts).astype(np.float32) for parts in zip(*kept))
    after_rounds.append(server_step.combined_means(means, weights, num_clusters, rng))
    sent = [_local_means(points, after_rounds[-1].astype(np.float64)) for points in clients]
  return after_rounds
