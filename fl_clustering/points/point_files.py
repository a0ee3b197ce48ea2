"""The clients of TFF in a fit: each reads its points from a file of its own.

A TFF client's value is the path of its file and the coordinates to compute in, never the
points: nothing but results is sent through TFF's messages (see
`fl_clustering/engine/client_files.py`).

A file holds the rows one after another as float64.  Clients scale them before anything
else (`scaling.py`), which takes float64 where the numbers are far from zero.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import os
from typing import Any, Callable, Iterable, Mapping

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.distribution import site as site_lib
from fl_clustering.distribution import sites as sites_lib
from fl_clustering.points import scaling as scaling_lib
from fl_clustering.points import secure_rounds
from fl_clustering.points import secure_sums


@dataclasses.dataclass(frozen=True)
class PointSource:
  """What the value of a TFF client is, and how the client gets its points from it.

  Attributes:
    client_type: Of the client's value.
    num_columns: The points' number of columns, d.
    read: A TensorFlow function from the client's value to points of shape (n, d),
      float32 or float64.
  """

  client_type: tff.Type
  num_columns: int
  read: Callable[..., tf.Tensor]

  def read_float32(self, client: Any) -> tf.Tensor:
    """Returns the client's points as float32 of shape (n, d)."""
    # With a scaling that was not made from the data, any number may occur.
    farthest = scaling_lib.FARTHEST
    return tf.cast(tf.clip_by_value(self.read(client), -farthest, farthest), tf.float32)


def matrices(num_columns: int) -> PointSource:
  """Returns the source for clients whose value is float32 of shape (n, d)."""
  return PointSource(
      tff.TensorType(np.float32, [None, num_columns]), num_columns, lambda points: points
  )


# Sources and computations are kept: fits of data of the same shape share them.
@functools.lru_cache(maxsize=None)
def scaled_files(num_columns: int) -> PointSource:
  """Returns the source for clients whose value is from `PointFiles.client`."""
  client_type = tff.StructWithPythonType(
      [
          ("path", np.str_),
          ("shift", tff.TensorType(np.float64, [num_columns])),
          ("factor", tff.TensorType(np.float64, [num_columns])),
      ],
      collections.OrderedDict,
  )

  def read(client: Any) -> tf.Tensor:
    points = tf.io.decode_raw(tf.io.read_file(client["path"]), tf.float64)
    points = tf.reshape(points, [-1, num_columns])
    return (points - client["shift"]) * client["factor"]

  return PointSource(client_type, num_columns, read)


def moment_sums(points: tf.Tensor) -> dict[str, tf.Tensor]:
  """Returns a dict of float64: `num_points`, and the columns' `sums` and `squares`."""
  points = tf.cast(points, tf.float64)
  return collections.OrderedDict(
      num_points=tf.cast(tf.shape(points)[0], tf.float64),
      sums=tf.reduce_sum(points, axis=0),
      squares=tf.reduce_sum(points * points, axis=0),
  )


@functools.lru_cache(maxsize=None)
def build_moments_round(source: PointSource) -> Any:
  """Returns the round `{points}@CLIENTS -> moment_sums@SERVER`."""

  @tff.tensorflow.computation(source.client_type)
  def local_moments(client: Any) -> dict[str, tf.Tensor]:
    return moment_sums(source.read(client))

  @tff.federated_computation(tff.FederatedType(source.client_type, tff.CLIENTS))
  def moments_round(clients: tff.Value) -> tff.Value:
    return tff.federated_sum(tff.federated_map(local_moments, clients))

  return moments_round


def build_sum_round(
    source: PointSource, query_type: tff.Type, client_values: Callable[[Any, Any], Any]
) -> Any:
  """Returns the round `(query@SERVER, {points}@CLIENTS) -> sums@SERVER` of plain sums.

  They hide a client only among others that are added up at the same place.

  Args:
    query_type: Of what the server sends.
    client_values: A TensorFlow function of the query and the client's value.
  """
  local_values = tff.tensorflow.computation(client_values, (query_type, source.client_type))

  @tff.federated_computation(
      tff.FederatedType(query_type, tff.SERVER),
      tff.FederatedType(source.client_type, tff.CLIENTS),
  )
  def sum_round(query: tff.Value, clients: tff.Value) -> tff.Value:
    sent = (tff.federated_broadcast(query), clients)
    return tff.federated_sum(tff.federated_map(local_values, sent))

  return sum_round


@dataclasses.dataclass(frozen=True, eq=False)
class PointFiles:
  """`secure_sums.ClientPoints` of files, whose clients TFF computes.

  Attributes:
    paths: By client id.
  """

  paths: Mapping[str, str]
  scaling: scaling_lib.Scaling

  @property
  def num_columns(self) -> int:
    return len(self.scaling.shift)

  @property
  def num_clients(self) -> int:
    return len(self.paths)

  @property
  def source(self) -> PointSource:
    return scaled_files(self.num_columns)

  def scaled(self, scaling: scaling_lib.Scaling) -> PointFiles:
    return dataclasses.replace(self, scaling=scaling)

  def client(self, client_id: str) -> dict[str, Any]:
    """Returns the TFF value of a client."""
    return {
        "path": self.paths[client_id],
        "shift": self.scaling.shift,
        "factor": self.scaling.factor,
    }

  def clients(self) -> list[dict[str, Any]]:
    """Returns the TFF values of all clients."""
    return [self.client(client_id) for client_id in self.paths]

  def total(
      self, question: secure_sums.Question, sent: Mapping[str, Any],
      shares: Iterable[np.ndarray] | None = None,
  ) -> np.ndarray:
    sent_types = tuple(
        (name, np.asarray(value).dtype.type, np.shape(value)) for name, value in sent.items()
    )
    answer = secure_rounds.build_question_round(self.source, question, sent_types)
    if shares is None:
      shares = itertools.repeat(np.zeros(question.shape(self.num_columns), np.int64))
    return secure_rounds.total(answer, dict(sent), self.clients(), shares)

  def column_moments(self) -> scaling_lib.ColumnMoments:
    """Returns the moments of the data's own columns, from two rounds of sums."""
    sum_moments = build_moments_round(self.source)
    own = self.scaled(scaling_lib.identity(self.num_columns))
    shift = scaling_lib.first_mean(sum_moments(own.clients()))
    shifted = self.scaled(scaling_lib.Scaling(shift, np.ones(self.num_columns)))
    return scaling_lib.column_moments(shift, sum_moments(shifted.clients()))


def write_files(clients: Mapping[Any, np.ndarray], directory: str) -> PointFiles:
  """Writes every client's points (n, d) to a file of its own, in their own coordinates.

  Files are named by position, as ids may hold any character.
  """
  paths = {}
  for index, (client_id, points) in enumerate(clients.items()):
    path = os.path.join(os.path.abspath(directory), f"client_{index:05d}.points")
    with open(path, "wb") as file:
      file.write(np.ascontiguousarray(points, "<f8").data)
    paths[client_id] = path
  num_columns = next(iter(clients.values())).shape[1]
  return PointFiles(paths, scaling_lib.identity(num_columns))


def at_sites(sites: sites_lib.Sites) -> PointFiles:
  """Returns the features of clients at sites, in the data's own coordinates."""
  paths = {client_id: sites.path(client_id, site_lib.POINTS) for client_id in sites.clients}
  return PointFiles(paths, scaling_lib.identity(sites.num_columns))
