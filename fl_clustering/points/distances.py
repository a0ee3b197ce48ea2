"""Squared distances between points and centroids, as one product of matrices.

They are computed as |x|^2 - 2 x.c + |c|^2, which cancels badly far from zero, so callers
first bring points near zero (`scaling.py`).
"""

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
