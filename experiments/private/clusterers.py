"""The methods that the benchmark compares.

A clusterer is a function (points, k, epsilon, delta, seed) that returns the centers, an
array of shape (k, dim).  It leaves out of epsilon and delta what it does not know.
"""

import functools

from clustering_basics import core_count
from dp_clustering import clustering_params
from dp_clustering import private_methods
from experiments.private import datasets

# The name of each method for people.
METHODS = {
    "sklearn": "scikit-learn (not private)",
    "diffprivlib": "IBM diffprivlib",
    "lsh": "LSH tree",
    "refine": "split and refine",
}
NOT_PRIVATE = "sklearn"

# What scikit-learn's own default was when the source's benchmarks were made.  With its
# present default, 1, the non-private k-means is often worse than the private one.
_NUM_STARTS = 10


def _sklearn_centers(points, k, epsilon, delta, seed):
  del epsilon, delta  # It has no privacy.
  # Not on top: most of a second, which bad flags should not have to wait.
  from sklearn import cluster

  core_count.count_quietly()
  kmeans = cluster.KMeans(n_clusters=k, n_init=_NUM_STARTS, random_state=seed)
  return kmeans.fit(points).cluster_centers_


def private_result(method, points, k, epsilon, delta, seed):
  """Returns the `ClusteringResult` of one of our private methods, with seeded noise."""
  return private_methods.METHODS[method](
      k,
      clustering_params.Data(points, datasets.RADIUS),
      clustering_params.DifferentialPrivacyParam(epsilon, delta),
      random_state=seed,
  )


def _private_centers(method, *arguments):
  return private_result(method, *arguments).centers


def build_clusterers(diffprivlib_process=None):
  """Returns the clusterers by name.

  Args:
    diffprivlib_process: A `DiffprivlibProcess`; without it, there is no "diffprivlib".
  """
  clusterers = {
      "sklearn": _sklearn_centers,
      "lsh": functools.partial(_private_centers, "lsh"),
      "refine": functools.partial(_private_centers, "refine"),
  }
  if diffprivlib_process is not None:
    clusterers["diffprivlib"] = diffprivlib_process.centers
  return clusterers
