"""The child server of the child/parent scheme: k-means, then one point at a time.

A client clusters three quarters of its points.  The rest then arrive one by one, and
each moves the nearest centroid to the mean of it and the points before.  The points of
the first quarter are those that arrive, as in the source, which does not shuffle.

Reference:
  Federated K-Means, in: Many Labs, an analysis of the Iowa Gambling Task.
"""

import tensorflow as tf

from fl_clustering.kmeans import local_kmeans
from fl_clustering.kmeans import point_sums

_ARRIVING_SHARE = 4  # One in four.


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
    distances = point_sums.squared_distances(point[tf.newaxis], means[tf.newaxis])
    nearest = tf.argmin(distances[0, 0])
    count = counts[nearest]
    # So written, rounding does not add up: a mean that is there stays there.
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


def child_means(points, num_clusters, max_steps, shuffle, seed):
  """Returns what a child server sends.

  Args:
    points: float32 of shape (n, d), n > 0.
    num_clusters: Number of clusters, K.
    max_steps: The most Lloyd steps of the k-means.
    shuffle: Whether points are shuffled before they are split.
    seed: int32 of shape (2,).

  Returns:
    Means (1, K, d), and the numbers of points whose means they are (1, K).
  """
  if shuffle:
    order = tf.argsort(tf.random.stateless_uniform([tf.shape(points)[0]], seed + 1))
    points = tf.gather(points, order)
  num_arriving = tf.shape(points)[0] // _ARRIVING_SHARE
  means, counts = local_kmeans.best_of_tries(
      points[num_arriving:], 1, num_clusters, max_steps, seed
  )
  means, counts = online_updates(means[0], counts[0], points[:num_arriving])
  return means[tf.newaxis], counts[tf.newaxis]
