"""The round in which the server sees every client's own means, one client at a time.

A sum over the clients can hide every client's part, but a client's own means tell about
its points.  So whatever the client computed, its message leaves out

  - every mean of fewer than `min_count` points, and
  - every mean that equals one of the client's rows, as the mean of identical rows does.

Such a mean is sent as zero with a count of zero, which has no weight on the server.  A
mean of two points is still weak protection: whoever knows one of the points can compute
the other, and means that change from round to round tell about the rows in between.
"""

import collections
import dataclasses
import functools
from typing import Any, Callable, Mapping

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.points import distances as distances_lib
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


def _rounding_of_sums(counts: tf.Tensor) -> tf.Tensor:
  """Returns the relative error of the computed mean of so many equal rows, at most."""
  # Half a bit for each float32 addition: those of equal numbers err on the same side.
  additions = tf.minimum(counts, float(distances_lib.BLOCK_ROWS))
  return tf.maximum(_SAME_AFTER_SUM, 0.5 * _EPSILON * additions)


def _may_be_near(points: tf.Tensor, means: tf.Tensor, tolerance: tf.Tensor) -> tf.Tensor:
  """Returns which pairs are near enough to be equal, bool of shape (n, M); few are."""
  num_columns = tf.cast(tf.shape(points)[1], tf.float32)
  distances = distances_lib.squared_distances(points, means[tf.newaxis])[:, 0]
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
  """Returns the means and counts with zeros for those that must not leave the client.

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


def gather(
    files: point_files.PointFiles, work: Work, min_count: int, candidates: np.ndarray,
    seeds: Mapping[str, np.ndarray],
) -> ClientMeans:
  """Returns every client's own means.

  Args:
    candidates: What the server sends, float32 of shape (R, K, d), or (R, 0, d) where the
      clients start from scratch.
    seeds: int32 of shape (2,) by client id.
  """
  client_ids = list(files.by_id)
  jobs = [
      {"index": np.int32(index), "client": files.client(client_id), "seed": seeds[client_id]}
      for index, client_id in enumerate(client_ids)
  ]
  answers = build_gather_round(files.source, work, min_count)(candidates, jobs)
  # Clients answer in any order.
  answers = sorted(answers, key=lambda answer: answer["index"])
  return ClientMeans({
      client_ids[answer["index"]]: (answer["means"], answer["counts"]) for answer in answers
  })
