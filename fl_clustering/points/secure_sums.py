"""Sums of integers over the clients, which TFF adds up in a secure sum.

The server learns the sum of the clients' messages and no message by itself.  TFF's secure
modular sum does that on real clients (Bonawitz et al., "Practical Secure Aggregation for
Privacy-Preserving Machine Learning", CCS 2017).  One machine that plays the server and the
clients can only simulate it: the modulus and the integers are real, the secrecy is not.
"""

from __future__ import annotations

import collections
import types
from typing import Any, Callable, TYPE_CHECKING

import tensorflow as tf
import tensorflow.experimental.numpy as tnp
import tensorflow_federated as tff

if TYPE_CHECKING:
  from fl_clustering.points import point_files

# A message holds integers of at most 2^31 for each of fewer than 2^30 points, and noise.
MODULUS = 2**62
# Rows whose intermediate results fit a processor's cache; also bounds the memory.
_BLOCK_ROWS = 2048


def over_blocks(
    points: tf.Tensor, shape: tuple[int, ...], block_totals: Callable[[tf.Tensor], tf.Tensor]
) -> tf.Tensor:
  """Returns the sum of `block_totals(block)`, int64 of `shape`, over blocks of `_BLOCK_ROWS`."""

  def body(start: tf.Tensor, totals: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return start + _BLOCK_ROWS, totals + block_totals(points[start : start + _BLOCK_ROWS])

  _, totals = tf.while_loop(
      lambda start, _: start < tf.shape(points)[0],
      body,
      (tf.constant(0), tf.zeros(shape, tf.int64)),
      shape_invariants=(tf.TensorShape([]), tf.TensorShape(shape)),
  )
  return totals


def signed(xp: types.ModuleType, total: Any) -> Any:
  """Returns what the server reads from a sum in [0, MODULUS): integers of both signs."""
  return xp.where(total < MODULUS // 2, total, total - MODULUS)


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
    return signed(tnp, total)

  @tff.federated_computation(
      tff.FederatedType(query_type, tff.SERVER), tff.FederatedType(client_type, tff.CLIENTS)
  )
  def sum_round(query: tff.Value, clients: tff.Value) -> tff.Value:
    answers = tff.federated_map(message, (tff.federated_broadcast(query), clients))
    total = tff.backends.mapreduce.federated_secure_modular_sum(answers, MODULUS)
    return tff.federated_map(signed_total, total)

  return tff.backends.test.replace_secure_intrinsics_with_bodies(sum_round)
