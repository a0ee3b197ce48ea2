"""Where the centers start: one round of the clients' means, clustered by the server.

One-shot clustering in the manner of k-FED: every client clusters its own points, the
server clusters the clients' means, weighted by their counts.  All views are clustered
together, scaled to the same total variance, so that cluster k is the same cluster in
every view and at every client.

References:
  Don Kurian Dennis, Tian Li, Virginia Smith. Heterogeneity for the Win: One-Shot
  Federated Clustering. ICML 2021. https://arxiv.org/abs/2103.00697
"""

import collections
import functools

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from clustering_basics import randomness
from fl_clustering.kmeans import server_step
from fl_clustering.multiview import local_means
from fl_clustering.multiview import multiview_rounds


@functools.lru_cache(maxsize=None)
def build_gather_means(blocks, num_clusters, min_count):
  """Returns the round in which every client sends the means of its own clusters.

  Args:
    blocks: Numbers of columns that are clustered together, which sum to D: one block
      for all views, or one per view.
    num_clusters: Number of clusters, K.
    min_count: The least number of points whose mean leaves a client.

  Returns:
    The computation `(mean@SERVER, scale@SERVER, {job}@CLIENTS) -> {(index, means,
    counts)}@CLIENTS`, with means of shape (K, D) and counts of shape (K, number of
    blocks).
  """
  columns_type = multiview_rounds.vector_type(sum(blocks))
  job_type = tff.StructWithPythonType(
      [("index", np.int32), ("path", np.str_), ("seed", tff.TensorType(np.int32, [2]))],
      collections.OrderedDict,
  )

  @tff.tensorflow.computation(columns_type, columns_type, job_type)
  def client_means(mean, scale, job):
    points = multiview_rounds.scaled_points(job["path"], mean, scale)
    found = [
        local_means.local_means(
            part, num_clusters, min_count,
            tf.random.experimental.stateless_fold_in(job["seed"], block),
        )
        for block, part in enumerate(tf.split(points, blocks, axis=1))
    ]
    means, counts = zip(*found)
    return job["index"], tf.concat(means, axis=1), tf.stack(counts, axis=1)

  @tff.federated_computation(
      tff.FederatedType(columns_type, tff.SERVER),
      tff.FederatedType(columns_type, tff.SERVER),
      tff.FederatedType(job_type, tff.CLIENTS),
  )
  def gather_means(mean, scale, jobs):
    sent = (tff.federated_broadcast(mean), tff.federated_broadcast(scale), jobs)
    return tff.federated_map(client_means, sent)

  return gather_means


def server_centers(means, counts, num_clusters, rng):
  """Clusters the clients' means.

  Args:
    means: float32 of shape (M, D); M may be zero.
    counts: float32 of shape (M,), above zero.
    num_clusters: Number of clusters, K.
    rng: A `np.random.Generator`.

  Returns:
    Centers of shape (K, D), all different.
  """
  if not len(means):  # All clients are too small; zero is the middle of all points.
    return server_step.near(np.zeros((1, means.shape[1])), num_clusters, rng)
  return server_step.combined_means(means, counts, num_clusters, rng)


class Initialization:
  """Draws the first centers: one call per restart."""

  def __init__(self, paths, widths, num_clusters, min_count, seed):
    """Takes what all restarts share.

    Args:
      paths: The clients' files, by client id.
      widths: The views' numbers of columns.
      num_clusters: Number of clusters.
      min_count: The least number of points whose mean leaves a client.
      seed: The run's seed.
    """
    self._paths = paths
    self._widths = widths
    self._num_clusters = num_clusters
    self._min_count = min_count
    self._seed = seed

  def _gather(self, scaling, view_scale, blocks, purpose, restart):
    """Returns the clients' means (M, D) and counts (M, number of blocks)."""
    jobs = [
        collections.OrderedDict(
            index=index,
            path=path,
            seed=randomness.stateless_seed(self._seed, f"{purpose}: clients", restart, client_id),
        )
        for index, (client_id, path) in enumerate(self._paths.items())
    ]
    gather_means = build_gather_means(blocks, self._num_clusters, self._min_count)
    results = gather_means(scaling.mean, scaling.scale * view_scale, jobs)
    # Sorted, because TFF may return results in the order of completion.
    _, means, counts = zip(*sorted(results, key=lambda result: result[0]))
    return np.concatenate(means), np.concatenate(counts)

  def centers(self, scaling, betas, restart, views_apart=False):
    """Returns centers of shape (K, D) in the scaling's coordinates.

    Args:
      scaling: A `Scaling`.
      betas: The views' bandwidths: here, too, what a view's squared distances are
        multiplied by.
      restart: Other restarts have other random numbers.
      views_apart: Whether center k is another cluster in every view.
    """
    purpose = "first centers, views apart" if views_apart else "first centers"
    blocks = self._widths if views_apart else (sum(self._widths),)
    view_scale = np.repeat(np.sqrt(betas), self._widths)
    means, counts = self._gather(scaling, view_scale, blocks, purpose, restart)
    rng = randomness.generator(self._seed, f"{purpose}: server", restart)
    ends = np.cumsum(blocks)[:-1]
    centers = [
        server_centers(part[sent > 0], sent[sent > 0], self._num_clusters, rng)
        for part, sent in zip(np.split(means, ends, axis=1), counts.T)
    ]
    return np.concatenate(centers, axis=1) / view_scale
