"""What the server makes of what the clients sent: K global centroids.

The clients' means are clustered as points with their counts as weights.  Centroids are float32, as
they are sent.
"""

from typing import Any

import numpy as np

from clustering_basics import single_thread_kmeans

_RESTARTS = 10
# Of the unit in which the clients compute.
_JITTER = 0.05


def near(centroids: np.ndarray, num_missing: int, rng: np.random.Generator) -> np.ndarray:
  """Returns `num_missing` centroids, each close beside a random one of `centroids`.

  `centroids` are of shape (K, d), K > 0, near zero and of order one.
  """
  beside = centroids[rng.integers(len(centroids), size=num_missing)]
  jitter = rng.standard_normal(beside.shape) / np.sqrt(centroids.shape[1])
  return beside + _JITTER * jitter


def combined_means(
    means: np.ndarray, weights: np.ndarray, num_clusters: int, rng: np.random.Generator,
    start: np.ndarray | None = None,
) -> np.ndarray:
  """Clusters the clients' means by weighted k-means.

  Args:
    means: float64 of shape (M, d), M > 0.
    weights: Of shape (M,), above zero.
    start: Centroids (K, d) to start from; k-means++ with restarts by default.

  Returns:
    float32 of shape (K, d).  Where there are fewer different means than K, the missing
    centroids lie close beside these, to split their clusters in the next round.
  """
  distinct = np.unique(means, axis=0)
  if len(distinct) < num_clusters:
    missing = near(distinct, num_clusters - len(distinct), rng)
    return np.concatenate([distinct, missing]).astype(np.float32)
  settings: dict[str, Any] = {"n_init": _RESTARTS, "random_state": int(rng.integers(2**32))}
  if start is not None:
    settings = {"n_init": 1, "init": start.astype(np.float64)}
  kmeans = single_thread_kmeans.fit(means, num_clusters, weights, **settings)
  return kmeans.cluster_centers_.astype(np.float32)


def combined_from_farthest(
    means: np.ndarray, first: np.ndarray, num_clusters: int, rng: np.random.Generator
) -> np.ndarray:
  """Clusters the clients' means as k-FED does.

  One client's means are the first centroids; the mean farthest from all centroids is
  the next one, until there are K; then k-means without weights (Dennis, Li, Smith, ICML
  2021, Algorithm 2).

  Args:
    means: Of shape (M, d).
    first: The means of one client, of shape (m, d), m > 0.
    rng: Used only where different means are too few.

  Returns:
    float32 of shape (K, d).
  """
  start = list(first[:num_clusters])
  nearest = np.full(len(means), np.inf)
  for center in start:
    nearest = np.minimum(nearest, ((means - center) ** 2).sum(axis=1))
  while len(start) < num_clusters:
    start.append(means[nearest.argmax()])
    nearest = np.minimum(nearest, ((means - start[-1]) ** 2).sum(axis=1))
  return combined_means(means, np.ones(len(means)), num_clusters, rng, np.array(start))
