"""k-means in TensorFlow, for several candidate sets of centroids at a time: sums, scores, seeds.

Lloyd's algorithm needs nothing but sums of the points.  The distances of the points to all
candidates are one product of matrices, so restarts cost little more than one fit.
Shapes: n points, d columns, R candidates of K centroids each.

Distances are computed as |x|^2 - 2 x.c + |c|^2, which cancels badly far from zero, so callers
first bring points near zero and to order one (`points/grid_scaling.py`).  Numbers are float32.

References:
  Stuart P. Lloyd. Least Squares Quantization in PCM. IEEE Transactions on Information
  Theory, 1982. https://doi.org/10.1109/TIT.1982.1056489
  David Arthur, Sergei Vassilvitskii. k-means++: The Advantages of Careful Seeding.
  SODA 2007, section 2, and section 7 for the greedy one.
"""

import collections
from typing import Callable, Sequence

import tensorflow as tf

# Rows whose distances fit a processor's cache; also bounds the memory.
BLOCK_ROWS = 2048


def squared_distances(points: tf.Tensor, centroids: tf.Tensor) -> tf.Tensor:
  """Returns the squared distances (n, R, K) of points (n, d) to centroids (R, K, d).

  Both are float32 or both float64.  No distance is below zero.
  """
  shape = tf.shape(centroids)
  flat = tf.reshape(centroids, [-1, centroids.shape[-1] or shape[-1]])
  distances = (
      tf.reduce_sum(points * points, axis=1, keepdims=True)
      - 2.0 * tf.matmul(points, flat, transpose_b=True)
      + tf.reduce_sum(flat * flat, axis=1)
  )
  # Rounding can leave them below zero.
  return tf.reshape(tf.maximum(distances, 0.0), [-1, shape[0], shape[1]])


def _blockwise_sums(
    points: tf.Tensor, initial: Sequence[tf.Tensor],
    block_sums: Callable[[tf.Tensor], Sequence[tf.Tensor]],
) -> list[tf.Tensor]:
  """Returns the sum of `block_sums(block)` over blocks of rows.

  Within a block sums are in float32, over the blocks in float64.
  """
  num_points = tf.shape(points)[0]
  block_rows = BLOCK_ROWS

  def body(start: tf.Tensor, *totals: tf.Tensor) -> tuple[tf.Tensor, ...]:
    parts = block_sums(points[start : start + block_rows])
    return start + block_rows, *(
        tf.ensure_shape(total + tf.cast(part, tf.float64), total.shape)
        for total, part in zip(totals, parts)
    )

  _, *totals = tf.while_loop(
      lambda start, *_: start < num_points, body, (tf.constant(0), *initial)
  )
  return [tf.cast(total, tf.float32) for total in totals]


def lloyd_sums(points: tf.Tensor, centroids: tf.Tensor) -> dict[str, tf.Tensor]:
  """Gives every point (n, d) to its nearest centroid (R, K, d), and sums up.

  Returns:
    `sums` (R, K, d) of the points of each centroid, `counts` (R, K), and `inertia` (R,), the
    squared distances at these centroids.
  """
  shape = tf.shape(centroids)

  def block_sums(block: tf.Tensor) -> tuple[tf.Tensor, ...]:
    distances = squared_distances(block, centroids)
    members = tf.one_hot(tf.argmin(distances, axis=2, output_type=tf.int32), shape[1])
    flat = tf.reshape(members, [-1, shape[0] * shape[1]])
    return (
        tf.reshape(tf.matmul(flat, block, transpose_a=True), shape),
        tf.reduce_sum(members, axis=0),
        tf.reduce_sum(tf.reduce_min(distances, axis=2), axis=0),
    )

  initial = (
      tf.zeros(shape, tf.float64),
      tf.zeros(shape[:2], tf.float64),
      tf.zeros(shape[:1], tf.float64),
  )
  sums, counts, inertia = _blockwise_sums(points, initial, block_sums)
  return collections.OrderedDict(sums=sums, counts=counts, inertia=inertia)


def moved_centroids(
    centroids: tf.Tensor, sums: tf.Tensor, counts: tf.Tensor
) -> tf.Tensor:
  """Returns the means of the centroids' points, from sums and counts; one without any stays."""
  means = tf.math.divide_no_nan(sums, counts[..., tf.newaxis])
  return tf.where(counts[..., tf.newaxis] > 0, means, centroids)


def scores(points: tf.Tensor, centroids: tf.Tensor) -> dict[str, tf.Tensor]:
  """Returns how well every candidate fits the points.

  The simplified silhouette of a point is (b - a) / max(a, b) with its distances a and b
  to the nearest and the second nearest centroid (Hruschka, de Castro, Campello,
  "Evolutionary Algorithms for Clustering Gene-Expression Data", ICDM 2004); it is zero
  where there is one centroid only, and where both distances are zero.

  Returns:
    `inertia` (R,), `silhouettes` (R,), the sum of the points' simplified silhouettes, and `counts`
    (R, K), the numbers of points nearest to the centroids.
  """
  num_candidates, num_clusters = tf.unstack(tf.shape(centroids)[:2])

  def block_sums(block: tf.Tensor) -> tuple[tf.Tensor, ...]:
    distances = squared_distances(block, centroids)
    # The smallest two; with one centroid they are the same.
    found = tf.math.top_k(-distances, tf.minimum(num_clusters, 2))
    nearest = -found.values
    own, other = tf.sqrt(nearest[..., 0]), tf.sqrt(nearest[..., -1])
    return (
        tf.reduce_sum(nearest[..., 0], axis=0),
        tf.reduce_sum(tf.math.divide_no_nan(other - own, other), axis=0),
        tf.reduce_sum(tf.one_hot(found.indices[..., 0], num_clusters), axis=0),
    )

  zeros = tf.zeros([num_candidates], tf.float64)
  counts = tf.zeros([num_candidates, num_clusters], tf.float64)
  sums = _blockwise_sums(points, (zeros, zeros, counts), block_sums)
  return collections.OrderedDict(zip(("inertia", "silhouettes", "counts"), sums))


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
      squared_distances(flat, points[tf.newaxis]), [shape[0], shape[1], -1]
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
    block = slice(start, start + BLOCK_ROWS)
    distances = _distances_to(points[block], seeds)
    nearer = tf.minimum(closest[:, tf.newaxis, block], distances)
    return start + BLOCK_ROWS, left + tf.linalg.matvec(nearer, weights[block])

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
