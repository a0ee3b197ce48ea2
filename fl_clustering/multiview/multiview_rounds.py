"""The rounds of federated multi-view k-means as TFF computations.

Every round is a sum over the clients, and the server sees the sum alone.  That is what
secure aggregation can compute without showing the server any client's part; nothing
here does that by itself.

Building and preparing a computation takes longer than a round, so each is built once.
"""

import collections
import functools

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.multiview import kernel_sums

_PATHS = tff.FederatedType(np.str_, tff.CLIENTS)


def vector_type(*shape):
  return tff.TensorType(np.float64, list(shape))


def read_points(path, num_columns):
  """Returns a client's points, float64 of shape (n, num_columns)."""
  contents = tf.io.decode_raw(tf.io.read_file(path), tf.float64)
  return tf.reshape(contents, [-1, num_columns])


def scaled_points(path, mean, scale):
  """Returns a client's points in scaled coordinates."""
  return (read_points(path, mean.shape[0]) - mean) * scale


def message_type(widths, num_clusters):
  """Returns the type of `MultiViewModel.message()`."""
  num_views, num_columns = len(widths), sum(widths)
  return tff.StructWithPythonType(
      [
          ("centers", vector_type(num_clusters, num_columns)),
          ("betas", vector_type(num_views)),
          ("view_factors", vector_type(num_views)),
          ("mean", vector_type(num_columns)),
          ("scale", vector_type(num_columns)),
      ],
      collections.OrderedDict,
  )


@functools.lru_cache(maxsize=None)
def build_column_sums(num_columns):
  """Returns the round `{path}@CLIENTS -> (number of points, column sums)@SERVER`."""

  @tff.tensorflow.computation(np.str_)
  def local_sums(path):
    points = read_points(path, num_columns)
    return tf.cast(tf.shape(points)[0], tf.float64), tf.reduce_sum(points, axis=0)

  @tff.federated_computation(_PATHS)
  def column_sums(paths):
    return tff.federated_sum(tff.federated_map(local_sums, paths))

  return column_sums


@functools.lru_cache(maxsize=None)
def build_column_squares(num_columns):
  """Returns the round `(mean@SERVER, {path}@CLIENTS) -> sums of (x - mean)^2@SERVER`.

  A round of its own: from plain sums of squares, the variance of a column whose mean is
  a million standard deviations from zero is lost to rounding.
  """

  @tff.tensorflow.computation(vector_type(num_columns), np.str_)
  def local_squares(mean, path):
    centered = read_points(path, num_columns) - mean
    return tf.reduce_sum(centered * centered, axis=0)

  @tff.federated_computation(
      tff.FederatedType(vector_type(num_columns), tff.SERVER), _PATHS
  )
  def column_squares(mean, paths):
    return tff.federated_sum(
        tff.federated_map(local_squares, (tff.federated_broadcast(mean), paths))
    )

  return column_squares


@functools.lru_cache(maxsize=None)
def build_kernel_round(widths, num_clusters, views_apart=False):
  """Returns the round `(message@SERVER, {path}@CLIENTS) -> sums@SERVER`.

  Args:
    widths: The views' numbers of columns.
    num_clusters: Number of clusters.
    views_apart: Whether every view has clusters of its own; the sums are then those of
      `kernel_sums_apart`, else of `kernel_sums`.
  """
  sent_type = message_type(widths, num_clusters)

  @tff.tensorflow.computation(sent_type, np.str_)
  def local_sums(message, path):
    points = scaled_points(path, message["mean"], message["scale"])
    if views_apart:
      return kernel_sums.kernel_sums_apart(
          points, message["centers"], message["betas"], widths
      )
    return kernel_sums.kernel_sums(
        points, message["centers"], message["betas"], message["view_factors"], widths
    )

  @tff.federated_computation(tff.FederatedType(sent_type, tff.SERVER), _PATHS)
  def kernel_round(message, paths):
    return tff.federated_sum(
        tff.federated_map(local_sums, (tff.federated_broadcast(message), paths))
    )

  return kernel_round
