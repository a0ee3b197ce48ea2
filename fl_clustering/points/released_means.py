"""What may leave a client one by one: means of enough points, none of them a row.

A sum over the clients can hide every client's part, but a client's own means tell about
its points.  So a message that the server sees client by client leaves out

  - every mean of fewer than `min_count` points, and
  - every mean that equals one of the client's rows, as the mean of identical rows does.

Such a mean is sent as zero with a count of zero, which has no weight on the server.  A
mean of two points is still weak protection: whoever knows one of the points can compute
the other, and means that change from round to round tell about the rows in between.
"""

import numpy as np
import tensorflow as tf

from fl_clustering.points import distances as distances_lib

_EPSILON = np.finfo(np.float32).eps
# float32 numbers of order one that are this close differ by rounding only ...
_SAME = 4e-7
# ... and sums of them at least this close.
_SAME_AFTER_SUM = 1e-5


def _rounding_of_sums(counts):
  """Returns the relative error of the computed mean of so many equal rows, at most."""
  # Half a bit for each float32 addition: those of equal numbers err on the same side.
  additions = tf.minimum(counts, float(distances_lib.BLOCK_ROWS))
  return tf.maximum(_SAME_AFTER_SUM, 0.5 * _EPSILON * additions)


def _may_be_near(points, means, tolerance):
  """Returns which pairs are near enough to be equal, bool of shape (n, M); few are."""
  num_columns = tf.cast(tf.shape(points)[1], tf.float32)
  distances = distances_lib.squared_distances(points, means[tf.newaxis])[:, 0]
  norms = tf.norm(points, axis=1)[:, tf.newaxis]
  apart = tolerance**2 * (norms**2 + num_columns)
  # Twice what rounding can do to a product of matrices with so many columns.
  rounding = 2 * num_columns * _EPSILON * (norms + tf.norm(means, axis=1)) ** 2
  return distances <= apart + rounding


def _num_rows_near(points, means, asked, tolerance):
  """Returns for the means (M, d) that are asked for (M,) how many of n points equal them."""
  num_columns = tf.shape(points)[1]

  def body(column, same):
    values, own = points[:, column, tf.newaxis], means[tf.newaxis, :, column]
    equal = tf.abs(values - own) <= tolerance * tf.maximum(tf.abs(values), 1.0)
    return column + 1, tf.logical_and(same, equal)

  # Column by column, which is over at once for data without repetitions.
  _, same = tf.while_loop(
      lambda column, same: tf.logical_and(column < num_columns, tf.reduce_any(same)),
      body,
      (tf.constant(0), tf.logical_and(asked, _may_be_near(points, means, tolerance))),
  )
  return tf.reduce_sum(tf.cast(same, tf.float32), axis=0)


def released_means(points, means, counts, min_count):
  """Returns the means and counts with zeros for those that must not leave the client.

  Args:
    points: The client's points, float32 of shape (n, d).
    means: float32 of shape (R, K, d).
    counts: The numbers of points whose means they are, float32 of shape (R, K).
    min_count: The least number of points whose mean leaves the client.
  """
  flat, flat_counts = tf.reshape(means, [-1, tf.shape(means)[2]]), tf.reshape(counts, [-1])
  enough = flat_counts >= tf.cast(min_count, tf.float32)
  is_row = tf.logical_or(
      _num_rows_near(points, flat, enough, _SAME) > 0,
      # All of its points are the same row.
      _num_rows_near(points, flat, enough, _rounding_of_sums(flat_counts)) >= flat_counts,
  )
  leaves = tf.reshape(tf.logical_and(enough, tf.logical_not(is_row)), tf.shape(counts))
  return tf.where(leaves[..., tf.newaxis], means, 0.0), tf.where(leaves, counts, 0.0)
