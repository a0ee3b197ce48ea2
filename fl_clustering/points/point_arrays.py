"""The clients of a fit in one process, which holds all of their points and adds up with NumPy.

It plays the clients and the server.  Every client still answers by itself: its integers, its share
of the noise and the modulus are those of the clients of TFF (`point_files.py`), and so is the sum,
to the last bit.  No message is sent, and nothing hides a client's answer from the process.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import itertools
import os
from typing import Any, Iterable, Iterator, Mapping

import numpy as np

from dp_clustering import sum_query
from fl_clustering.points import scaling as scaling_lib
from fl_clustering.points import secure_sums

# Elements of points at a time, where there are many columns.
_BLOCK_ELEMENTS = 2**18


@dataclasses.dataclass(frozen=True, eq=False)
class PointArrays:
  """`secure_sums.ClientPoints` of this process.

  Attributes:
    arrays: The clients' points by id, float64 of shape (n, d) in their own coordinates.
  """

  arrays: Mapping[Any, np.ndarray]
  scaling: scaling_lib.Scaling

  @property
  def num_columns(self) -> int:
    return len(self.scaling.shift)

  @property
  def num_clients(self) -> int:
    return len(self.arrays)

  def scaled(self, scaling: scaling_lib.Scaling) -> PointArrays:
    return dataclasses.replace(self, scaling=scaling)

  def total(
      self, question: secure_sums.Question, sent: Mapping[str, Any],
      shares: Iterable[np.ndarray] | None = None,
  ) -> np.ndarray:
    total = np.zeros(question.shape(self.num_columns), np.int64)
    added = itertools.repeat(0) if shares is None else shares
    for points, share in zip(self.arrays.values(), added):
      message = self._answer(question, sent, points) + share
      total = (total + message) % secure_sums.MODULUS
    return secure_sums.signed(np, total)

  def _answer(
      self, question: secure_sums.Question, sent: Mapping[str, Any], points: np.ndarray
  ) -> np.ndarray:
    """Returns what one client answers."""
    totals = np.zeros(question.shape(self.num_columns), np.int64)
    block_rows = max(1, min(secure_sums.BLOCK_ROWS, _BLOCK_ELEMENTS // self.num_columns))
    for start in range(0, len(points), block_rows):
      block = self.scaling.apply(points[start : start + block_rows])
      if question.is_of_integers:
        np.rint(block, out=block)
      groups, values = question.contributions(np, block, sent)
      totals += sum_query.grouped_sums(groups, len(totals), values)
    return question.limited(np, totals, sent)


class _PointsInFiles(collections.abc.Mapping):
  """Points by client id in files, of which only the one that is asked for is open."""

  def __init__(self, paths: Mapping[Any, str]):
    self._paths = paths

  def __getitem__(self, client_id: Any) -> np.ndarray:
    return np.load(self._paths[client_id], mmap_mode="r")

  def __iter__(self) -> Iterator[Any]:
    return iter(self._paths)

  def __len__(self) -> int:
    return len(self._paths)


def hold(clients: Mapping[Any, np.ndarray], directory: str | None = None) -> PointArrays:
  """Returns clients with points (n, d) in their own coordinates; a `secure_sums.Hold`.

  Args:
    directory: Where to keep the points in files, one client's after another's, if all of them
      together may exceed the memory.
  """
  held, paths = {}, {}
  for index, (client_id, points) in enumerate(clients.items()):
    array = np.ascontiguousarray(points, np.float64)
    if directory is None:
      held[client_id] = array
    else:
      paths[client_id] = os.path.join(directory, f"client_{index:05d}.npy")
      np.save(paths[client_id], array)
  arrays: Mapping[Any, np.ndarray] = held if directory is None else _PointsInFiles(paths)
  num_columns = next(iter(arrays.values())).shape[1]
  return PointArrays(arrays, scaling_lib.identity(num_columns))
