"""The round in which the server sees every client's own means, one client at a time.

`released_means.py` says which means leave a client, whatever the client computed.
"""

import collections
import dataclasses
import functools

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.points import released_means


@dataclasses.dataclass(frozen=True, eq=False)
class ClientMeans:
  """The clients' means.  The server sees each client's own, so they are not private.

  Attributes:
    by_client: A mapping from client id to means (R, K, d) and counts (R, K), float32, for
      R candidates.  A mean with a count of zero is absent.
  """

  by_client: dict[str, tuple[np.ndarray, np.ndarray]]

  def present(self, candidate):
    """Returns the means (M, d) and counts (M,) of one candidate, of all clients."""
    parts = [
        (means[candidate][counts[candidate] > 0], counts[candidate][counts[candidate] > 0])
        for means, counts in self.by_client.values()
    ]
    return tuple(map(np.concatenate, zip(*parts)))

  def first_present(self, candidate):
    """Returns the means of the first client that has any, of shape (m, d)."""
    for means, counts in self.by_client.values():
      if np.any(counts[candidate] > 0):
        return means[candidate][counts[candidate] > 0]
    return means[candidate][:0]


@functools.lru_cache(maxsize=None)
def build_gather_round(source, works, min_count):
  """Returns the round in which every client sends means and counts of its own.

  Args:
    source: A `PointSource`.
    works: What clients compute: for each block of columns that is clustered by itself,
      its number of columns d and a work.  A work is a function (points float32[n,d],
      centroids float32[R,K,d], seed int32[2]) -> (means float32[R,K',d], counts
      float32[R,K']); a mean with a count of zero is absent.
    min_count: The least number of points whose mean leaves a client.

  Returns:
    The computation `(candidates float32[R,K,d]@SERVER, {job}@CLIENTS) -> {(index, means,
    counts)}@CLIENTS`.  A job is the client's index, value and seed; means and counts are
    tuples with one part per block.
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
  widths = [width for width, _ in works]

  @tff.tensorflow.computation(candidates_type, job_type)
  def local_means(candidates, job):
    blocks = tf.split(source.read_float32(job["client"]), widths, axis=1)
    sent = []
    for (_, work), points, centroids in zip(works, blocks, tf.split(candidates, widths, axis=2)):
      means, counts = work(points, centroids, job["seed"])
      sent.append(released_means.released_means(points, means, counts, min_count))
    means, counts = zip(*sent)
    return collections.OrderedDict(index=job["index"], means=means, counts=counts)

  @tff.federated_computation(
      tff.FederatedType(candidates_type, tff.SERVER), tff.FederatedType(job_type, tff.CLIENTS)
  )
  def gather_round(candidates, jobs):
    return tff.federated_map(local_means, (tff.federated_broadcast(candidates), jobs))

  return gather_round


def gather_blocks(files, works, min_count, candidates, seeds):
  """Returns the `ClientMeans` of every block of columns.

  Args:
    files: `PointFiles`.
    works: For each block of columns its number of columns and what clients compute of it,
      a function (points, centroids, seed) -> (means, counts).
    min_count: The least number of points whose mean leaves a client.
    candidates: What the server sends, float32 of shape (R, K, d), or (R, 0, d) where the
      clients start from scratch.
    seeds: int32 of shape (2,) by client id.
  """
  client_ids = list(files.paths)
  jobs = [
      {"index": np.int32(index), "client": files.client(client_id), "seed": seeds[client_id]}
      for index, client_id in enumerate(client_ids)
  ]
  answers = build_gather_round(files.source, works, min_count)(candidates, jobs)
  # Clients answer in any order.
  answers = sorted(answers, key=lambda answer: answer["index"])
  return [
      ClientMeans({
          client_ids[answer["index"]]: (answer["means"][block], answer["counts"][block])
          for answer in answers
      })
      for block in range(len(works))
  ]
