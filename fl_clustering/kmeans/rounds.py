"""The rounds of federated k-means, run by TFF over the clients' files.

In `lloyd_round` and `score_round` the server sees sums over the clients.  In a gathering round it
sees every client's own means.  A sum over the clients can hide every client's part, but a client's
own means tell about its points.  So whatever the client computed, its message leaves out

  - every mean of fewer than `min_count` points, and
  - every mean that equals one of the client's rows, as the mean of identical rows does.

Such a mean is sent as zero with a count of zero, which has no weight on the server.  A
mean of two points is still weak protection: whoever knows one of the points can compute
the other, and means that change from round to round tell about the rows in between.

All rounds take R candidates at a time: TFF needs a hundredth of a second for a round, whatever
is in it.  Building and preparing a computation takes longer, so each is built once and
kept: fits of data of the same shape share them.  TFF adds up tensors of known shape only, so R
belongs to the computation.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from typing import Any, Callable, Mapping

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.kmeans import tensor_kmeans
from fl_clustering.points import point_files


# What a client computes: a function (points float32[n,d], centroids float32[R,K,d],
# seed int32[2]) -> (means float32[R,K',d], counts float32[R,K']).  A mean with a count of zero
# is absent.
Work = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]

_EPSILON = np.finfo(np.float32).eps
# float32 numbers of order one that are this close differ by rounding only ...
_SAME = 4e-7
# ... and sums of them at least this close.
_SAME_AFTER_SUM = 1e-5


def _candidates_type(
    source: point_files.PointSource, num_clusters: int, num_candidates: int
) -> tff.Type:
  return tff.TensorType(np.float32, [num_candidates, num_clusters, source.num_columns])


@functools.lru_cache(maxsize=None)
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
      lambda centroids, client: tensor_kmeans.lloyd_sums(source.read_float32(client), centroids),
  )

  @tff.tensorflow.computation(centroids_type, sum_round.type_signature.result.member)
  def step(centroids: tf.Tensor, sums: Any) -> dict[str, tf.Tensor]:
    means = tensor_kmeans.moved_centroids(centroids, sums["sums"], sums["counts"])
    rest = [(name, value) for name, value in sums.items() if name != "sums"]
    return collections.OrderedDict([("centroids", means), *rest])

  @tff.federated_computation(
      tff.FederatedType(centroids_type, tff.SERVER),
      tff.FederatedType(source.client_type, tff.CLIENTS),
  )
  def lloyd_round(centroids: tff.Value, clients: tff.Value) -> tff.Value:
    return tff.federated_map(step, (centroids, sum_round(centroids, clients)))

  return lloyd_round


@functools.lru_cache(maxsize=None)
def build_score_round(
    source: point_files.PointSource, num_clusters: int, num_candidates: int = 1
) -> Any:
  """Returns `(candidates float32[R,K,d]@SERVER, {points}@CLIENTS) -> tensor_kmeans.scores@SERVER`."""
  return point_files.build_sum_round(
      source, _candidates_type(source, num_clusters, num_candidates),
      lambda candidates, client: tensor_kmeans.scores(source.read_float32(client), candidates),
  )


@functools.lru_cache(maxsize=None)
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


def _rounding_of_sums(counts: tf.Tensor) -> tf.Tensor:
  """Returns the relative error of the computed mean of so many equal rows, at most."""
  # Half a bit for each float32 addition: those of equal numbers err on the same side.
  additions = tf.minimum(counts, float(tensor_kmeans.BLOCK_ROWS))
  return tf.maximum(_SAME_AFTER_SUM, 0.5 * _EPSILON * additions)


def _may_be_near(points: tf.Tensor, means: tf.Tensor, tolerance: tf.Tensor) -> tf.Tensor:
  """Returns which pairs are near enough to be equal, bool of shape (n, M); few are."""
  num_columns = tf.cast(tf.shape(points)[1], tf.float32)
  distances = tensor_kmeans.squared_distances(points, means[tf.newaxis])[:, 0]
  norms = tf.norm(points, axis=1)[:, tf.newaxis]
  apart = tolerance**2 * (norms**2 + num_columns)
  # Twice what rounding can do to a product of matrices with so many columns.
  rounding = 2 * num_columns * _EPSILON * (norms + tf.norm(means, axis=1)) ** 2
  return distances <= apart + rounding


def _num_rows_near(
    points: tf.Tensor, means: tf.Tensor, asked: tf.Tensor, tolerance: tf.Tensor
) -> tf.Tensor:
  """Returns for the means (M, d) that are asked for (M,) how many of n points equal them."""
  num_columns = tf.shape(points)[1]

  def body(column: tf.Tensor, same: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    values, own = points[:, column, tf.newaxis], means[tf.newaxis, :, column]
    equal = tf.abs(values - own) <= tolerance * tf.maximum(tf.abs(values), 1.0)
    return column + 1, tf.logical_and(same, equal)

  # Column by column, which is over at once for data without repetitions.
  _, same = tf.while_loop(
      lambda column, same: tf.logical_and(column < num_columns, tf.reduce_any(same)),
      body,
      (tf.constant(0), tf.logical_and(asked, _may_be_near(points, means, tolerance))),
  )
  return tf.reduce_sum(tf.cast(same, tf.float32), axis=0)


def released_means(
    points: tf.Tensor, means: tf.Tensor, counts: tf.Tensor, min_count: int
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns the means and counts, with zeros for a mean that must not leave the client.

  Args:
    points: The client's, float32 of shape (n, d).
    means: float32 of shape (R, K, d).
    counts: The numbers of points whose means they are, float32 of shape (R, K).
  """
  flat, flat_counts = tf.reshape(means, [-1, tf.shape(means)[2]]), tf.reshape(counts, [-1])
  enough = flat_counts >= tf.cast(min_count, tf.float32)
  is_row = tf.logical_or(
      _num_rows_near(points, flat, enough, _SAME) > 0,
      # All of its points are the same row.
      _num_rows_near(points, flat, enough, _rounding_of_sums(flat_counts)) >= flat_counts,
  )
  leaves = tf.reshape(tf.logical_and(enough, tf.logical_not(is_row)), tf.shape(counts))
  return tf.where(leaves[..., tf.newaxis], means, 0.0), tf.where(leaves, counts, 0.0)


@dataclasses.dataclass(frozen=True, eq=False)
class ClientMeans:
  """The clients' means.  The server sees each client's own, so they are not private.

  Attributes:
    by_client: A mapping from client id to means (R, K, d) and counts (R, K), float32, for
      R candidates.  A mean with a count of zero is absent.
  """

  by_client: dict[str, tuple[np.ndarray, np.ndarray]]

  def present(self, candidate: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the means (M, d) and counts (M,) of one candidate, of all clients."""
    is_there = [counts[candidate] > 0 for _, counts in self.by_client.values()]
    means, counts = (
        np.concatenate([part[candidate][rows] for part, rows in zip(parts, is_there)])
        for parts in zip(*self.by_client.values())
    )
    return means, counts

  def first_present(self, candidate: int) -> np.ndarray:
    """Returns the means of the first client that has any, of shape (m, d)."""
    for means, counts in self.by_client.values():
      if np.any(counts[candidate] > 0):
        return means[candidate][counts[candidate] > 0]
    return means[candidate][:0]


@functools.lru_cache(maxsize=None)
def build_gather_round(source: point_files.PointSource, work: Work, min_count: int) -> Any:
  """Returns the round in which every client sends means and counts of its own.

  It is `(candidates float32[R,K,d]@SERVER, {job}@CLIENTS) -> {(index, means, counts)}@CLIENTS`.
  A job is the client's index, value and seed.
  """
  candidates_type = tff.TensorType(np.float32, [None, None, source.num_columns])
  job_type = tff.StructWithPythonType(
      [
          ("index", np.int32),
          ("client", source.client_type),
          ("seed", tff.TensorType(np.int32, [2])),
      ],
      collections.OrderedDict,
  )

  @tff.tensorflow.computation(candidates_type, job_type)
  def local_means(candidates: tf.Tensor, job: Any) -> dict[str, Any]:
    points = source.read_float32(job["client"])
    means, counts = work(points, candidates, job["seed"])
    means, counts = released_means(points, means, counts, min_count)
    return collections.OrderedDict(index=job["index"], means=means, counts=counts)

  @tff.federated_computation(
      tff.FederatedType(candidates_type, tff.SERVER), tff.FederatedType(job_type, tff.CLIENTS)
  )
  def gather_round(candidates: tff.Value, jobs: tff.Value) -> tff.Value:
    return tff.federated_map(local_means, (tff.federated_broadcast(candidates), jobs))

  return gather_round


@dataclasses.dataclass(frozen=True, eq=False)
class Rounds:
  """The rounds of a fit, as functions of what the server sends.

  Attributes:
    files: The clients, in the coordinates of the fit.
    num_candidates: The most candidates in a round.
  """

  files: point_files.PointFiles
  num_candidates: int

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
    lloyd_round = build_lloyd_round(self.files.source, candidates.shape[1], self.num_candidates)
    result = lloyd_round(self._padded(candidates), self.files.clients())
    return {name: value[: len(candidates)] for name, value in result.items()}

  def gather(
      self, work: Work, min_count: int, candidates: np.ndarray,
      seeds: Mapping[str, np.ndarray],
  ) -> ClientMeans:
    """Returns every client's own means.

    Args:
      candidates: What the server sends, float32 of shape (R, K, d), or (R, 0, d) where the
        clients start from scratch.
      seeds: int32 of shape (2,) by client id.
    """
    client_ids = list(self.files.by_id)
    jobs = [
        {"index": np.int32(index), "client": self.files.client(client_id), "seed": seeds[client_id]}
        for index, client_id in enumerate(client_ids)
    ]
    answers = build_gather_round(self.files.source, work, min_count)(candidates, jobs)
    # Clients answer in any order.
    answers = sorted(answers, key=lambda answer: answer["index"])
    return ClientMeans({
        client_ids[answer["index"]]: (answer["means"], answer["counts"]) for answer in answers
    })

  def scores(self, candidates: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the `tensor_kmeans.scores` over all clients of at most `num_candidates` candidates."""
    score_round = build_score_round(self.files.source, candidates.shape[1], self.num_candidates)
    result = score_round(self._padded(candidates), self.files.clients())
    names = ("inertia", "silhouettes", "counts")
    return {name: result[name][: len(candidates)] for name in names}

  def minibatch(self, centroids: np.ndarray, num_rounds: int) -> list[np.ndarray]:
    """Runs TFF's own k-means from centroids (K, d); returns those after every round."""
    process, next_round = build_minibatch_process(self.files.source, len(centroids))
    state = process.set_model_weights(process.initialize(), centroids)
    after_rounds = []
    for _ in range(num_rounds):
      state = next_round(state, self.files.clients()).state
      after_rounds.append(np.asarray(process.get_model_weights(state)))
    return after_rounds
