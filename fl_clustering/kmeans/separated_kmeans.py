"""The client's clustering in k-FED: made for clusters that are far apart.

References:
  Don Kurian Dennis, Tian Li, Virginia Smith. Heterogeneity for the Win: One-Shot
  Federated Clustering. ICML 2021, Algorithm 1. https://arxiv.org/abs/2103.00697
  Pranjal Awasthi, Or Sheffet. Improved Spectral-Norm Bounds for Clustering. APPROX
  2012. https://arxiv.org/abs/1206.3204
"""

import tensorflow as tf

from fl_clustering.kmeans import local_kmeans
from fl_clustering.kmeans import point_sums
from fl_clustering.kmeans import seeding

# A point belongs to the core of a cluster if every other one is this much farther,
# as squared distances: three times.
_CORE_RATIO = 9.0


def _principal_directions(points, num_directions):
  """Returns the right singular vectors of the largest singular values, as columns."""
  _, directions = tf.linalg.eigh(tf.matmul(points, points, transpose_a=True))
  return directions[:, -num_directions:]


def _core_means(points, centroids):
  """Returns the means of the points that are clearly one centroid's, else the centroid."""
  distances = point_sums.squared_distances(points, centroids[tf.newaxis])[:, 0]
  # The nearest two; with one centroid every point is in its core.
  num_clusters = tf.shape(centroids)[0]
  nearest = tf.math.top_k(-distances, tf.minimum(num_clusters, 2))
  is_core = (num_clusters < 2) | (-_CORE_RATIO * nearest.values[:, 0] <= -nearest.values[:, -1])
  in_core = tf.one_hot(nearest.indices[:, 0], num_clusters) * tf.cast(is_core, tf.float32)[:, None]
  return point_sums.moved_centroids(
      centroids, tf.matmul(in_core, points, transpose_a=True), tf.reduce_sum(in_core, axis=0)
  )


def separated_kmeans(points, num_clusters, max_steps, seed):
  """Clusters a client's points.

  Args:
    points: float32 of shape (n, d), n > 0.
    num_clusters: Number of clusters, K.
    max_steps: The most Lloyd steps.
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
  return local_kmeans.lloyd_steps(points, centroids, max_steps)
