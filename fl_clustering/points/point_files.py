"""The clients of TFF in a fit: each reads its points from a file of its own.

A TFF client's value is the path of its file and the coordinates to compute in, never the
points: nothing but results is sent through TFF's messages (see
`fl_clustering/engine/tff/client_files.py`).

A file holds the rows one after another as float64.  Clients scale them before anything
else, which takes float64 where the numbers are far from zero.

In a round of `build_round` the server learns the sum of the clients' messages and no message by
itself.  TFF's secure modular sum does that on real clients; see `secure_sums.py` for what is
simulated here.
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
import tensorflow.experimental.numpy as tnp
import tensorflow_federated as tff

from fl_clustering.points import grid_scaling
from fl_clustering.points import secure_sums

# Of a dict of arrays: the type and the shape of each, by name.
SentTypes = tuple[tuple[str, type[np.generic], tuple[int, ...]], ...]
# How many clients answer at a time.
_BLOCK_CLIENTS = 256

@dataclasses.dataclass(frozen=True)
class PointSource:
  """What the value of a TFF client is, and how the client gets its points from it.

  Attributes:
    read: A TensorFlow function from the client's value to points of shape (n, d),
      float32 or float64.
  """

  client_type: tff.Type
  num_columns: int
  read: Callable[..., tf.Tensor]

  def read_float32(self, client: Any) -> tf.Tensor:
    """Returns the client's points as float32 of shape (n, d)."""
    # With a scaling that was not made from the data, any number may occur.
    farthest = secure_sums.FARTHEST
    return tf.cast(tf.clip_by_value(self.read(client), -farthest, farthest), tf.float32)


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


def build_sum_round(
    source: PointSource, query_type: tff.Type, client_values: Callable[[Any, Any], Any]
) -> Any:
  """Returns the round `(query@SERVER, {points}@CLIENTS) -> sums@SERVER` of plain sums.

  They hide a client only among others that are added up at the same place.

  Args:
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


@functools.lru_cache(maxsize=None)
def build_moments_round(source: PointSource) -> Any:
  """Returns `(shift@SERVER, {points}@CLIENTS) -> moment_sums@SERVER` of points less a shift."""
  return build_sum_round(
      source, tff.TensorType(np.float64, [source.num_columns]),
      lambda shift, client: moment_sums(source.read(client) - shift),
  )


def _over_blocks(
    points: tf.Tensor, shape: tuple[int, ...], block_totals: Callable[[tf.Tensor], tf.Tensor]
) -> tf.Tensor:
  """Returns the sum of `block_totals(block)`, int64 of `shape`, over blocks of rows."""
  rows = secure_sums.BLOCK_ROWS

  def body(start: tf.Tensor, totals: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return start + rows, totals + block_totals(points[start : start + rows])

  _, totals = tf.while_loop(
      lambda start, _: start < tf.shape(points)[0],
      body,
      (tf.constant(0), tf.zeros(shape, tf.int64)),
      shape_invariants=(tf.TensorShape([]), tf.TensorShape(shape)),
  )
  return totals


def build_round(
    source: PointSource, query_type: tff.Type,
    client_totals: Callable[[Any, tf.Tensor], tf.Tensor],
) -> Any:
  """Returns a round in which every client answers a query, and the answers are added up.

  Args:
    client_totals: From the query and float64 points (n, d) to int64 of known shape.

  Returns:
    The computation `(query@SERVER, {client, share}@CLIENTS) -> int64@SERVER`: the sum of
    all answers and shares, between -2^61 and 2^61.  A client's share is what it adds to its
    answer before anyone else sees it: its noise, or zero; an int64 array or number.
  """
  @tff.tensorflow.computation(query_type, source.client_type)
  def answer(query: Any, client: Any) -> tf.Tensor:
    return client_totals(query, source.read(client))

  # The share has the type of the answer, which TFF finds as it traces the answer, once.
  answer_type = answer.type_signature.result
  client_type = tff.StructWithPythonType(
      [("client", source.client_type), ("share", answer_type)], collections.OrderedDict
  )

  @tff.tensorflow.computation(answer_type, answer_type)
  def add(total: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    return total + share

  @tff.federated_computation(query_type, client_type)
  def message(query: tff.Value, client: tff.Value) -> tff.Value:
    return add(answer(query, client.client), client.share)

  @tff.tensorflow.computation(answer_type)
  def signed_total(total: tf.Tensor) -> tf.Tensor:
    return secure_sums.signed(tnp, total)

  @tff.federated_computation(
      tff.FederatedType(query_type, tff.SERVER), tff.FederatedType(client_type, tff.CLIENTS)
  )
  def sum_round(query: tff.Value, clients: tff.Value) -> tff.Value:
    answers = tff.federated_map(message, (tff.federated_broadcast(query), clients))
    total = tff.backends.mapreduce.federated_secure_modular_sum(
        answers, secure_sums.MODULUS
    )
    return tff.federated_map(signed_total, total)

  return tff.backends.test.replace_secure_intrinsics_with_bodies(sum_round)


def total(
    sum_round: Any, query: Any, clients: Iterable[Any], shares: Iterable[np.ndarray]
) -> np.ndarray:
  """Returns the total of a round of `build_round` over all clients, int64.

  The simulation adds it up over blocks of clients, so that the memory doesn't grow with their
  number.  A deployment must add up all clients in one secure sum: a block holds only the shares of
  the noise of `_BLOCK_CLIENTS` clients, or of one.

  Args:
    shares: Every client's share; each is only made when its block answers.
  """
  added = np.zeros((), np.int64)
  values = zip(clients, shares)
  while block := list(itertools.islice(values, _BLOCK_CLIENTS)):
    added = added + np.asarray(sum_round(query, [
        collections.OrderedDict(client=client, share=share) for client, share in block
    ]))
  return added


@functools.lru_cache(maxsize=None)  # Fits of data of the same shape share computations.
def build_question_round(
    source: PointSource, question: secure_sums.Question, sent_types: SentTypes
) -> Any:
  """Returns the computation of `build_round` in which clients answer a question."""
  query_type = tff.StructWithPythonType(
      [(name, tff.TensorType(dtype, shape)) for name, dtype, shape in sent_types],
      collections.OrderedDict,
  )
  shape = question.shape(source.num_columns)

  def client_totals(sent: Any, points: tf.Tensor) -> tf.Tensor:
    if question.is_of_integers:
      points = tf.math.rint(points)

    def block_totals(block: tf.Tensor) -> tf.Tensor:
      groups, values = question.contributions(tnp, block, sent)
      return tf.math.unsorted_segment_sum(tf.cast(values, tf.int64), groups, shape[0])

    return question.limited(tnp, _over_blocks(points, shape, block_totals), sent)

  return build_round(source, query_type, client_totals)


class PointFiles(secure_sums.ClientPoints):
  """Paths of the clients' files, whose sums TFF's clients add up.

  They are bytes, as TFF would send text as ASCII.
  """

  @property
  def source(self) -> PointSource:
    return scaled_files(self.num_columns)

  def client(self, client_id: str) -> dict[str, Any]:
    """Returns the TFF value of a client."""
    return {
        "path": self.by_id[client_id],
        "shift": self.scaling.shift,
        "factor": self.scaling.factor,
    }

  def clients(self) -> list[dict[str, Any]]:
    """Returns the TFF values of all clients."""
    return [self.client(client_id) for client_id in self.by_id]

  def total(
      self, question: secure_sums.Question, sent: Mapping[str, Any],
      shares: Iterable[np.ndarray] | None = None,
  ) -> np.ndarray:
    sent_types = tuple(
        (name, np.asarray(value).dtype.type, np.shape(value)) for name, value in sent.items()
    )
    answer = build_question_round(self.source, question, sent_types)
    if shares is None:
      shares = itertools.repeat(np.zeros(question.shape(self.num_columns), np.int64))
    return total(answer, dict(sent), self.clients(), shares)

  def column_moments(self) -> tuple[int, np.ndarray, np.ndarray]:
    """Returns the number of points, and their own columns' means and variances, of shape (d,)."""
    sum_moments = build_moments_round(self.source)
    clients = self.scaled(secure_sums.identity(self.num_columns)).clients()
    sums = sum_moments(np.zeros(self.num_columns), clients)
    shift = sums["sums"] / sums["num_points"]
    mean, variance = grid_scaling.mean_and_variance(shift, sum_moments(shift, clients))
    return int(sums["num_points"]), mean, variance


def write_files(clients: Mapping[Any, np.ndarray], directory: str) -> PointFiles:
  """Writes every client's points (n, d) to a file of its own, in their own coordinates.

  Files are named by position, as ids may hold any character.
  """
  paths = {}
  for index, (client_id, points) in enumerate(clients.items()):
    path = os.path.join(os.path.abspath(directory), f"client_{index:05d}.points")
    with open(path, "wb") as file:
      file.write(np.ascontiguousarray(points, "<f8").data)
    paths[client_id] = os.fsencode(path)
  num_columns = next(iter(clients.values())).shape[1]
  return PointFiles(paths, secure_sums.identity(num_columns))
