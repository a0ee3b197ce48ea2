"""The rounds of federated k-means as TFF computations.

`lloyd_round` and `score_round` are sums over the clients, so that secure or noisy
aggregation applies to them; the server sees the aggregate alone.  In `gather_round` the
server sees every client's means, and `released_means.py` says which of them.

All take R candidates at a time: TFF needs a hundredth of a second for a round, whatever
is in it.  Building and preparing a computation takes longer, so each is built once; TFF
adds up tensors of known shape only, so that R belongs to the computation.
"""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.kmeans import point_sums
from fl_clustering.kmeans import released_means
from fl_clustering.kmeans import scaling


def _float_type(*shape):
  return tff.TensorType(np.float32, list(shape))


def _points(source, client):
  points = source.read(client)
  # A private fit, which scales by nothing that it has from the data, may meet any number.
  return tf.cast(tf.clip_by_value(points, -scaling.FARTHEST, scaling.FARTHEST), tf.float32)


def build_lloyd_round(
    source, num_clusters, num_candidates=1, sum_factory=None, local_sums=None
):
  """Returns one step of Lloyd's algorithm over the points of all clients.

  It is exact: `min_count` does not apply to it, for no client's message is looked at.
  That is worth something only if the aggregation is secure or private, which
  `sum_factory` decides; a plain sum on an honest server hides nothing from that server.

  Args:
    source: A `PointSource`.
    num_clusters: Number of clusters, K.
    num_candidates: Number of sets of centroids, R.
    sum_factory: A `tff.aggregators.UnweightedAggregationFactory` that sums float32, such
      as `tff.aggregators.SecureSumFactory`; a plain sum by default.
    local_sums: What a client sums up; `point_sums.lloyd_sums` by default.

  Returns:
    The computation `(centroids float32[R,K,d]@SERVER, {points}@CLIENTS) -> (centroids,
    counts, inertia)@SERVER`: the means of the centroids' points, or the old centroid
    where there is none; how many points they have; the inertia at the old centroids.
  """
  centroids_type = _float_type(num_candidates, num_clusters, source.num_columns)

  @tff.tensorflow.computation(centroids_type, source.client_type)
  def client_sums(centroids, client):
    return (local_sums or point_sums.lloyd_sums)(_points(source, client), centroids)

  factory = sum_factory or tff.aggregators.SumFactory()
  aggregator = factory.create(client_sums.type_signature.result)

  @tff.tensorflow.computation(centroids_type, aggregator.next.type_signature.result.result.member)
  def step(centroids, sums):
    means = point_sums.moved_centroids(centroids, sums["sums"], sums["counts"])
    rest = [(name, value) for name, value in sums.items() if name != "sums"]
    return collections.OrderedDict([("centroids", means), *rest])

  @tff.federated_computation(
      tff.FederatedType(centroids_type, tff.SERVER),
      tff.FederatedType(source.client_type, tff.CLIENTS),
  )
  def lloyd_round(centroids, clients):
    sums = tff.federated_map(client_sums, (tff.federated_broadcast(centroids), clients))
    total = aggregator.next(aggregator.initialize(), sums).result
    return tff.federated_map(step, (centroids, total))

  return lloyd_round


def build_gather_round(source, work, min_count):
  """Returns the round in which every client sends means and counts of its own.

  Args:
    source: A `PointSource`.
    work: What clients compute, see `local_work.py`.
    min_count: The least number of points whose mean leaves a client.

  Returns:
    The computation `(candidates float32[R,K,d]@SERVER, {job}@CLIENTS) -> {(index, means,
    counts)}@CLIENTS`, where a job is the client's index, value and seed.
  """
  candidates_type = _float_type(None, None, source.num_columns)
  job_type = tff.StructWithPythonType(
      [
          ("index", np.int32),
          ("client", source.client_type),
          ("seed", tff.TensorType(np.int32, [2])),
      ],
      collections.OrderedDict,
  )

  @tff.tensorflow.computation(candidates_type, job_type)
  def local_means(candidates, job):
    points = _points(source, job["client"])
    means, counts = work(points, candidates, job["seed"])
    means, counts = released_means.released_means(points, means, counts, min_count)
    return collections.OrderedDict(index=job["index"], means=means, counts=counts)

  @tff.federated_computation(
      tff.FederatedType(candidates_type, tff.SERVER), tff.FederatedType(job_type, tff.CLIENTS)
  )
  def gather_round(candidates, jobs):
    return tff.federated_map(local_means, (tff.federated_broadcast(candidates), jobs))

  return gather_round


def build_score_round(source, num_clusters, num_candidates=1):
  """Returns the round that scores candidates.

  Args:
    source: A `PointSource`.
    num_clusters: Number of clusters, K.
    num_candidates: Number of sets of centroids, R.

  Returns:
    The computation `(candidates float32[R,K,d]@SERVER, {points}@CLIENTS) ->
    point_sums.scores@SERVER`.
  """
  candidates_type = _float_type(num_candidates, num_clusters, source.num_columns)

  @tff.tensorflow.computation(candidates_type, source.client_type)
  def local_scores(candidates, client):
    return point_sums.scores(_points(source, client), candidates)

  @tff.federated_computation(
      tff.FederatedType(candidates_type, tff.SERVER),
      tff.FederatedType(source.client_type, tff.CLIENTS),
  )
  def score_round(candidates, clients):
    sent = (tff.federated_broadcast(candidates), clients)
    return tff.federated_sum(tff.federated_map(local_scores, sent))

  return score_round


def build_moments_round(source):
  """Returns the round `{points}@CLIENTS -> point_sums.moments@SERVER`."""

  @tff.tensorflow.computation(source.client_type)
  def local_moments(client):
    return point_sums.moments(source.read(client))

  @tff.federated_computation(tff.FederatedType(source.client_type, tff.CLIENTS))
  def moments_round(clients):
    return tff.federated_sum(tff.federated_map(local_moments, clients))

  return moments_round
