"""One thread, for few points, and scikit-learn's weighted k-means in it.

Several threads add up in an order that changes from run to run, and for few points they
are slower than one.
"""

import functools
from typing import Any, ContextManager
import warnings

import numpy as np

from clustering_basics import core_count


@functools.lru_cache(maxsize=None)
def _thread_pools() -> Any:
  # Once, since looking for the thread pools takes milliseconds; scikit-learn loads its own before.
  from sklearn import cluster  # pylint: disable=g-import-not-at-top,unused-import
  import threadpoolctl  # pylint: disable=g-import-not-at-top

  return threadpoolctl.ThreadpoolController()


def one_thread() -> ContextManager[Any]:
  """Returns a context in which NumPy and scikit-learn compute in one thread."""
  core_count.count_quietly()
  return _thread_pools().limit(limits=1)


def fit(
    points: np.ndarray, num_clusters: int, weights: np.ndarray | None = None, **settings: Any
) -> Any:
  """Clusters points.

  Args:
    points: float64 of shape (n, d).
    weights: How much every point weighs, of shape (n,), above zero; all the same by
      default.

  Returns:
    The fitted `sklearn.cluster.KMeans`.  Where there are fewer different points than
    clusters, these are its centers, of which some coincide, without a warning.
  """
  # Here, since scikit-learn takes a second to import.
  from sklearn import cluster  # pylint: disable=g-import-not-at-top
  from sklearn import exceptions  # pylint: disable=g-import-not-at-top

  kmeans = cluster.KMeans(num_clusters, **settings)
  with one_thread(), warnings.catch_warnings():
    warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
    kmeans.fit(points, sample_weight=weights)
    # Into an empty cluster scikit-learn moves a point, but may leave its label and the inertia as
    # they were (https://github.com/scikit-learn/scikit-learn/issues/34074).
    if len(np.unique(kmeans.labels_)) < num_clusters:
      different = np.unique(points, axis=0)
      if len(different) <= num_clusters:
        kmeans.cluster_centers_ = np.resize(different, kmeans.cluster_centers_.shape)
      kmeans.labels_ = kmeans.predict(points)
      kmeans.inertia_ = -kmeans.score(points, sample_weight=weights)
    return kmeans
