"""Federated k-means in this process: what clients compute, added up without TFF."""

import contextlib
from unittest import mock

import numpy as np
import tensorflow as tf

from fl_clustering import runtime
from fl_clustering.kmeans import rounds as rounds_lib
from fl_clustering.kmeans import tensor_kmeans
from fl_clustering.points import federated_clusterer
from fl_clustering.points import grid_scaling
from fl_clustering.points import point_files
from fl_clustering.points import secure_sums


_POINTS = tf.TensorSpec([None, None], tf.float32)
_SETS = tf.TensorSpec([None, None, None], tf.float32)
# One graph for clients of any size: without, they take ten times as long.
_lloyd_sums = tf.function(tensor_kmeans.lloyd_sums, input_signature=[_POINTS, _SETS])
_scores = tf.function(tensor_kmeans.scores, input_signature=[_POINTS, _SETS])
_released_means = tf.function(rounds_lib.released_means, input_signature=[
    _POINTS, _SETS, tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([], tf.int32),
])


class _Clients(secure_sums.PointArrays):

  def column_moments(self):
    points = np.concatenate(list(self.by_id.values()))
    shift = points.mean(axis=0)
    sums = {name: sums.numpy() for name, sums in point_files.moment_sums(points - shift).items()}
    return len(points), *grid_scaling.mean_and_variance(shift, sums)


class Rounds:
  """Stands in for `rounds.Rounds`."""

  def __init__(self, files, num_candidates):
    del num_candidates
    self.files = files
    self._points = {
        client_id: tf.constant(files.scaling.apply(points), tf.float32)
        for client_id, points in files.by_id.items()
    }

  def _total(self, client_values, candidates):
    parts = [client_values(points, tf.constant(candidates)) for points in self._points.values()]
    return {name: np.sum([part[name] for part in parts], axis=0) for name in parts[0]}

  def lloyd(self, candidates):
    found = self._total(_lloyd_sums, candidates)
    moved = tensor_kmeans.moved_centroids(candidates, found.pop("sums"), found["counts"])
    return {"centroids": moved.numpy(), **found}

  def gather(self, work, min_count, candidates, seeds):
    by_client = {}
    for client_id, points in self._points.items():
      means, counts = work(points, candidates, seeds[client_id])
      released = _released_means(points, means, counts, min_count)
      by_client[client_id] = tuple(part.numpy() for part in released)
    return rounds_lib.ClientMeans(by_client)

  def scores(self, candidates):
    return self._total(_scores, candidates)

  def minibatch(self, centroids, num_rounds):
    """By the definition: means of all points of any round, and of the start as one point."""
    weights, after_rounds = np.ones((len(centroids), 1)), []
    for _ in range(num_rounds):
      found = self._total(_lloyd_sums, centroids[np.newaxis])
      sums = centroids * weights + found["sums"][0]
      weights = weights + found["counts"][0][:, np.newaxis]
      centroids = (sums / weights).astype(np.float32)
      after_rounds.append(centroids)
    return after_rounds


@contextlib.contextmanager
def without_tff():
  """Has fits of all algorithms compute here, whatever context the caller has."""

  def hold(clients):
    width = next(iter(clients.values())).shape[1]
    return _Clients(clients, secure_sums.identity(width))

  with (
      mock.patch.object(runtime, "has_context_of_the_caller", lambda: False),
      mock.patch.object(federated_clusterer, "open_clients",
                        lambda needs_tff: contextlib.nullcontext(hold)),
      mock.patch.object(rounds_lib, "Rounds", Rounds),
  ):
    yield
