"""What a client computes from its points for the server to gather: means and counts.

A work is a function of `(points, centroids, seed)`: the client's points (n, d), the R
candidates that the server sent (R, K, d), and int32 (2,) to draw from.  It returns
means (R, K, d) and the numbers of points whose means they are (R, K), K always the
same, so that TFF's types can hold it; an absent mean has a count of zero.  A work that
starts afresh is sent candidates without centroids, of shape (R, 0, d).  No work decides
what leaves the client: `released_means.py` does.
"""

import functools

import tensorflow as tf

from fl_clustering.kmeans import child_updates
from fl_clustering.kmeans import local_kmeans
from fl_clustering.kmeans import separated_kmeans

_MAX_STEPS = 100
# Where no point is near, and float32 still squares.
_OUT_OF_SIGHT = 1e6

# One graph for clients of any size.
_as_one_graph = tf.function(
    input_signature=[
        tf.TensorSpec([None, None], tf.float32),
        tf.TensorSpec([None, None, None], tf.float32),
        tf.TensorSpec([2], tf.int32),
    ]
)


def _from_scratch(local_means, num_clusters, min_count):
  """Returns the work that sends `local_means(points, num_candidates, num_local, seed)`."""

  @_as_one_graph
  def work(points, centroids, seed):
    num_candidates = tf.shape(centroids)[0]
    num_local = local_kmeans.num_local_clusters(points, num_clusters, min_count)
    means = tf.zeros([num_candidates, 0, tf.shape(points)[1]])
    counts = tf.zeros([num_candidates, 0])
    if num_local > 0:
      means, counts = local_means(points, num_candidates, num_local, seed)
    missing = num_clusters - tf.shape(counts)[1]
    return (
        tf.pad(means, [[0, 0], [0, missing], [0, 0]]),
        tf.pad(counts, [[0, 0], [0, missing]]),
    )

  return work


@functools.lru_cache(maxsize=None)
def initial_means(num_clusters, min_count):
  """Returns the start of FKM: k-means++, and one Lloyd step, because its seeds are rows."""

  def local_means(points, num_candidates, num_local, seed):
    return local_kmeans.best_of_tries(points, num_candidates, num_local, 1, seed)

  return _from_scratch(local_means, num_clusters, min_count)


@functools.lru_cache(maxsize=None)
def lloyd_means(local_iterations):
  """Returns a round of FKM: Lloyd steps from the candidates, empty clusters dropped."""

  @_as_one_graph
  def work(points, centroids, seed):
    del seed  # Nothing is drawn.
    counts = tf.zeros(tf.shape(centroids)[:2])
    for _ in range(local_iterations):
      centroids, counts = local_kmeans.lloyd_step(points, centroids)
      centroids = tf.where(counts[..., tf.newaxis] > 0, centroids, _OUT_OF_SIGHT)
    return centroids, counts

  return work


@functools.lru_cache(maxsize=None)
def separated_means(num_clusters, min_count):
  """Returns the client's part of k-FED, one candidate at a time."""

  def local_means(points, unused_num_candidates, num_local, seed):
    return separated_kmeans.separated_kmeans(points, num_local, _MAX_STEPS, seed)

  return _from_scratch(local_means, num_clusters, min_count)


@functools.lru_cache(maxsize=None)
def child_means(num_clusters, min_count, shuffle):
  """Returns the child server's part of child/parent, one candidate at a time."""

  def local_means(points, unused_num_candidates, num_local, seed):
    return child_updates.child_means(points, num_local, _MAX_STEPS, shuffle, seed)

  return _from_scratch(local_means, num_clusters, min_count)
