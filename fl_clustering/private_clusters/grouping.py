"""Where clients begin: K centers of their sketches, by private k-means.

A client's sketch stays with it, in a file of its own.  The server asks for one noisy sum of all
sketches, for their mean, and then for the sums of private k-means over the centered sketches, of
which every client has one.
"""

from __future__ import annotations

import collections
import functools
from typing import Any, Mapping, TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from clustering_basics import randomness
from dp_clustering import point_grid
from fl_clustering.engine import sketch
from fl_clustering.engine.tff import client_sketches
from fl_clustering.kmeans import private_fit
from fl_clustering.points import secure_sums
from fl_clustering.private_clusters import client_messages
from fl_clustering.private_clusters import point_files
from fl_clustering.private_clusters import slot_sums

if TYPE_CHECKING:
  from dp_clustering import sum_query
  from fl_clustering.private_clusters import plan as plan_lib
  from fl_clustering.private_clusters import releases as releases_lib
  from fl_clustering.tasks import model as model_lib

_DIM = sketch.SIZE
_MEAN_TYPE = tff.TensorType(np.float64, [_DIM])


@functools.lru_cache(maxsize=8)  # As in `fitting.py`.
def build_sum_of_sketches(model: model_lib.Model, client_type: Any) -> Any:
  """Returns the question for the sum of all sketches."""

  def message(unused_public: Any, client: Any) -> tf.Tensor:
    examples = client_messages.read(model, client["train"])
    return client_messages.or_zeros(
        lambda: client_sketches.sketch(model, examples), _DIM, examples
    )

  return slot_sums.build_question(tff.TensorType(np.int32), client_type, tf.function(message))


@functools.lru_cache(maxsize=8)
def _build_writing(model: model_lib.Model, client_type: Any) -> Any:
  """Returns the computation in which clients write centered sketches to files of their own."""

  @tff.tensorflow.computation(_MEAN_TYPE, client_type)
  def write(mean: Any, client: Any) -> tf.Tensor:
    examples = client_messages.read(model, client["train"])
    own = tf.cond(
        tf.size(examples[1]) > 0,
        lambda: client_messages.centered_sketch(client_sketches.sketch(model, examples), mean),
        lambda: tf.zeros([_DIM], tf.float64),
    )
    # The message ends with the numbers themselves, as `point_files` reads them.
    content = tf.io.serialize_tensor(own)
    num_bytes = own.dtype.size * _DIM
    raw = tf.strings.substr(content, tf.strings.length(content) - num_bytes, num_bytes)
    with tf.control_dependencies([tf.io.write_file(client["sketch"], raw)]):
      return tf.constant(0)

  @tff.federated_computation(
      tff.FederatedType(_MEAN_TYPE, tff.SERVER), tff.FederatedType(client_type, tff.CLIENTS)
  )
  def write_all(mean: Any, clients: Any) -> Any:
    return tff.federated_sum(tff.federated_map(write, (tff.federated_broadcast(mean), clients)))

  return write_all


class _SketchSums(private_fit.FederatedSums):
  """The sums of sketches that k-means asks for; a lost answer counts as zeros."""

  def __init__(self, releases: releases_lib.Releases, *args: Any) -> None:
    super().__init__(*args)
    self._releases = releases

  def _noisy_totals(
      self, mu: float, query: sum_query.SumQuery, stds: Mapping[str, float]
  ) -> np.ndarray:
    found = self._releases.answer(
        functools.partial(super()._noisy_totals, mu, query, stds)
    )
    return np.zeros(query.shape, np.int64) if found is None else found


class Grouping:
  """Groups clients by their sketches."""

  def __init__(
      self, settings: plan_lib.PrivateClusters, model: model_lib.Model, client_type: Any,
      clients: Mapping[str, collections.OrderedDict[str, bytes]],
  ) -> None:
    """Builds the computations.

    Args:
      client_type: The type of a client's value, whose `train` and `sketch` are paths.
      clients: The clients' values by id.
    """
    self._settings = settings
    self._sum_of_sketches = build_sum_of_sketches(model, client_type)
    self._write_sketches = _build_writing(model, client_type)
    self._clients = clients

  def centers(
      self, door: slot_sums.Door, releases: releases_lib.Releases, seed: int
  ) -> np.ndarray:
    """Returns the released centers of the centered sketches, of shape (K, d)."""
    settings, budget = self._settings, self._settings.budget
    total = door.ask(
        "mean of sketches", self._sum_of_sketches, np.int32(0), _DIM, 1.0, budget.mean_sketch
    )
    mean = np.zeros(_DIM) if total is None else total / len(self._clients)
    self._write_sketches(mean, list(self._clients.values()))
    files = point_files.PointFiles(
        {client_id: client["sketch"] for client_id, client in self._clients.items()},
        secure_sums.Scaling(np.zeros(_DIM), np.full(_DIM, float(point_grid.POINT_STEPS))),
    )
    sums = _SketchSums(
        releases, files, settings.num_clusters, settings, releases, releases.ledger
    )
    rng = randomness.generator(seed, "private clusters, k-means")
    return sums.private_centers(settings.num_clusters, budget.kmeans, rng).centers
