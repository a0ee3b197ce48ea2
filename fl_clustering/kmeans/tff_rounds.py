"""The rounds of federated k-means with clients that read files, run by TFF."""

import functools

import numpy as np
import tensorflow_federated as tff

from fl_clustering.kmeans import client_means
from fl_clustering.kmeans import minibatch
from fl_clustering.kmeans import point_source
from fl_clustering.kmeans import rounds
from fl_clustering.kmeans import scaling as scaling_lib

# Computations are kept: fits of data of the same shape share them.
_scaled_files = functools.lru_cache(maxsize=None)(point_source.scaled_files)
_gather_round = functools.lru_cache(maxsize=None)(rounds.build_gather_round)
_score_round = functools.lru_cache(maxsize=None)(rounds.build_score_round)
_moments_round = functools.lru_cache(maxsize=None)(rounds.build_moments_round)


@functools.lru_cache(maxsize=None)
def _lloyd_round(source, num_clusters, num_candidates, sum_factory, local_sums):
  # This machine plays the server too, so that a secure sum can only be simulated: its
  # bounds and its grid are real, its secrecy is not.
  return tff.backends.test.replace_secure_intrinsics_with_bodies(
      rounds.build_lloyd_round(source, num_clusters, num_candidates, sum_factory, local_sums)
  )


class TffRounds:
  """The clients as TFF sees them: paths of files, and the scaling they were told.

  Attributes:
    client_ids: Tuple of the clients' ids.
    num_columns: Number of columns, d.
    scaling: The `Scaling` that the clients were told.
  """

  def __init__(self, paths, num_columns, num_candidates, sum_factory=None):
    """Does not start anything.

    Args:
      paths: The clients' files by client id, as from `point_source.write_files`.
      num_columns: Number of columns.
      num_candidates: The most candidates in a round.
      sum_factory: See `rounds.build_lloyd_round`.
    """
    self.client_ids = tuple(paths)
    self.num_columns = num_columns
    self.scaling = scaling_lib.identity(num_columns)
    self._paths = paths
    self._num_candidates = num_candidates
    self._sum_factory = sum_factory
    self._source = _scaled_files(num_columns)

  def tell_scaling(self, scaling):
    """Tells the clients the coordinates of all further rounds."""
    self.scaling = scaling

  def _client(self, client_id):
    scaling = self.scaling
    return {
        "path": self._paths[client_id], "shift": scaling.shift, "factor": scaling.factor
    }

  def _clients(self):
    return [self._client(client_id) for client_id in self.client_ids]

  def _padded(self, candidates):
    """Returns as many candidates as the computations have room for."""
    missing = self._num_candidates - len(candidates)
    return np.concatenate([candidates, np.repeat(candidates[-1:], missing, axis=0)])

  def moments(self):
    """Returns the sums of `point_sums.moments` over all clients."""
    return _moments_round(self._source)(self._clients())

  def lloyd(self, candidates, local_sums=None):
    """Returns `rounds.build_lloyd_round` of the candidates, a dict of arrays.

    Args:
      candidates: float32 of shape (R, K, d).
      local_sums: See `rounds.build_lloyd_round`.
    """
    lloyd_round = _lloyd_round(
        self._source, candidates.shape[1], self._num_candidates, self._sum_factory, local_sums
    )
    result = lloyd_round(self._padded(candidates), self._clients())
    return {name: value[: len(candidates)] for name, value in result.items()}

  def gather(self, work, min_count, candidates, seeds):
    """Returns the `ClientMeans` of a round.

    Args:
      work: See `local_work.py`.
      min_count: The least number of points whose mean leaves a client.
      candidates: float32 of shape (R, K, d) or (R, 0, d).
      seeds: int32 of shape (2,) by client id.
    """
    jobs = [
        {
            "index": np.int32(index),
            "client": self._client(client_id),
            "seed": seeds[client_id],
        }
        for index, client_id in enumerate(self.client_ids)
    ]
    answers = _gather_round(self._source, work, min_count)(candidates, jobs)
    # Clients answer in any order.
    return client_means.ClientMeans({
        self.client_ids[answer["index"]]: (answer["means"], answer["counts"])
        for answer in sorted(answers, key=lambda answer: answer["index"])
    })

  def scores(self, candidates):
    """Returns the sums of `point_sums.scores` over all clients, of shape (R,) each."""
    score_round = _score_round(self._source, candidates.shape[1], self._num_candidates)
    result = score_round(self._padded(candidates), self._clients())
    return {name: result[name][: len(candidates)] for name in ("inertia", "silhouettes")}

  def minibatch(self, centroids, num_rounds):
    """Returns the centroids after every round of TFF's own k-means, see `minibatch.run`."""
    return minibatch.run(self._source, self._clients(), centroids, num_rounds)
