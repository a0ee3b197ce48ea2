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
    assign: Callable[[Any, tf.Tensor], tf.Tensor], min_count: int = 1, **arrays: np.ndarray,
) -> dict[str, np.ndarray]:
  """Returns the sums that the moments of clusters follow from; see `build_sum_round`.

  Args:
    origins: What is subtracted from the points of every cluster, near their means so that
      nothing cancels; float64 of shape (K, d).
    assign: A TensorFlow function (a dict of `origins` and `arrays`, points (n, d)) -> clusters
      (n,).
    min_count: If it exceeds 1, another round asks for the counts first, and clusters of fewer
      points add nothing to the other sums.
    **arrays: What else the clients need to find their points' clusters, float64.

  Returns:
    The clusters' `counts` (K,), and the `sums` and `squares` of their points' distances to the
    origins by column, (K, d), float64.
  """
  query = {"origins": origins, **arrays}

  def by_cluster(values: tf.Tensor, clusters: tf.Tensor) -> tf.Tensor:
    return tf.math.unsorted_segment_sum(values, clusters, len(origins))

  def local_counts(query: Any, client: Any) -> dict[str, tf.Tensor]:
    points = files.source.read(client)
    clusters = tf.cast(assign(query, points), tf.int32)
    return collections.OrderedDict(counts=by_cluster(tf.ones_like(points[:, 0]), clusters))

  def local_sums(query: Any, client: Any) -> dict[str, tf.Tensor]:
    points = files.source.read(client)
    clusters = tf.cast(assign(query, points), tf.int32)
    residuals = points - tf.gather(query["origins"], clusters)
    if min_count > 1:
      residuals *= tf.gather(query["is_told"], clusters)[:, tf.newaxis]
    return collections.OrderedDict(
        counts=by_cluster(tf.ones_like(points[:, 0]), clusters),
        sums=by_cluster(residuals, clusters),
        squares=by_cluster(residuals * residuals, clusters),
    )

  if min_count > 1:
    counts = _asked(files, query, local_counts)["counts"]
    query["is_told"] = np.where(counts < min_count, 0.0, 1.0)
  return _asked(files, query, local_sums)


def _asked(
    files: point_files.PointFiles, query: dict[str, np.ndarray],
    local_sums: Callable[[Any, Any], dict[str, tf.Tensor]],
) -> dict[str, np.ndarray]:
  """Returns the sums of what the clients answer to a query."""
  query_type = tff.StructWithPythonType(
      [(name, tff.TensorType(np.float64, array.shape)) for name, array in query.items()],
      collections.OrderedDict,
  )
  found = point_files.build_sum_round(files.source, query_type, local_sums)(query, files.clients())
  return {name: np.asarray(values) for name, values in found.items()}
