"""k-means++, plain and greedy, for many candidates at a time.

References:
  David Arthur, Sergei Vassilvitskii. k-means++: The Advantages of Careful Seeding.
  SODA 2007, section 2, and section 7 for the greedy one.
"""

import tensorflow as tf

from fl_clustering.points import distances as distances_lib


def greedy_trials(num_seeds: int | tf.Tensor) -> tf.Tensor:
  """Returns the number of trials that scikit-learn's KMeans makes for every seed."""
  return 2 + tf.cast(tf.math.log(tf.cast(num_seeds, tf.float32)), tf.int32)


def _drawn_rows(shares: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
  """Draws rows by their shares (R, n), with one number in [0, 1) for each row (R, L)."""
  # In float64, so that the last of many points are not lost to rounding.
  cumulative = tf.cumsum(tf.cast(shares, tf.float64), axis=1)
  targets = tf.cast(uniforms, tf.float64) * cumulative[:, -1:]
  drawn = tf.searchsorted(cumulative, targets, side="right")
  return tf.minimum(drawn, tf.shape(shares)[1] - 1)


def _distances_to(points: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
  """Returns the squared distances (R, L, n) of all points to the seeds (R, L, d)."""
  shape = tf.shape(seeds)
  flat = tf.reshape(seeds, [-1, shape[2]])
  # The product of matrices with the points last, so that nothing is transposed.
  return tf.reshape(
      distances_lib.squared_distances(flat, points[tf.newaxis]), [shape[0], shape[1], -1]
  )


def _distances_to_rows(points: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
  """Returns the squared distances (R, n) of all points to the rows (R,)."""
  distances = _distances_to(points, tf.gather(points, rows)[:, tf.newaxis])[:, 0]
  # The row itself is at zero, but for rounding.
  return distances * (1.0 - tf.one_hot(rows, tf.shape(points)[0]))


def _inertia_left(
    points: tf.Tensor, weights: tf.Tensor, closest: tf.Tensor, rows: tf.Tensor
) -> tf.Tensor:
  """Returns the inertia (R, L) that each of the rows (R, L) would leave as the next seed."""
  seeds = tf.gather(points, rows)

  def body(start: tf.Tensor, left: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    block = slice(start, start + distances_lib.BLOCK_ROWS)
    distances = _distances_to(points[block], seeds)
    nearer = tf.minimum(closest[:, tf.newaxis, block], distances)
    return start + distances_lib.BLOCK_ROWS, left + tf.linalg.matvec(nearer, weights[block])

  return tf.while_loop(
      lambda start, left: start < tf.shape(points)[0],
      body,
      (tf.constant(0), tf.zeros(tf.shape(rows))),
  )[1]


def seed_rows(
    points: tf.Tensor, weights: tf.Tensor, num_candidates: int, num_seeds: int, num_trials: int,
    seed: tf.Tensor,
) -> tf.Tensor:
  """Draws rows of the points by k-means++.

  Args:
    points: float32 of shape (n, d), n > 0.
    weights: float32 of shape (n,), what every point counts for; at least zero.
    num_trials: How many rows are drawn for every seed but the first, L, of which the one
      that leaves the least inertia is taken.  One trial is plain k-means++.
    seed: int32 of shape (2,).

  Returns:
    The rows' indices, int32 of shape (num_candidates, num_seeds); in a candidate twice the same
    only where there are fewer different points.
  """
  uniforms = tf.random.stateless_uniform([num_seeds, num_candidates, num_trials], seed)
  weights_alone = tf.repeat(weights[tf.newaxis], num_candidates, axis=0)
  first = _drawn_rows(weights_alone, uniforms[0, :, :1])[:, 0]
  rows = tf.TensorArray(tf.int32, num_seeds, element_shape=[None]).write(0, first)

  def body(
      index: tf.Tensor, rows: tf.TensorArray, closest: tf.Tensor
  ) -> tuple[tf.Tensor, tf.TensorArray, tf.Tensor]:
    shares = weights * closest
    # Once nothing is left at any distance, the weights alone decide.
    is_left = tf.reduce_sum(shares, axis=1, keepdims=True) > 0
    drawn = _drawn_rows(tf.where(is_left, shares, weights), uniforms[index])
    left = _inertia_left(points, weights, closest, drawn)
    best = tf.argmin(left, axis=1, output_type=tf.int32)
    taken = tf.gather(drawn, best, batch_dims=1)
    nearer = tf.minimum(closest, _distances_to_rows(points, taken))
    return index + 1, rows.write(index, taken), nearer

  _, rows, _ = tf.while_loop(
      lambda index, *_: index < num_seeds,
      body,
      (tf.constant(1), rows, _distances_to_rows(points, first)),
  )
  return tf.transpose(rows.stack())
