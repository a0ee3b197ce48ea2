"""Where the centers start: one round of the clients' means, clustered by the server.

One-shot clustering in the manner of k-FED: every client clusters its own points, the
server clusters the clients' means, weighted by their counts.  All views are clustered
together, scaled to the same total variance, so that cluster k is the same cluster in
every view and at every client.

References:
  Don Kurian Dennis, Tian Li, Virginia Smith. Heterogeneity for the Win: One-Shot
  Federated Clustering. ICML 2021. https://arxiv.org/abs/2103.00697
"""

import functools

import numpy as np
import tensorflow as tf

from clustering_basics import randomness
from fl_clustering.kmeans import local_work
from fl_clustering.kmeans import server_step
from fl_clustering.points import gathering
from fl_clustering.points import scaling as scaling_lib

_LLOYD_STEPS = 10


@functools.lru_cache(maxsize=None)
def block_means(num_clusters, min_count, block):
  """Returns a client's work: the means of its own clusters in one block of columns.

  Args:
    num_clusters: Number of clusters, K.
    min_count: The least number of points whose mean leaves a client.
    block: The position of the block; every block draws its own random numbers.
  """
  work = local_work.initial_means(num_clusters, min_count, _LLOYD_STEPS)

  def draw_and_work(points, centroids, seed):
    return work(points, centroids, tf.random.experimental.stateless_fold_in(seed, block))

  return draw_and_work


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


def first_centers(config, files, widths, betas, restart, views_apart=False):
  """Returns centers of shape (K, D) in the coordinates of the files.

  Args:
    config: `MultiViewConfig`.
    files: The clients as `PointFiles`, in the coordinates of the fit.
    widths: The views' numbers of columns.
    betas: The views' bandwidths.  They scale the views' squared distances here, too.
    restart: Every restart draws its own random numbers.
    views_apart: Whether center k is another cluster in every view.
  """
  purpose = "first centers, views apart" if views_apart else "first centers"
  blocks = widths if views_apart else (sum(widths),)
  works = tuple(
      (width, block_means(config.n_clusters, config.min_count, block))
      for block, width in enumerate(blocks)
  )
  seeds = {
      client_id: randomness.stateless_seed(
          config.seed, f"{purpose}: clients", restart, client_id
      )
      for client_id in files.paths
  }
  view_scale = np.repeat(np.sqrt(betas), widths)
  scaling = scaling_lib.Scaling(files.scaling.shift, files.scaling.factor * view_scale)
  gathered = gathering.gather_blocks(
      files.scaled(scaling), works, config.min_count,
      np.zeros((1, 0, files.num_columns), np.float32), seeds,
  )
  rng = randomness.generator(config.seed, f"{purpose}: server", restart)
  centers = [
      server_centers(*means.present(0), config.n_clusters, rng) for means in gathered
  ]
  return np.concatenate(centers, axis=1) / view_scale
