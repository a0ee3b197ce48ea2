"""Rounds of TFF in which the clients' integers are added up in a secure sum.

The server learns the sum of the clients' messages and no message by itself.  TFF's secure
modular sum does that on real clients; see `secure_sums.py` for what is simulated here.
"""

from __future__ import annotations

import collections
import functools
import itertools
from typing import Any, Callable, Iterable, TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow.experimental.numpy as tnp
import tensorflow_federated as tff

from fl_clustering.points import secure_sums

if TYPE_CHECKING:
  from fl_clustering.points import point_files

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
    source: point_files.PointSource, query_type: tff.Type,
    client_totals: Callable[[Any, tf.Tensor], tf.Tensor],
) -> Any:
  """Returns a round in which every client answers a query, and the answers are added up.

  Args:
    query_type: Of what the server sends.
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
  number.

  Args:
    clients: The clients' values.
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
    source: point_files.PointSource, question: secure_sums.Question, sent_types: SentTypes
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
