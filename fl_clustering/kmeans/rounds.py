"""The rounds of federated k-means, run by TFF over the clients' files.

In `lloyd_round` and `score_round` the server sees sums over the clients.  In a gathering round
(`fl_clustering/points/gathering.py`) the server sees every client's own means.

All take R candidates at a time: TFF needs a hundredth of a second for a round, whatever
is in it.  Building and preparing a computation takes longer, so each is built once and
kept.  TFF adds up tensors of known shape only, so R belongs to the computation.
"""

import collections
import dataclasses
import functools
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.kmeans import sums as sums_lib
from fl_clustering.points import gathering
from fl_clustering.points import point_files


def _candidates_type(source, num_clusters, num_candidates):
  return tff.TensorType(np.float32, [num_candidates, num_clusters, source.num_columns])


def build_lloyd_round(source, num_clusters, num_candidates=1):
  """Returns one step of Lloyd's algorithm over the points of all clients.

  It is exact: `min_count` does not apply to it.  A plain sum hides nothing from the server
  that adds it up; the default algorithm's sums are secure (`split_and_swap`).

  Args:
    source: A `PointSource`.
    num_clusters: Number of clusters, K.
    num_candidates: Number of sets of centroids, R.

  Returns:
    The computation `(centroids float32[R,K,d]@SERVER, {points}@CLIENTS) -> (centroids,
    counts, inertia)@SERVER`: the means of the centroids' points, or the old centroid
    where there is none; how many points they have; the inertia at the old centroids.
  """
  centroids_type = _candidates_type(source, num_clusters, num_candidates)

  @tff.tensorflow.computation(centroids_type, source.client_type)
  def client_sums(centroids, client):
    return sums_lib.lloyd_sums(source.read_float32(client), centroids)

  @tff.tensorflow.computation(centroids_type, client_sums.type_signature.result)
  def step(centroids, sums):
    means = sums_lib.moved_centroids(centroids, sums["sums"], sums["counts"])
    rest = [(name, value) for name, value in sums.items() if name != "sums"]
    return collections.OrderedDict([("centroids", means), *rest])

  @tff.federated_computation(
      tff.FederatedType(centroids_type, tff.SERVER),
      tff.FederatedType(source.client_type, tff.CLIENTS),
  )
  def lloyd_round(centroids, clients):
    sums = tff.federated_map(client_sums, (tff.federated_broadcast(centroids), clients))
    return tff.federated_map(step, (centroids, tff.federated_sum(sums)))

  return lloyd_round


def build_score_round(source, num_clusters, num_candidates=1):
  """Returns the round that scores candidates.

  Args:
    source: A `PointSource`.
    num_clusters: Number of clusters, K.
    num_candidates: Number of sets of centroids, R.

  Returns:
    The computation `(candidates float32[R,K,d]@SERVER, {points}@CLIENTS) ->
    sums.scores@SERVER`.
  """
  candidates_type = _candidates_type(source, num_clusters, num_candidates)

  @tff.tensorflow.computation(candidates_type, source.client_type)
  def local_scores(candidates, client):
    return sums_lib.scores(source.read_float32(client), candidates)

  @tff.federated_computation(
      tff.FederatedType(candidates_type, tff.SERVER),
      tff.FederatedType(source.client_type, tff.CLIENTS),
  )
  def score_round(candidates, clients):
    sent = (tff.federated_broadcast(candidates), clients)
    return tff.federated_sum(tff.federated_map(local_scores, sent))

  return score_round


def build_minibatch_process(source, num_clusters):
  """Returns TFF's own federated k-means, mini-batch k-means over the clients' points.

  TFF draws its first centroids from the standard normal distribution.  A centroid is the
  mean of all points that it had in any round, and of its start, which counts as one
  point: so the first rounds are never forgotten, and a centroid without points stays.

  Args:
    source: A `PointSource`.
    num_clusters: Number of clusters, K.

  Returns:
    TFF's `LearningProcess`, and the computation `(state@SERVER, {points}@CLIENTS) ->
    LearningProcessOutput` of a round.
  """
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


# Computations are kept: fits of data of the same shape share them.
_lloyd_round = functools.lru_cache(maxsize=None)(build_lloyd_round)
_score_round = functools.lru_cache(maxsize=None)(build_score_round)
_minibatch_process = functools.lru_cache(maxsize=None)(build_minibatch_process)


@dataclasses.dataclass(frozen=True, eq=False)
class Rounds:
  """The rounds of a fit, as functions of what the server sends.

  Attributes:
    files: The clients as `PointFiles`, in the coordinates of the fit.
    num_candidates: The most candidates in a round.
  """

  files: point_files.PointFiles
  num_candidates: int

  @property
  def client_ids(self):
    return tuple(self.files.paths)

  @property
  def num_columns(self):
    return self.files.num_columns

  def _padded(self, candidates):
    """Returns as many candidates as the computations have room for."""
    missing = self.num_candidates - len(candidates)
    return np.concatenate([candidates, np.repeat(candidates[-1:], missing, axis=0)])

  def lloyd(self, candidates):
    """Takes one step of Lloyd's algorithm over the points of all clients.

    Args:
      candidates: float32 of shape (R, K, d); R is at most `num_candidates`.

    Returns:
      A dict of float32 arrays: `centroids` (R, K, d) and `counts` (R, K) after the step,
      and the `inertia` (R,) of the candidates.
    """
    lloyd_round = _lloyd_round(self.files.source, candidates.shape[1], self.num_candidates)
    result = lloyd_round(self._padded(candidates), self.files.clients())
    return {name: value[: len(candidates)] for name, value in result.items()}

  def gather(self, work, min_count, candidates, seeds):
    """Returns the `ClientMeans` of a round in which the server sees every client's own.

    Args:
      work: What a client computes: a function (points, centroids, seed) -> (means, counts).
      min_count: The least number of points whose mean leaves a client.
      candidates: What the server sends, float32 of shape (R, K, d), or (R, 0, d) where the
        clients start from scratch.
      seeds: int32 of shape (2,) by client id.
    """
    works = ((self.num_columns, work),)
    (means,) = gathering.gather_blocks(self.files, works, min_count, candidates, seeds)
    return means

  def scores(self, candidates):
    """Returns how well candidates fit the points of all clients.

    Args:
      candidates: float32 of shape (R, K, d); R is at most `num_candidates`.

    Returns:
      A dict of float32 arrays of shape (R,): `inertia`, and `silhouettes`, the sum of the
      points' simplified silhouettes.
    """
    score_round = _score_round(self.files.source, candidates.shape[1], self.num_candidates)
    result = score_round(self._padded(candidates), self.files.clients())
    return {name: result[name][: len(candidates)] for name in ("inertia", "silhouettes")}

  def minibatch(self, centroids, num_rounds):
    """Runs TFF's own k-means.

    Args:
      centroids: The first centroids, float32 of shape (K, d).
      num_rounds: Number of rounds.

    Returns:
      A list of the centroids after every round, float32 of shape (K, d) each.
    """
    process, next_round = _minibatch_process(self.files.source, len(centroids))
    state = process.set_model_weights(process.initialize(), centroids)
    after_rounds = []
    for _ in range(num_rounds):
      state = next_round(state, self.files.clients()).state
      after_rounds.append(np.asarray(process.get_model_weights(state)))
    return after_rounds
