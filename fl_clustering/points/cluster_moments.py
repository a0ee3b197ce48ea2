"""Numbers of rows, means and spreads of clusters, from one round of sums over the clients."""

from __future__ import annotations

import collections
from typing import Any, Callable

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.points import point_files


def sums(
    files: point_files.PointFiles, origins: np.ndarray,
    assign: Callable[[Any, tf.Tensor], tf.Tensor], **arrays: np.ndarray,
) -> dict[str, np.ndarray]:
  """Returns the sums that the moments of clusters follow from; see `build_sum_round`.

  Args:
    origins: What is subtracted from the points of every cluster, near their means so that
      nothing cancels; float64 of shape (K, d).
    assign: A TensorFlow function (a dict of `origins` and `arrays`, points (n, d)) -> clusters
      (n,).
    **arrays: What else the clients need to find their points' clusters, float64.

  Returns:
    The clusters' `counts` (K,), and the `sums` and `squares` of their points' distances to the
    origins by column, (K, d), float64.
  """
  query = {"origins": origins, **arrays}
  query_type = tff.StructWithPythonType(
      [(name, tff.TensorType(np.float64, array.shape)) for name, array in query.items()],
      collections.OrderedDict,
  )

  def local_sums(query: Any, client: Any) -> dict[str, tf.Tensor]:
    points = files.source.read(client)
    clusters = tf.cast(assign(query, points), tf.int32)
    residuals = points - tf.gather(query["origins"], clusters)
    by_cluster = lambda values: tf.math.unsorted_segment_sum(values, clusters, len(origins))
    return collections.OrderedDict(
        counts=by_cluster(tf.ones_like(points[:, 0])),
        sums=by_cluster(residuals),
        squares=by_cluster(residuals * residuals),
    )

  found = point_files.build_sum_round(files.source, query_type, local_sums)(query, files.clients())
  return {name: np.asarray(values) for name, values in found.items()}
