"""k-means on one client's points, as TensorFlow that a TFF client can run."""

import tensorflow as tf

from fl_clustering.kmeans import point_sums
from fl_clustering.kmeans import seeding

# As many as scikit-learn's KMeans made when the papers were written.
_TRIES = 10


def num_local_clusters(points, num_clusters, min_count):
  """Returns how many clusters to look for: with more, not all can have `min_count` points."""
  return tf.minimum(num_clusters, tf.shape(points)[0] // min_count)


def lloyd_step(points, centroids):
  """Returns the means of the centroids' points, and how many points each has."""
  sums = point_sums.lloyd_sums(points, centroids)
  means = point_sums.moved_centroids(centroids, sums["sums"], sums["counts"])
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
  inertia = point_sums.lloyd_sums(points, means)["inertia"]
  best = tf.argmin(
      tf.reshape(inertia, [num_candidates, _TRIES]), axis=1, output_type=tf.int32
  )
  best += _TRIES * tf.range(num_candidates)
  return tf.gather(means, best), tf.gather(counts, best)
