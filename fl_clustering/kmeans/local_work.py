"""What a client computes from its points for the server to gather: means and counts.

A work is a function of `(points, centroids, seed)`: the client's points (n, d), the R
candidates that the server sent (R, K, d), and int32 (2,) to draw from.  It returns means
(R, K, d) and the numbers of points whose means they are (R, K).  K is always the same,
because TFF's types need it; an absent mean has a count of zero.  A work that starts from
scratch is sent candidates without centroids, of shape (R, 0, d); a client with fewer than
K times `min_count` points looks for fewer clusters.  No work decides what leaves the client:
`rounds.py` does.

All numbers are float32, and the functions below have these shapes, too.

References:
  Swier Garst, Marcel Reinders. Federated K-Means Clustering. ICPR 2024, Algorithm 1.
  https://arxiv.org/abs/2310.01195
  Don Kurian Dennis, Tian Li, Virginia Smith. Heterogeneity for the Win: One-Shot
  Federated Clustering. ICML 2021, Algorithm 1. https://arxiv.org/abs/2103.00697
  Pranjal Awasthi, Or Sheffet. Improved Spectral-Norm Bounds for Clustering. APPROX
  2012. https://arxiv.org/abs/1206.3204
  Federated K-Means, in: Many Labs, an analysis of the Iowa Gambling Task.
"""

from __future__ import annotations

import functools
from typing import Callable, TYPE_CHECKING

import tensorflow as tf

from fl_clustering.kmeans import tensor_kmeans

if TYPE_CHECKING:
  from fl_clustering.kmeans import rounds as rounds_lib

# As many as scikit-learn's KMeans made when the papers were written.
_TRIES = 10
_MAX_STEPS = 100
# Where no point is near, and float32 still squares.
_OUT_OF_SIGHT = 1e6
# In k-FED a point belongs to the core of a cluster if every other one is this much
# farther, as squared distances: three times.
_CORE_RATIO = 9.0
_ARRIVING_SHARE = 4  # Of a child server's points, one in four.

# One graph for clients of any size.
_as_one_graph = tf.function(
    input_signature=[
        tf.TensorSpec([None, None], tf.float32),
        tf.TensorSpec([None, None, None], tf.float32),
        tf.TensorSpec([2], tf.int32),
    ]
)


def lloyd_step(points: tf.Tensor, centroids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns the means and numbers of the centroids' points; a centroid without any stays."""
  sums = tensor_kmeans.lloyd_sums(points, centroids)
  means = tensor_kmeans.moved_centroids(centroids, sums["sums"], sums["counts"])
  return means, sums["counts"]


def lloyd_steps(
    points: tf.Tensor, centroids: tf.Tensor, max_steps: int
) -> tuple[tf.Tensor, tf.Tensor]:
  """Takes Lloyd steps until nothing moves; returns means and counts."""

  def body(
      index: tf.Tensor, centroids: tf.Tensor, unused_counts: tf.Tensor, unused_moved: tf.Tensor
  ) -> tuple[tf.Tensor, ...]:
    means, counts = lloyd_step(points, centroids)
    return index + 1, means, counts, tf.reduce_any(means != centroids)

  _, means, counts, _ = tf.while_loop(
      lambda index, centroids, counts, moved: (index < max_steps) & moved,
      body,
      (tf.constant(0), centroids, tf.zeros(tf.shape(centroids)[:2]), tf.constant(True)),
  )
  return means, counts


def best_of_tries(
    points: tf.Tensor, num_candidates: int | tf.Tensor, num_clusters: int | tf.Tensor,
    max_steps: int, seed: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns means and counts of the best of ten k-means for each candidate.

  Every try starts by k-means++ and takes at most `max_steps` Lloyd steps.
  """
  alike = tf.ones([tf.shape(points)[0]])
  rows = tensor_kmeans.seed_rows(
      points, alike, num_candidates * _TRIES, num_clusters,
      tensor_kmeans.greedy_trials(num_clusters), seed,
  )
  means, counts = lloyd_steps(points, tf.gather(points, rows), max_steps)
  inertia = tensor_kmeans.lloyd_sums(points, means)["inertia"]
  best = tf.argmin(
      tf.reshape(inertia, [num_candidates, _TRIES]), axis=1, output_type=tf.int32
  )
  best += _TRIES * tf.range(num_candidates)
  return tf.gather(means, best), tf.gather(counts, best)


def _from_scratch(
    local_means: Callable[..., tuple[tf.Tensor, tf.Tensor]], num_clusters: int, min_count: int
) -> rounds_lib.Work:
  """Returns the work that sends `local_means(points, num_candidates, num_local, seed)`."""

  @_as_one_graph
  def work(
      points: tf.Tensor, centroids: tf.Tensor, seed: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    num_candidates = tf.shape(centroids)[0]
    # With more clusters, not all could have `min_count` points.
    num_local = tf.minimum(num_clusters, tf.shape(points)[0] // min_count)
    means = tf.zeros([num_candidates, 0, tf.shape(points)[1]])
    counts = tf.zeros([num_candidates, 0])
    if num_local > 0:
      means, counts = local_means(points, num_candidates, num_local, seed)
    missing = num_clusters - tf.shape(counts)[1]
    return (
        tf.pad(means, [[0, 0], [0, missing], [0, 0]]),
        tf.pad(counts, [[0, 0], [0, missing]]),
    )

  return work


@functools.lru_cache(maxsize=None)
def initial_means(num_clusters: int, min_count: int) -> rounds_lib.Work:
  """Returns the start of FKM: k-means++ and a Lloyd step, as the seeds are rows of the client."""

  def local_means(
      points: tf.Tensor, num_candidates: tf.Tensor, num_local: tf.Tensor, seed: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    return best_of_tries(points, num_candidates, num_local, 1, seed)

  return _from_scratch(local_means, num_clusters, min_count)


@functools.lru_cache(maxsize=None)
def lloyd_means(local_iterations: int) -> rounds_lib.Work:
  """Returns a round of FKM: Lloyd steps from the candidates, empty clusters dropped."""

  @_as_one_graph
  def work(
      points: tf.Tensor, centroids: tf.Tensor, seed: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    del seed  # Nothing is drawn.
    counts = tf.zeros(tf.shape(centroids)[:2])
    for _ in range(local_iterations):
      centroids, counts = lloyd_step(points, centroids)
      centroids = tf.where(counts[..., tf.newaxis] > 0, centroids, _OUT_OF_SIGHT)
    return centroids, counts

  return work


def _principal_directions(points: tf.Tensor, num_directions: tf.Tensor) -> tf.Tensor:
  """Returns the right singular vectors of the largest singular values, as columns."""
  _, directions = tf.linalg.eigh(tf.matmul(points, points, transpose_a=True))
  return directions[:, -num_directions:]


def _core_means(points: tf.Tensor, centroids: tf.Tensor) -> tf.Tensor:
  """Returns the means of the points that are clearly one centroid's, else the centroid."""
  distances = tensor_kmeans.squared_distances(points, centroids[tf.newaxis])[:, 0]
  # The nearest two; with one centroid every point is in its core.
  num_clusters = tf.shape(centroids)[0]
  nearest = tf.math.top_k(-distances, tf.minimum(num_clusters, 2))
  is_core = (num_clusters < 2) | (-_CORE_RATIO * nearest.values[:, 0] <= -nearest.values[:, -1])
  in_core = tf.one_hot(nearest.indices[:, 0], num_clusters) * tf.cast(is_core, tf.float32)[:, None]
  return tensor_kmeans.moved_centroids(
      centroids, tf.matmul(in_core, points, transpose_a=True), tf.reduce_sum(in_core, axis=0)
  )


@functools.lru_cache(maxsize=None)
def separated_means(num_clusters: int, min_count: int) -> rounds_lib.Work:
  """Returns the client's part of k-FED, for clusters far apart, one candidate at a time."""

  def local_means(
      points: tf.Tensor, unused_num_candidates: tf.Tensor, num_local: tf.Tensor, seed: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    directions = _principal_directions(points, tf.minimum(num_local, tf.shape(points)[1]))
    projected = tf.matmul(points, directions)
    alike = tf.ones([tf.shape(points)[0]])
    rows = tensor_kmeans.seed_rows(projected, alike, 1, num_local, 1, seed)[0]
    cores = _core_means(projected, tf.gather(projected, rows))
    centroids = tf.matmul(cores, directions, transpose_b=True)[tf.newaxis]
    return lloyd_steps(points, centroids, _MAX_STEPS)

  return _from_scratch(local_means, num_clusters, min_count)


def online_updates(
    means: tf.Tensor, counts: tf.Tensor, points: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  """Moves the nearest mean C of n points to (C n + x) / (n + 1), point after point.

  Args:
    means: Of shape (K, d), with counts (K,).
    points: In the order of their arrival.
  """

  def body(
      index: tf.Tensor, means: tf.Tensor, counts: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    point = points[index]
    distances = tensor_kmeans.squared_distances(point[tf.newaxis], means[tf.newaxis])
    nearest = tf.argmin(distances[0, 0])
    count = counts[nearest]
    # Written like this, rounding does not add up: a mean at the point stays there.
    mean = means[nearest] + (point - means[nearest]) / (count + 1)
    where = [[nearest]]
    return (
        index + 1,
        tf.tensor_scatter_nd_update(means, where, [mean]),
        tf.tensor_scatter_nd_update(counts, where, [count + 1]),
    )

  _, means, counts = tf.while_loop(
      lambda index, *_: index < tf.shape(points)[0], body, (tf.constant(0), means, counts)
  )
  return means, counts


@functools.lru_cache(maxsize=None)
def child_means(num_clusters: int, min_count: int, shuffle: bool) -> rounds_lib.Work:
  """Returns the child server's part of child/parent, one candidate at a time.

  A client clusters three quarters of its points.  The rest then arrive one by one, and
  each moves the nearest centroid to the mean of it and the points before.  The points
  that arrive are the first quarter, as in the source, unless `shuffle` draws them.
  """

  def local_means(
      points: tf.Tensor, unused_num_candidates: tf.Tensor, num_local: tf.Tensor, seed: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    if shuffle:
      order = tf.argsort(tf.random.stateless_uniform([tf.shape(points)[0]], seed + 1))
      points = tf.gather(points, order)
    num_arriving = tf.shape(points)[0] // _ARRIVING_SHARE
    means, counts = best_of_tries(points[num_arriving:], 1, num_local, _MAX_STEPS, seed)
    means, counts = online_updates(means[0], counts[0], points[:num_arriving])
    return means[tf.newaxis], counts[tf.newaxis]

  return _from_scratch(local_means, num_clusters, min_count)
