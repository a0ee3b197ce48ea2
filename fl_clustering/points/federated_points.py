"""Exact answers to `SumQuery`s about the points of many clients, by secure sums."""

from __future__ import annotations

import collections
import dataclasses
import functools
from typing import Any, Callable, Mapping, TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow.experimental.numpy as tnp
import tensorflow_federated as tff

from fl_clustering.points import point_files
from fl_clustering.points import secure_sums

if TYPE_CHECKING:
  from dp_clustering import sum_query

_BYTES = 8  # Messages are float64 and int64.
# The norm of up to 2^22 numbers is rounded by 2^-31 at most; scaled totals stay inside by more.
_INSIDE = 1 - 2.0**-30


def within_limits(totals: tf.Tensor, limits: tf.Tensor) -> tf.Tensor:
  """Returns a client's totals, made smaller by one factor if totals / limits has norm > 1.

  Whatever the totals are, the result / limits has a norm of at most 1.  After the scaling this
  holds by definition, and the truncation towards zero makes no number larger.  A client's
  factor depends on its own totals alone.  A client that is added or removed therefore changes
  the sum over the clients by its own result and nothing else.

  Args:
    totals: Integers, int64 of shape (num_groups, width).
    limits: Positive float64 of shape (width,).
  """
  values = tf.cast(totals, tf.float64)
  factor = tf.minimum(_INSIDE / tf.norm(values / limits), 1.0)
  return tf.cast(values * factor, tf.int64)


@functools.lru_cache(maxsize=None)  # Fits of data of the same shape share computations.
def build_totals_round(
    source: point_files.PointSource, kind: sum_query.Kind, capacity: int,
    widths: tuple[tuple[str, int], ...], is_limited: bool,
) -> Any:
  """Returns the round that answers queries of one kind.

  Args:
    source: Of points on the grid, up to rounding.
    capacity: The most groups of a query.  A message always has room for so many.
    widths: The number of columns of every array of the query, by name.
    is_limited: Whether every client's totals are kept `within_limits`.

  Returns:
    The computation of `secure_sums.build_round`; a query is a dict of `num_groups`, the
    arrays, padded to `capacity`, and `limits` if there are any.
  """
  shape = (capacity, sum(kind.widths(source.num_columns).values()))
  query_type = tff.StructWithPythonType(
      [("num_groups", np.int32)]
      + [("limits", tff.TensorType(np.float64, shape[1:]))] * is_limited
      + [(name, tff.TensorType(np.float64, [capacity, width])) for name, width in widths],
      collections.OrderedDict,
  )

  def client_totals(query: Any, points: tf.Tensor) -> tf.Tensor:
    arrays = {name: query[name][: query["num_groups"]] for name, _ in widths}

    def block_totals(block: tf.Tensor) -> tf.Tensor:
      groups, values = kind.contributions(tnp, block, arrays)
      return tf.math.unsorted_segment_sum(tf.cast(values, tf.int64), groups, capacity)

    totals = secure_sums.over_blocks(tf.math.rint(points), shape, block_totals)
    return within_limits(totals, query["limits"]) if is_limited else totals

  return secure_sums.build_round(source, query_type, client_totals)


@dataclasses.dataclass(frozen=True, eq=False)
class FederatedPoints:
  """The points of a federation, to ask for exact sums.

  Attributes:
    files: Scaled to the grid of points.
    capacity: The most groups of a query.
  """

  files: point_files.PointFiles
  capacity: int

  @property
  def dim(self) -> int:
    return self.files.num_columns

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
    widths = tuple((name, array.shape[1]) for name, array in query.arrays.items())
    answer = build_totals_round(
        self.files.source, query.kind,  # type: ignore[arg-type]  # A frozen dataclass.
        self.capacity, widths, limits is not None,
    )
    sent: dict[str, Any] = {"num_groups": np.int32(num_groups)}
    if limits is not None:
      sent["limits"] = query.by_column(limits)
    sent |= {name: self._padded(array) for name, array in query.arrays.items()}
    clients = []
    for client in self.files.clients():
      share = np.zeros((self.capacity, width), np.int64)
      if draw_share is not None:
        share[:num_groups] = draw_share()
      clients.append({"client": client, "share": share})
    return np.asarray(answer(sent, clients))[:num_groups]
