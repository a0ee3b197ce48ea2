"""A client's own clusters, before there are any centers: its means and their counts."""

import tensorflow as tf

from fl_clustering.kmeans import local_kmeans
from fl_clustering.kmeans import released_means

_LLOYD_STEPS = 10


# One graph for clients of any size.
@tf.function(
    input_signature=[
        tf.TensorSpec([None, None], tf.float64),
        tf.TensorSpec([], tf.int32),
        tf.TensorSpec([], tf.int32),
        tf.TensorSpec([2], tf.int32),
    ]
)
def local_means(points, num_clusters, min_count, seed):
  """Clusters a client's points by k-means.

  Args:
    points: Scaled points, float64 of shape (n, D); float32 will do for a start.
    num_clusters: Number of rows to return, K.
    min_count: The least number of points whose mean is returned.
    seed: int32 of shape (2,).

  Returns:
    Means of shape (K, D) and the clusters' numbers of points of shape (K,), float32.
    Rows that must not leave the client (see `released_means.py`) are zero, and so are
    their numbers.
  """
  points = tf.cast(points, tf.float32)
  num_local = local_kmeans.num_local_clusters(points, num_clusters, min_count)
  means = tf.zeros([1, 0, tf.shape(points)[1]])
  counts = tf.zeros([1, 0])
  if num_local > 0:
    means, counts = local_kmeans.best_of_tries(points, 1, num_local, _LLOYD_STEPS, seed)
  missing = num_clusters - tf.shape(counts)[1]
  means = tf.pad(means, [[0, 0], [0, missing], [0, 0]])
  counts = tf.pad(counts, [[0, 0], [0, missing]])
  means, counts = released_means.released_means(
      points, means, counts, tf.cast(min_count, tf.float32)
  )
  return means[0], counts[0]
