"""k-means++ on a client, for many candidates at a time.

Reference:
  David Arthur, Sergei Vassilvitskii. k-means++: The Advantages of Careful Seeding.
  SODA 2007, section 2.
"""

import tensorflow as tf

from fl_clustering.kmeans import point_sums


def seed_rows(points, weights, num_candidates, num_seeds, seed):
  """Draws rows of the points by k-means++.

  Args:
    points: float32 of shape (n, d), n > 0.
    weights: float32 of shape (n,), what every point counts for; at least zero.
    num_candidates: How many sets to draw, R.
    num_seeds: How many rows to draw for each, K.
    seed: int32 of shape (2,).

  Returns:
    The rows' indices, int32 of shape (R, K); twice the same only where there are fewer
    than K different points.
  """
  num_points = tf.shape(points)[0]
  draws = tf.random.stateless_uniform([num_seeds, num_candidates], seed)
  rows = tf.TensorArray(tf.int32, num_seeds, element_shape=[None])

  def body(index, rows, closest):
    shares = weights * closest
    # Once nothing is left at any distance, as at first, the weights alone decide.
    is_left = tf.reduce_sum(shares, axis=1, keepdims=True) > 0
    # In float64, so that the last of many points are not lost to rounding.
    cumulative = tf.cumsum(tf.cast(tf.where(is_left, shares, weights), tf.float64), axis=1)
    targets = tf.cast(draws[index], tf.float64) * cumulative[:, -1]
    drawn = tf.searchsorted(cumulative, targets[:, tf.newaxis], side="right")[:, 0]
    drawn = tf.minimum(drawn, num_points - 1)
    centroids = tf.gather(points, drawn)[:, tf.newaxis]
    distances = tf.transpose(point_sums.squared_distances(points, centroids)[..., 0])
    # The point itself is at zero, but for rounding.
    distances *= 1.0 - tf.one_hot(drawn, num_points)
    nearer = tf.where(index > 0, tf.minimum(closest, distances), distances)
    return index + 1, rows.write(index, drawn), nearer

  _, rows, _ = tf.while_loop(
      lambda index, *_: index < num_seeds,
      body,
      (tf.constant(0), rows, tf.ones([num_candidates, num_points])),
  )
  return tf.transpose(rows.stack())
