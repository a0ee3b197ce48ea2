"""The rounds of federated k-means, run by TFF over the clients' files.

In `lloyd_round` and `score_round` the server sees sums over the clients.  In a gathering round
(`fl_clustering/points/gathering.py`) the server sees every client's own means.

All take R candidates at a time: TFF needs a hundredth of a second for a round, whatever
is in it.  Building and preparing a computation takes longer, so each is built once and
kept.  TFF adds up tensors of known shape only, so R belongs to the computation.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from typing import Any, Mapping

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.kmeans import sums as sums_lib
from fl_clustering.points import gathering
from fl_clustering.points import point_files


def _candidates_type(
    source: point_files.PointSource, num_clusters: int, num_candidates: int
) -> tff.Type:
  return tff.TensorType(np.float32, [num_candidates, num_clusters, source.num_columns])


def build_lloyd_round(
    source: point_files.PointSource, num_clusters: int, num_candidates: int = 1
) -> Any:
  """Returns one step of Lloyd's algorithm over the points of all clients.

  It is exact: `min_count` does not apply to it.  A plain sum hides nothing from the server
  that adds it up; the default algorithm's sums are secure (`split_and_swap`).

  Returns:
    The computation `(centroids float32[R,K,d]@SERVER, {points}@CLIENTS) -> (centroids,
    counts, inertia)@SERVER`: the means of the centroids' points, or the old centroid
    where there is none; how many points they have; the inertia at the old centroids.
  """
  centroids_type = _candidates_type(source, num_clusters, num_candidates)
  sum_round = point_files.build_sum_round(
      source, centroids_type,
      lambda centroids, client: sums_lib.lloyd_sums(source.read_float32(client), centroids),
  )

  @tff.tensorflow.computation(centroids_type, sum_round.type_signature.result.member)
  def step(centroids: tf.Tensor, sums: Any) -> dict[str, tf.Tensor]:
    means = sums_lib.moved_centroids(centroids, sums["sums"], sums["counts"])
    rest = [(name, value) for name, value in sums.items() if name != "sums"]
    return collections.OrderedDict([("centroids", means), *rest])

  @tff.federated_computation(
      tff.FederatedType(centroids_type, tff.SERVER),
      tff.FederatedType(source.client_type, tff.CLIENTS),
  )
  def lloyd_round(centroids: tff.Value, clients: tff.Value) -> tff.Value:
    return tff.federated_map(step, (centroids, sum_round(centroids, clients)))

  return lloyd_round


def build_score_round(
    source: point_files.PointSource, num_clusters: int, num_candidates: int = 1
) -> Any:
  """Returns `(candidates float32[R,K,d]@SERVER, {points}@CLIENTS) -> sums.scores@SERVER`."""
  return point_files.build_sum_round(
      source, _candidates_type(source, num_clusters, num_candidates),
      lambda candidates, client: sums_lib.scores(source.read_float32(client), candidates),
  )


def build_minibatch_process(
    source: point_files.PointSource, num_clusters: int
) -> tuple[Any, Any]:
  """Returns TFF's own federated k-means, mini-batch k-means over the clients' points.

  TFF draws its first centroids from the standard normal distribution.  A centroid is the
  mean of all points that it had in any round, and of its start, which counts as one
  point: so the first rounds are never forgotten, and a centroid without points stays.

  Returns:
    TFF's `LearningProcess`, and the computation `(state@SERVER, {points}@CLIENTS) ->
    LearningProcessOutput` of a round.
  """
  process = tff.learning.algorithms.build_fed_kmeans(
      num_clusters, (source.num_columns,), random_seed=(0, 0)
  )

  @tff.tensorflow.computation(source.client_type)
  def client_points(client: Any) -> tf.data.Dataset:
    points = tf.cast(source.read(client), tf.float32)
    return tf.data.Dataset.from_tensor_slices(points)

  @tff.federated_computation(
      tff.FederatedType(process.next.type_signature.parameter[0].member, tff.SERVER),
      tff.FederatedType(source.client_type, tff.CLIENTS),
  )
  def next_round(state: tff.Value, clients: tff.Value) -> tff.Value:
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
    files: The clients, in the coordinates of the fit.
    num_candidates: The most candidates in a round.
  """

  files: point_files.PointFiles
  num_candidates: int

  @property
  def client_ids(self) -> tuple[str, ...]:
    return tuple(self.files.by_id)

  @property
  def num_columns(self) -> int:
    return self.files.num_columns

  def _padded(self, candidates: np.ndarray) -> np.ndarray:
    """Returns as many candidates as the computations have room for."""
    missing = self.num_candidates - len(candidates)
    return np.concatenate([candidates, np.repeat(candidates[-1:], missing, axis=0)])

  def lloyd(self, candidates: np.ndarray) -> dict[str, np.ndarray]:
    """Takes a step of Lloyd's algorithm from at most `num_candidates` candidates (R, K, d).

    Returns:
      `centroids` (R, K, d) and `counts` (R, K) after the step, and the `inertia` (R,) of the
      candidates.
    """
    lloyd_round = _lloyd_round(self.files.source, candidates.shape[1], self.num_candidates)
    result = lloyd_round(self._padded(candidates), self.files.clients())
    return {name: value[: len(candidates)] for name, value in result.items()}

  def gather(
      self, work: gathering.Work, min_count: int, candidates: np.ndarray,
      seeds: Mapping[str, np.ndarray],
  ) -> gathering.ClientMeans:
    """Does `gathering.gather`: the server sees every client's own means."""
    return gathering.gather(self.files, work, min_count, candidates, seeds)

  def scores(self, candidates: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the `sums.scores` over all clients of at most `num_candidates` candidates."""
    score_round = _score_round(self.files.source, candidates.shape[1], self.num_candidates)
    result = score_round(self._padded(candidates), self.files.clients())
    return {name: result[name][: len(candidates)] for name in ("inertia", "silhouettes")}

  def minibatch(self, centroids: np.ndarray, num_rounds: int) -> list[np.ndarray]:
    """Runs TFF's own k-means from centroids (K, d); returns those after every round."""
    process, next_round = _minibatch_process(self.files.source, len(centroids))
    state = process.set_model_weights(process.initialize(), centroids)
    after_rounds = []
    for _ in range(num_rounds):
      state = next_round(state, self.files.clients()).state
      after_rounds.append(np.asarray(process.get_model_weights(state)))
    return after_rounds
