"""`ClientPoints` that are TFF's clients: each reads its points from a file of its own.

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
import functools
import itertools
import os
from typing import Any, Callable, Iterable, Iterator, Mapping

import numpy as np
import tensorflow as tf
import tensorflow.experimental.numpy as tnp
import tensorflow_federated as tff

from fl_clustering.points import secure_sums

# Of a dict of arrays: the type and the shape of each, by name.
SentTypes = tuple[tuple[str, type[np.generic], tuple[int, ...]], ...]
# How many clients answer at a time.
_BLOCK_CLIENTS = 256


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
    client_type: tff.Type, query_type: tff.Type, client_totals: Callable[[Any, Any], tf.Tensor]
) -> Any:
  """Returns a round in which every client answers a query, and the answers are added up.

  Args:
    client_totals: From the query and a client's value to int64 of known shape.

  Returns:
    The computation `(query@SERVER, {client, share}@CLIENTS) -> int64@SERVER`: the sum of
    all answers and shares, between -2^61 and 2^61.  A client's share is what it adds to its
    answer before anyone else sees it: its noise, or zero; an int64 array or number.
  """
  @tff.tensorflow.computation(query_type, client_type)
  def answer(query: Any, client: Any) -> tf.Tensor:
    return client_totals(query, client)

  # The share has the type of the answer, which TFF finds as it traces the answer, once.
  answer_type = answer.type_signature.result
  sharing_type = tff.StructWithPythonType(
      [("client", client_type), ("share", answer_type)], collections.OrderedDict
  )

  @tff.tensorflow.computation(answer_type, answer_type)
  def add(total: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    return total + share

  @tff.federated_computation(query_type, sharing_type)
  def message(query: tff.Value, client: tff.Value) -> tff.Value:
    return add(answer(query, client.client), client.share)

  @tff.tensorflow.computation(answer_type)
  def signed_total(total: tf.Tensor) -> tf.Tensor:
    return secure_sums.signed(tnp, total)

  @tff.federated_computation(
      tff.FederatedType(query_type, tff.SERVER), tff.FederatedType(sharing_type, tff.CLIENTS)
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
    num_columns: int, question: secure_sums.Question, sent_types: SentTypes
) -> Any:
  """Returns the computation of `build_round` in which clients answer a question."""
  query_type = tff.StructWithPythonType(
      [(name, tff.TensorType(dtype, shape)) for name, dtype, shape in sent_types],
      collections.OrderedDict,
  )
  row_type = tff.TensorType(np.float64, [num_columns])
  client_type = tff.StructWithPythonType(
      [("path", np.str_), ("shift", row_type), ("factor", row_type)], collections.OrderedDict
  )
  shape = question.shape(num_columns)

  def client_totals(sent: Any, client: Any) -> tf.Tensor:
    points = tf.io.decode_raw(tf.io.read_file(client["path"]), tf.float64)
    points = (tf.reshape(points, [-1, num_columns]) - client["shift"]) * client["factor"]
    if question.is_of_integers:
      points = tf.math.rint(points)

    def block_totals(block: tf.Tensor) -> tf.Tensor:
      groups, values = question.contributions(tnp, block, sent)
      return tf.math.unsorted_segment_sum(tf.cast(values, tf.int64), groups, shape[0])

    return question.limited(tnp, _over_blocks(points, shape, block_totals), sent)

  return build_round(client_type, query_type, client_totals)


class PointFiles(secure_sums.ClientPoints):
  """Paths of the clients' files, whose sums TFF's clients add up.

  They are bytes, as TFF would send text as ASCII.
  """

  def clients(self) -> Iterator[dict[str, Any]]:
    """Yields the TFF values of all clients."""
    for path in self.by_id.values():
      yield {"path": path, "shift": self.scaling.shift, "factor": self.scaling.factor}

  def total(
      self, question: secure_sums.Question, sent: Mapping[str, Any],
      shares: Iterable[np.ndarray] | None = None,
  ) -> np.ndarray:
    sent_types = tuple(
        (name, np.asarray(value).dtype.type, np.shape(value)) for name, value in sent.items()
    )
    answer = build_question_round(self.num_columns, question, sent_types)
    if shares is None:
      shares = itertools.repeat(np.zeros(question.shape(self.num_columns), np.int64))
    return total(answer, dict(sent), self.clients(), shares)


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
