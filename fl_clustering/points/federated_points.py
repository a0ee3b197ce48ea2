"""Exact answers to `SumQuery`s about the points of many clients, by secure sums."""

from __future__ import annotations

import dataclasses
import types
from typing import Any, Callable, Mapping, TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
  from dp_clustering import sum_query
  from fl_clustering.points import secure_sums

_BYTES = 8  # Messages are float64 and int64.
# The norm of up to 2^22 numbers is rounded by 2^-31 at most; scaled totals stay inside by more.
_INSIDE = 1 - 2.0**-30


def _norm(xp: types.ModuleType, values: Any) -> Any:
  """Returns the norm of an array, added up in an order that is the same in every library."""
  squares = xp.reshape(values * values, (-1,))
  while squares.shape[0] > 1:
    half = squares.shape[0] // 2
    squares = xp.concatenate([squares[:half] + squares[half : 2 * half], squares[2 * half :]])
  return xp.sqrt(squares[0])


def within_limits(xp: types.ModuleType, totals: Any, limits: Any) -> Any:
  """Returns a client's totals, made smaller by one factor if totals / limits has norm > 1.

  Whatever the totals are, the result / limits has a norm of at most 1.  After the scaling this
  holds by definition, and the truncation towards zero makes no number larger.  A client's
  factor depends on its own totals alone.  A client that is added or removed therefore changes
  the sum over the clients by its own result and nothing else.

  Args:
    totals: Integers, int64 of shape (num_groups, width).
    limits: Positive float64 of shape (width,).
  """
  values = xp.asarray(totals, np.float64)
  # A norm below one changes nothing, and zero is no divisor.
  factor = xp.minimum(_INSIDE / xp.maximum(_norm(xp, values / limits), 0.5), 1.0)
  return xp.asarray(values * factor, np.int64)


@dataclasses.dataclass(frozen=True)
class Totals:
  """The `secure_sums.Question` that answers queries of one kind.

  What is sent are `num_groups`, the arrays of the query, padded to `capacity` rows, and `limits`
  if there are any.

  Attributes:
    capacity: The most groups of a query.  A message always has room for so many.
    is_limited: Whether every client's totals are kept `within_limits`.
  """

  kind: sum_query.Kind
  capacity: int
  is_limited: bool

  is_of_integers = True

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
  """The points of a federation, to ask for exact sums.

  Attributes:
    clients: Scaled to the grid of points.
    capacity: The most groups of a query.
  """

  clients: secure_sums.ClientPoints
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
