"""Numbers of rows, means and spreads of clusters, from one round of sums over the clients."""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff


def _build_round(source, query_type, assign):
  """Returns the round `({origins, ...}@SERVER, {points}@CLIENTS) -> sums@SERVER`.

  Args:
    source: A `PointSource`.
    query_type: TFF type of what the server sends.
    assign: As in `sums`.
  """

  @tff.tensorflow.computation(query_type, source.client_type)
  def local_sums(query, client):
    points = source.read(client)
    clusters = tf.cast(assign(query, points), tf.int32)
    residuals = points - tf.gather(query["origins"], clusters)
    by_cluster = lambda values: tf.math.unsorted_segment_sum(
        values, clusters, query["origins"].shape[0]
    )
    return collections.OrderedDict(
        counts=by_cluster(tf.ones_like(points[:, 0])),
        sums=by_cluster(residuals),
        squares=by_cluster(residuals * residuals),
    )

  @tff.federated_computation(
      tff.FederatedType(query_type, tff.SERVER),
      tff.FederatedType(source.client_type, tff.CLIENTS),
  )
  def sum_round(query, clients):
    found = tff.federated_map(local_sums, (tff.federated_broadcast(query), clients))
    return tff.federated_sum(found)

  return sum_round


def sums(files, origins, assign, **arrays):
  """Returns the sums that the moments of clusters follow from.

  They are plain sums, which hide a client only among others that are added up at the same place.

  Args:
    files: The clients as `PointFiles`.
    origins: What is subtracted from the points of every cluster, near their means so that
      nothing cancels; float64 of shape (K, d).
    assign: A TensorFlow function (a dict of `origins` and `arrays`, points (n, d)) -> clusters
      (n,).
    **arrays: What else the clients need to find their points' clusters, float64.

  Returns:
    A dict of float64: the clusters' `counts` (K,), and the `sums` and `squares` of their points'
    distances to the origins by column, (K, d).
  """
  query = {"origins": origins, **arrays}
  query_type = tff.StructWithPythonType(
      [(name, tff.TensorType(np.float64, array.shape)) for name, array in query.items()],
      collections.OrderedDict,
  )
  found = _build_round(files.source, query_type, assign)(query, files.clients())
  return {name: np.asarray(values) for name, values in found.items()}
