"""What the server makes of what the clients sent: K global centroids.

The clients' means are clustered as points with their counts as weights, from the first seed on:
scikit-learn before 1.3 left the weights out of k-means++, and then a client with a few
stray points spoils many starts.  Here the seeds of all restarts are drawn together, which
takes less than half as long as drawing them one by one, as scikit-learn does.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from clustering_basics import single_thread_kmeans
from fl_clustering.kmeans import tensor_kmeans

_seed_rows = tf.function(tensor_kmeans.seed_rows, input_signature=[
    tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([None], tf.float32),
    tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.int32),
    tf.TensorSpec([2], tf.int32),
])
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
    means: float32 of shape (M, d), M > 0.
    weights: float32 of shape (M,), above zero.
    start: Centroids (K, d) to start from; k-means++ with restarts by default.

  Returns:
    float32 of shape (K, d).  Where there are fewer different means than K, the missing
    centroids lie close beside these, to split their clusters in the next round.
  """
  distinct = np.unique(means, axis=0)
  if len(distinct) < num_clusters:
    missing = near(distinct, num_clusters - len(distinct), rng)
    return np.concatenate([distinct, missing]).astype(np.float32)
  if start is None:
    seed = rng.integers(2**31, size=2, dtype=np.int32)
    num_trials = tensor_kmeans.greedy_trials(num_clusters)
    rows = _seed_rows(means, weights, _RESTARTS, num_clusters, num_trials, seed)
    starts = iter(rows.numpy())
    num_starts = _RESTARTS
    init: Any = lambda points, *_, **__: points[next(starts)]
  else:
    num_starts, init = 1, start.astype(np.float64)
  # In float64, so that scikit-learn's centering leaves `means` as they are.
  kmeans = single_thread_kmeans.fit(
      means.astype(np.float64), num_clusters, weights,
      init=init, n_init=num_starts, random_state=0,
  )
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
  nearest = np.full(len(means), np.inf, means.dtype)
  for center in start:
    nearest = np.minimum(nearest, ((means - center) ** 2).sum(axis=1))
  while len(start) < num_clusters:
    start.append(means[nearest.argmax()])
    nearest = np.minimum(nearest, ((means - start[-1]) ** 2).sum(axis=1))
  weights = np.ones(len(means), np.float32)
  return combined_means(means, weights, num_clusters, rng, np.array(start))
