"""Sums of integers over the clients, of which the server is told nothing but the sum.

A secure sum does that on real clients: the server learns the sum of their messages, and no message
by itself (Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning",
CCS 2017).  Here it is simulated, in one of two ways that give the same bits:

  - `point_files.py`: the clients are TFF's, and `secure_rounds.py` asks for TFF's secure modular
    sum, which one machine that plays the server and the clients can only simulate.
  - `point_arrays.py`: this process holds all points and adds up itself, without TFF.

In both, the integers, the modulus and the noise are real; the secrecy is not.
"""

from __future__ import annotations

import types
from typing import Any, Callable, Iterable, Mapping, Protocol, TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
  from fl_clustering.points import scaling as scaling_lib

# A message holds integers of at most 2^31 for each of fewer than 2^30 points, and noise.
MODULUS = 2**62
# Rows whose intermediate results fit a processor's cache; also bounds the memory.
BLOCK_ROWS = 2048


def signed(xp: types.ModuleType, total: Any) -> Any:
  """Returns what the server reads from a sum in [0, MODULUS): integers of both signs."""
  return xp.where(total < MODULUS // 2, total, total - MODULUS)


class Question(Protocol):
  """What every client answers with integers: a frozen dataclass; equal ones compute the same.

  Its functions take `xp`, which is `numpy`, or `tensorflow.experimental.numpy` with tensors as
  arrays, and compute the same bits with both.

  Attributes:
    is_of_integers: Whether coordinates are rounded to integers first.
  """

  @property
  def is_of_integers(self) -> bool:
    ...

  def __hash__(self) -> int:
    ...

  def shape(self, num_columns: int) -> tuple[int, int]:
    """Returns the shape of an answer, (num_groups, width), for points of so many columns."""

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
    """Returns the answer of a client whose points add up to these totals, int64 of `shape`."""


class ClientPoints(Protocol):
  """The points of clients, and the coordinates in which the clients compute.

  Attributes:
    scaling: What the clients scale their points by.
  """

  @property
  def scaling(self) -> scaling_lib.Scaling:
    ...

  @property
  def num_columns(self) -> int:
    ...

  @property
  def num_clients(self) -> int:
    ...

  def scaled(self, scaling: scaling_lib.Scaling) -> ClientPoints:
    """Returns the same points in other coordinates."""

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
