"""What a client computes from its points for the server to gather: means and counts.

A work is a function of `(points, centroids, seed)`: the client's points (n, d), the R
candidates that the server sent (R, K, d), and int32 (2,) to draw from.  It returns means
(R, K, d) and the numbers of points whose means they are (R, K).  K is always the same,
because TFF's types need it; an absent mean has a count of zero.  A work that starts from
scratch is sent candidates without centroids, of shape (R, 0, d).  No work decides what
leaves the client: `fl_clustering/points/released_means.py` does.

References:
  Swier Garst, Marcel Reinders. Federated K-Means Clustering. ICPR 2024, Algorithm 1.
  https://arxiv.org/abs/2310.01195
  Don Kurian Dennis, Tian Li, Virginia Smith. Heterogeneity for the Win: One-Shot
  Federated Clustering. ICML 2021, Algorithm 1. https://arxiv.org/abs/2103.00697
  Pranjal Awasthi, Or Sheffet. Improved Spectral-Norm Bounds for Clustering. APPROX
  2012. https://arxiv.org/abs/1206.3204
  Federated K-Means, in: Many Labs, an analysis of the Iowa Gambling Task.
"""

import functools

import tensorflow as tf

from fl_clustering.kmeans import sums as sums_lib
from fl_clustering.points import distances as distances_lib
from fl_clustering.points import seeding

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


def lloyd_step(points, centroids):
  """Takes one Lloyd step.

  Args:
    points: float32 of shape (n, d).
    centroids: float32 of shape (R, K, d).

  Returns:
    The means of the centroids' points (R, K, d), and how many points each has (R, K).  A
    centroid without points stays.
  """
  sums = sums_lib.lloyd_sums(points, centroids)
  means = sums_lib.moved_centroids(centroids, sums["sums"], sums["counts"])
  return means, sums["counts"]


def lloyd_steps(points, centroids, max_steps):
  """Takes Lloyd steps until nothing moves.

  Args:
    points: float32 of shape (n, d).
    centroids: float32 of shape (R, K, d).
    max_steps: The most steps.

  Returns:
    Means (R, K, d), and the numbers of points whose means they are (R, K).
  """

  def body(index, centroids, unused_counts, unused_moved):
    means, counts = lloyd_step(points, centroids)
    return index + 1, means, counts, tf.reduce_any(means != centroids)

  _, means, counts, _ = tf.while_loop(
      lambda index, centroids, counts, moved: (index < max_steps) & moved,
      body,
      (tf.constant(0), centroids, tf.zeros(tf.shape(centroids)[:2]), tf.constant(True)),
  )
  return means, counts


def best_of_tries(points, num_candidates, num_clusters, max_steps, seed):
  """Returns for each candidate the best of ten k-means started by k-means++.

  Args:
    points: float32 of shape (n, d), n > 0.
    num_candidates: Number of candidates, R.
    num_clusters: Number of clusters, K.
    max_steps: The most Lloyd steps of each try.
    seed: int32 of shape (2,).

  Returns:
    Means (R, K, d), and the numbers of points whose means they are (R, K).
  """
  alike = tf.ones([tf.shape(points)[0]])
  rows = seeding.seed_rows(
      points, alike, num_candidates * _TRIES, num_clusters,
      seeding.greedy_trials(num_clusters), seed,
  )
  means, counts = lloyd_steps(points, tf.gather(points, rows), max_steps)
  inertia = sums_lib.lloyd_sums(points, means)["inertia"]
  best = tf.argmin(
      tf.reshape(inertia, [num_candidates, _TRIES]), axis=1, output_type=tf.int32
  )
  best += _TRIES * tf.range(num_candidates)
  return tf.gather(means, best), tf.gather(counts, best)


def _from_scratch(local_means, num_clusters, min_count):
  """Returns the work that sends `local_means(points, num_candidates, num_local, seed)`."""

  @_as_one_graph
  def work(points, centroids, seed):
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
def initial_means(num_clusters, min_count, lloyd_steps_per_try=1):
  """Returns the start of FKM: k-means++ and Lloyd steps.

  Args:
    num_clusters: Number of clusters, K.
    min_count: The least number of points whose mean leaves a client; a client with fewer
      than K times as many looks for fewer clusters.
    lloyd_steps_per_try: The most Lloyd steps of each try; at least one, because the seeds
      of k-means++ are rows of the client.
  """

  def local_means(points, num_candidates, num_local, seed):
    return best_of_tries(points, num_candidates, num_local, lloyd_steps_per_try, seed)

  return _from_scratch(local_means, num_clusters, min_count)


@functools.lru_cache(maxsize=None)
def lloyd_means(local_iterations):
  """Returns a round of FKM: Lloyd steps from the candidates, empty clusters dropped.

  Args:
    local_iterations: Number of Lloyd steps.
  """

  @_as_one_graph
  def work(points, centroids, seed):
    del seed  # Nothing is drawn.
    counts = tf.zeros(tf.shape(centroids)[:2])
    for _ in range(local_iterations):
      centroids, counts = lloyd_step(points, centroids)
      centroids = tf.where(counts[..., tf.newaxis] > 0, centroids, _OUT_OF_SIGHT)
    return centroids, counts

  return work


def _principal_directions(points, num_directions):
  """Returns the right singular vectors of the largest singular values, as columns."""
  _, directions = tf.linalg.eigh(tf.matmul(points, points, transpose_a=True))
  return directions[:, -num_directions:]


def _core_means(points, centroids):
  """Returns the means of the points that are clearly one centroid's, else the centroid."""
  distances = distances_lib.squared_distances(points, centroids[tf.newaxis])[:, 0]
  # The nearest two; with one centroid every point is in its core.
  num_clusters = tf.shape(centroids)[0]
  nearest = tf.math.top_k(-distances, tf.minimum(num_clusters, 2))
  is_core = (num_clusters < 2) | (-_CORE_RATIO * nearest.values[:, 0] <= -nearest.values[:, -1])
  in_core = tf.one_hot(nearest.indices[:, 0], num_clusters) * tf.cast(is_core, tf.float32)[:, None]
  return sums_lib.moved_centroids(
      centroids, tf.matmul(in_core, points, transpose_a=True), tf.reduce_sum(in_core, axis=0)
  )


def _separated_kmeans(points, num_clusters, seed):
  """Clusters a client's points as k-FED does, for clusters that are far apart.

  Args:
    points: float32 of shape (n, d), n > 0.
    num_clusters: Number of clusters, K.
    seed: int32 of shape (2,).

  Returns:
    Means (1, K, d), and the numbers of points whose means they are (1, K).
  """
  directions = _principal_directions(
      points, tf.minimum(num_clusters, tf.shape(points)[1])
  )
  projected = tf.matmul(points, directions)
  alike = tf.ones([tf.shape(points)[0]])
  rows = seeding.seed_rows(projected, alike, 1, num_clusters, 1, seed)[0]
  cores = _core_means(projected, tf.gather(projected, rows))
  centroids = tf.matmul(cores, directions, transpose_b=True)[tf.newaxis]
  return lloyd_steps(points, centroids, _MAX_STEPS)


@functools.lru_cache(maxsize=None)
def separated_means(num_clusters, min_count):
  """Returns the client's part of k-FED, one candidate at a time.

  Args:
    num_clusters: Number of clusters to look for on a client.
    min_count: The least number of points whose mean leaves a client; a client with fewer
      than `num_clusters` times as many looks for fewer clusters.
  """

  def local_means(points, unused_num_candidates, num_local, seed):
    return _separated_kmeans(points, num_local, seed)

  return _from_scratch(local_means, num_clusters, min_count)


def online_updates(means, counts, points):
  """Moves the nearest mean C of n points to (C n + x) / (n + 1), point after point.

  Args:
    means: float32 of shape (K, d).
    counts: float32 of shape (K,).
    points: float32 of shape (m, d), in the order of their arrival.

  Returns:
    The means and counts afterwards.
  """

  def body(index, means, counts):
    point = points[index]
    distances = distances_lib.squared_distances(point[tf.newaxis], means[tf.newaxis])
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
def child_means(num_clusters, min_count, shuffle):
  """Returns the child server's part of child/parent, one candidate at a time.

  A client clusters three quarters of its points.  The rest then arrive one by one, and
  each moves the nearest centroid to the mean of it and the points before.  The points
  that arrive are the first quarter, as in the source, unless `shuffle` draws them.

  Args:
    num_clusters: Number of clusters, K.
    min_count: The least number of points whose mean leaves a client; a client with fewer
      than K times as many looks for fewer clusters.
    shuffle: Whether a client shuffles its points first.
  """

  def local_means(points, unused_num_candidates, num_local, seed):
    if shuffle:
      order = tf.argsort(tf.random.stateless_uniform([tf.shape(points)[0]], seed + 1))
      points = tf.gather(points, order)
    num_arriving = tf.shape(points)[0] // _ARRIVING_SHARE
    means, counts = best_of_tries(points[num_arriving:], 1, num_local, _MAX_STEPS, seed)
    means, counts = online_updates(means[0], counts[0], points[:num_arriving])
    return means[tf.newaxis], counts[tf.newaxis]

  return _from_scratch(local_means, num_clusters, min_count)
