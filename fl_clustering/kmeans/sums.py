"""What a client sums up over its points, for several candidate sets of centroids at a time.

Lloyd's algorithm needs nothing but sums of the points.  The distances of the points to all
candidates are one product of matrices, so restarts cost little more than one fit.
Shapes: n points, d columns, R candidates of K centroids each.

All numbers are float32; points are near zero and of order one (`points/scaling.py`).

Reference:
  Stuart P. Lloyd. Least Squares Quantization in PCM. IEEE Transactions on Information
  Theory, 1982. https://doi.org/10.1109/TIT.1982.1056489
"""

import collections
from typing import Callable, Sequence

import tensorflow as tf

from fl_clustering.points import distances as distances_lib


def _blockwise_sums(
    points: tf.Tensor, initial: Sequence[tf.Tensor],
    block_sums: Callable[[tf.Tensor], Sequence[tf.Tensor]],
) -> list[tf.Tensor]:
  """Returns the sum of `block_sums(block)` over blocks of rows.

  Within a block sums are in float32, over the blocks in float64.
  """
  num_points = tf.shape(points)[0]
  block_rows = distances_lib.BLOCK_ROWS

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
    distances = distances_lib.squared_distances(block, centroids)
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
    `inertia` (R,), and `silhouettes` (R,), the sum of the points' simplified silhouettes.
  """
  num_candidates, num_clusters = tf.unstack(tf.shape(centroids)[:2])

  def block_sums(block: tf.Tensor) -> tuple[tf.Tensor, ...]:
    distances = distances_lib.squared_distances(block, centroids)
    # The smallest two; with one centroid they are the same.
    nearest = -tf.math.top_k(-distances, tf.minimum(num_clusters, 2)).values
    own, other = tf.sqrt(nearest[..., 0]), tf.sqrt(nearest[..., -1])
    return (
        tf.reduce_sum(nearest[..., 0], axis=0),
        tf.reduce_sum(tf.math.divide_no_nan(other - own, other), axis=0),
    )

  zeros = tf.zeros([num_candidates], tf.float64)
  inertia, silhouettes = _blockwise_sums(points, (zeros, zeros), block_sums)
  return collections.OrderedDict(inertia=inertia, silhouettes=silhouettes)
