"""Sums of integers over the clients, of which the server is told nothing but the sum.

A secure sum does that on real clients: the server learns the sum of their messages, and no message
by itself (Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning",
CCS 2017).  Here it is simulated, in one of three ways that give the same bits:

  - `PointArrays`: this process plays the clients and the server, without TFF.  It holds all points
    and adds up with NumPy.  No message is sent, and nothing hides a client's answer from it.
  - `SinglePoints`: likewise, for many clients with one point each.
  - `engine.tff.point_files.PointFiles`: the clients are TFF's, and so is the secure modular
    sum, which one machine that plays the server and the clients can only simulate.

In all, every client answers by itself: the integers, the modulus and the noise are real; the
secrecy is not.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
import types
from typing import Any, Callable, Iterable, Mapping

import numpy as np

from dp_clustering import sum_query

# A message holds integers of at most 2^31 for each of fewer than 2^30 points, and noise.
MODULUS = 2**62
# Rows whose intermediate results fit a processor's cache; also bounds the memory.
BLOCK_ROWS = 2048
# Elements of points at a time, where there are many columns.
_BLOCK_ELEMENTS = 2**18
_BYTES = 8  # Messages are float64 and int64.
# The norm of up to 2^22 numbers is rounded by 2^-31 at most; scaled totals stay inside by more.
_INSIDE = 1 - 2.0**-30


def signed(xp: types.ModuleType, total: Any) -> Any:
  """Returns what the server reads from a sum in [0, MODULUS): integers of both signs."""
  return xp.where(total < MODULUS // 2, total, total - MODULUS)


@dataclasses.dataclass(frozen=True, eq=False)
class Scaling:
  """The map x -> (x - shift) * factor.

  Attributes:
    shift: float64 of shape (d,).
    factor: float64 of shape (d,); zero drops a column, which `undo` then gives the value
      of its shift.
  """

  shift: np.ndarray
  factor: np.ndarray

  def apply(self, points: np.ndarray) -> np.ndarray:
    """Returns points (n, d) in scaled coordinates, float64."""
    return (points - self.shift) * self.factor

  def undo(self, points: np.ndarray) -> np.ndarray:
    """Returns scaled points (n, d) in the data's units, float64."""
    # A center that no point has moved may be anywhere in a dropped column.
    factor = np.where(self.factor > 0, self.factor, np.inf)
    return np.asarray(points, np.float64) / factor + self.shift


def identity(num_columns: int) -> Scaling:
  """Returns the scaling that changes nothing."""
  return Scaling(np.zeros(num_columns), np.ones(num_columns))


class Question(abc.ABC):
  """What every client answers with integers: a frozen dataclass; equal ones compute the same.

  Its functions take `xp`, which is `numpy`, or `tensorflow.experimental.numpy` with tensors as
  arrays, and compute the same bits with both.

  Attributes:
    is_of_integers: Whether coordinates are rounded to integers first.
  """

  is_of_integers = True

  @abc.abstractmethod
  def shape(self, num_columns: int) -> tuple[int, int]:
    """Returns the shape of an answer, (num_groups, width), for points of so many columns."""

  @abc.abstractmethod
  def contributions(
      self, xp: types.ModuleType, points: Any, sent: Mapping[str, Any]
  ) -> tuple[Any, Any]:
    """Returns what some points add to an answer: groups, int (m,), and values for each, (m, width).

    The values are float64 below 2^31, and are truncated towards zero to integers.

    Args:
      points: Float64 of shape (n, num_columns).
      sent: What the server sends.
    """

  def limited(self, xp: types.ModuleType, totals: Any, sent: Mapping[str, Any]) -> Any:
    """Returns the answer of a client whose points add up to these totals, int64 of `shape`.

    In NumPy there may be many clients: axes before those of `shape`.  Rows of zeros may be left
    out, as they change nothing.
    """
    del xp, sent
    return totals


@dataclasses.dataclass(frozen=True, eq=False)
class ClientPoints(abc.ABC):
  """The points of clients, and the coordinates in which the clients compute.

  Attributes:
    by_id: Where every client's points are, in coordinates of their own; a mapping from client id.
    scaling: What the clients scale their points by.
  """

  by_id: Mapping[Any, Any]
  scaling: Scaling

  @property
  def num_columns(self) -> int:
    return len(self.scaling.shift)

  @property
  def num_clients(self) -> int:
    return len(self.by_id)

  def scaled(self, scaling: Scaling) -> Any:
    """Returns the same points in other coordinates."""
    return dataclasses.replace(self, scaling=scaling)

  @abc.abstractmethod
  def total(
      self, question: Question, sent: Mapping[str, Any], shares: Iterable[np.ndarray] | None = None
  ) -> np.ndarray:
    """Returns the sum of all clients' answers, int64 of the question's shape.

    Args:
      sent: What every client is sent: a dict of NumPy arrays and numbers.
      shares: What each client adds to its answer before anyone else sees it, its noise: int64 of
        the question's shape.  None for exact answers.
    """


# A function that takes points (n, d) by client id, and returns them in their own coordinates, with
# the clients that answer questions about them.
Hold = Callable[[Mapping[Any, np.ndarray]], ClientPoints]


class PointArrays(ClientPoints):
  """Arrays, float64 of shape (n, d), whose sums this process adds up."""

  def total(
      self, question: Question, sent: Mapping[str, Any],
      shares: Iterable[np.ndarray] | None = None,
  ) -> np.ndarray:
    total = np.zeros(question.shape(self.num_columns), np.int64)
    added = itertools.repeat(0) if shares is None else shares
    for points, share in zip(self.by_id.values(), added):
      message = self._answer(question, sent, points) + share
      total = (total + message) % MODULUS
    return signed(np, total)

  def _answer(
      self, question: Question, sent: Mapping[str, Any], points: np.ndarray
  ) -> np.ndarray:
    """Returns one client's answer, before its share of the noise."""
    totals = np.zeros(question.shape(self.num_columns), np.int64)
    block_rows = max(1, min(BLOCK_ROWS, _BLOCK_ELEMENTS // self.num_columns))
    for start in range(0, len(points), block_rows):
      block = self.scaling.apply(points[start : start + block_rows])
      if question.is_of_integers:
        np.rint(block, out=block)
      groups, values = question.contributions(np, block, sent)
      totals += sum_query.grouped_sums(groups, len(totals), values)
    return question.limited(np, totals, sent)


@dataclasses.dataclass(frozen=True, eq=False)
class SinglePoints(ClientPoints):
  """Clients with one point each, whose sums this process adds up for many of them at a time.

  Questions must let every point be in one group, as `Totals` does.

  Attributes:
    by_id: The points, of shape (num_clients, d): a client is its row.
  """

  by_id: Any

  def total(
      self, question: Question, sent: Mapping[str, Any],
      shares: Iterable[np.ndarray] | None = None,
  ) -> np.ndarray:
    shape = question.shape(self.num_columns)
    total = sum(() if shares is None else shares, np.zeros(shape, np.int64))
    for start in range(0, self.num_clients, BLOCK_ROWS):
      block = self.scaling.apply(self.by_id[start : start + BLOCK_ROWS])
      if question.is_of_integers:
        np.rint(block, out=block)
      groups, values = question.contributions(np, block, sent)
      messages = question.limited(np, values.astype(np.int64)[:, np.newaxis], sent)[:, 0]
      total += sum_query.grouped_sums(groups, len(total), messages.astype(np.float64))
    return signed(np, total % MODULUS)


def hold(clients: Mapping[Any, np.ndarray]) -> PointArrays:
  """Returns clients with points (n, d) in their own coordinates; a `Hold`."""
  held = {
      client_id: np.ascontiguousarray(points, np.float64) for client_id, points in clients.items()
  }
  return PointArrays(held, identity(next(iter(held.values())).shape[1]))


def _norm(xp: types.ModuleType, values: Any) -> Any:
  """Returns the norms over the last two axes, added up in an order that all libraries share."""
  squares = xp.reshape(values * values, (*values.shape[:-2], -1))
  while squares.shape[-1] > 1:
    half = squares.shape[-1] // 2
    squares = xp.concatenate(
        [squares[..., :half] + squares[..., half : 2 * half], squares[..., 2 * half :]], axis=-1
    )
  return xp.sqrt(squares)[..., np.newaxis]


def within_limits(xp: types.ModuleType, totals: Any, limits: Any) -> Any:
  """Returns a client's totals, made smaller by one factor if totals / limits has norm > 1.

  Whatever the totals are, the result / limits has a norm of at most 1.  After the scaling this
  holds by definition, and the truncation towards zero makes no number larger.  A client's
  factor depends on its own totals alone.  A client that is added or removed therefore changes
  the sum over the clients by its own result and nothing else.

  Args:
    totals: Integers, int64 of shape (..., num_groups, width).
    limits: Positive float64 of shape (width,).
  """
  values = xp.asarray(totals, np.float64)
  # A norm below one changes nothing, and zero is no divisor.
  factor = xp.minimum(_INSIDE / xp.maximum(_norm(xp, values / limits), 0.5), 1.0)
  return xp.asarray(values * factor, np.int64)


@dataclasses.dataclass(frozen=True)
class Totals(Question):
  """The question that answers queries of one kind.

  What is sent are `num_groups`, the arrays of the query, padded to `capacity` rows, and `limits`
  if there are any.

  Attributes:
    capacity: The most groups of a query.  A message always has room for so many.
    is_limited: Whether every client's totals are kept `within_limits`.
  """

  kind: sum_query.Kind
  capacity: int
  is_limited: bool

  def shape(self, num_columns: int) -> tuple[int, int]:
    return self.capacity, sum(self.kind.widths(num_columns).values())

  def contributions(
      self, xp: types.ModuleType, points: Any, sent: Mapping[str, Any]
  ) -> tuple[Any, Any]:
    arrays = {
        name: array[: sent["num_groups"]] for name, array in sent.items()
        if name not in ("num_groups", "limits")
    }
    return self.kind.contributions(xp, points, arrays)

  def limited(self, xp: types.ModuleType, totals: Any, sent: Mapping[str, Any]) -> Any:
    return within_limits(xp, totals, sent["limits"]) if self.is_limited else totals


@dataclasses.dataclass(frozen=True, eq=False)
class FederatedPoints:
  """The points of a federation, to ask `SumQuery`s about; their sums are exact.

  Attributes:
    clients: Scaled to the grid of points.
    capacity: The most groups of a query.
  """

  clients: ClientPoints
  capacity: int

  @property
  def dim(self) -> int:
    return self.clients.num_columns

  def _padded(self, array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, np.zeros((self.capacity - len(array), array.shape[1]))])

  def message_bytes(self, query: sum_query.SumQuery, is_limited: bool = False) -> tuple[int, int]:
    """Returns how many bytes a query sends to a client, and how many a client sends back.

    Args:
      is_limited: Whether it is sent with `limits`.
    """
    num_sent = self.capacity * sum(array.shape[1] for array in query.arrays.values())
    num_limits = query.shape[1] if is_limited else 0
    return _BYTES * (num_sent + num_limits), _BYTES * self.capacity * query.shape[1]

  def totals(
      self, query: sum_query.SumQuery, draw_share: Callable[[], np.ndarray] | None = None,
      limits: Mapping[str, float] | None = None,
  ) -> np.ndarray:
    """Returns the totals of a query, int64 of the query's shape.

    Args:
      draw_share: A function that returns a client's share of the noise, int64 of the query's
        shape; it is called once for each client, in this process, which plays all of them.
        None for exact totals.
      limits: A positive number for every part of the totals, to keep every client's totals
        `within_limits`; None for totals as they are.
    """
    num_groups, width = query.shape
    sent: dict[str, Any] = {"num_groups": np.int32(num_groups)}
    if limits is not None:
      sent["limits"] = query.by_column(limits)
    sent |= {name: self._padded(array) for name, array in query.arrays.items()}
    shares = None
    if draw_share is not None:
      rest = ((0, self.capacity - num_groups), (0, 0))  # Groups that are not asked for.
      shares = (np.pad(draw_share(), rest) for _ in range(self.clients.num_clients))
    question = Totals(query.kind, self.capacity, limits is not None)
    return self.clients.total(question, sent, shares)[:num_groups]
