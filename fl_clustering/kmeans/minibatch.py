"""TFF's own federated k-means: mini-batch k-means over the clients' points.

TFF draws its first centroids from the standard normal distribution.  A centroid is the
mean of all points that it had in any round, and of its start, which counts as one
point: so the first rounds are never forgotten, and a centroid without points stays.
"""

import functools

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff


@functools.lru_cache(maxsize=None)
def _build_process(source, num_clusters):
  process = tff.learning.algorithms.build_fed_kmeans(
      num_clusters, (source.num_columns,), random_seed=(0, 0)
  )

  @tff.tensorflow.computation(source.client_type)
  def client_points(client):
    points = tf.cast(source.read(client), tf.float32)
    return tf.data.Dataset.from_tensor_slices(points)

  @tff.federated_computation(
      tff.FederatedType(process.next.type_signature.parameter[0].member, tff.SERVER),
      tff.FederatedType(source.client_type, tff.CLIENTS),
  )
  def next_round(state, clients):
    return process.next(state, tff.federated_map(client_points, clients))

  return process, next_round


def run(source, clients, centroids, num_rounds):
  """Runs TFF's federated k-means.

  Args:
    source: A `PointSource`.
    clients: The clients' values.
    centroids: The first centroids, float32 of shape (K, d).
    num_rounds: Number of rounds.

  Returns:
    The centroids after every round, a list of float32 (K, d).
  """
  process, next_round = _build_process(source, len(centroids))
  state = process.set_model_weights(process.initialize(), centroids)
  after_rounds = []
  for _ in range(num_rounds):
    state = next_round(state, clients).state
    after_rounds.append(np.asarray(process.get_model_weights(state)))
  return after_rounds
