"""What an algorithm asks of points that it never sees: exact sums of integers by group.

An algorithm states a `SumQuery`.  Whoever holds points answers it with `totals`, an int64
array: every point belongs to one group, and adds a row of bounded integers to it.  Totals
of several holders add up to the totals of all points, so the answer is the same for points
at one place (`private_sums.PooledPoints`) and for points at many clients, which add up their
totals in a secure sum.
"""

from __future__ import annotations

import dataclasses
import types
from typing import Any, Mapping, Protocol, TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
  from dp_clustering import noise


def grouped_sums(groups: np.ndarray, num_groups: int, values: Any) -> np.ndarray:
  """Returns sums of the rows of `values` by group, int64 (num_groups, columns).

  The values, below 2^31, are truncated towards zero, in place.  There are at most 2^22
  rows, so float64 is exact.
  """
  # It takes long to import, and programs that read files import this module.
  from scipy import sparse  # pylint: disable=g-import-not-at-top

  # Each row has one group, so the index pointers of the membership matrix are known.
  columns = np.arange(len(groups) + 1, dtype=groups.dtype)
  members = sparse.csc_array(
      (np.ones(len(groups)), groups, columns), shape=(num_groups, len(groups))
  )
  return (members @ np.trunc(values, out=values)).astype(np.int64)


class Kind(Protocol):
  """What is summed up: a frozen dataclass, whose fields are known before any data.

  Two equal kinds compute the same.
  """

  def widths(self, dim: int) -> dict[str, int]:
    """Returns the number of columns of every part of a total, a dict by name in order."""

  def contributions(
      self, xp: types.ModuleType, points: Any, arrays: Mapping[str, Any]
  ) -> tuple[Any, Any]:
    """Returns every point's group, int (num_points,), and its contribution to that group.

    The contributions are float64 of shape (num_points, sum of `widths`), below 2^31, and are
    truncated towards zero to integers before they are added up.  They are the same bits
    whatever `xp` is and whatever other points there are.

    Args:
      xp: `numpy`, or `tensorflow.experimental.numpy` with tensors as arrays.
      points: Float64, integers of shape (num_points, dim); see `point_grid`.
    """


@dataclasses.dataclass(frozen=True, eq=False)
class SumQuery:
  """One question; public, or made from private results.

  Attributes:
    arrays: A dict of float64 arrays, all of first dimension num_groups.  The first one is of
      shape (num_groups, dim).
  """

  kind: Kind
  arrays: Mapping[str, np.ndarray]

  @property
  def shape(self) -> tuple[int, int]:
    """The shape of the totals, (num_groups, total width)."""
    return len(next(iter(self.arrays.values()))), sum(self._widths.values())

  @property
  def _widths(self) -> dict[str, int]:
    return self.kind.widths(next(iter(self.arrays.values())).shape[1])

  def split(self, totals: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the parts of totals by name, arrays of shape (num_groups, width).

    Args:
      totals: Array of shape (num_groups, total width).
    """
    edges = np.cumsum(list(self._widths.values()))[:-1]
    return dict(zip(self._widths, np.split(totals, edges, axis=1)))

  def by_column(self, values: Mapping[str, float]) -> np.ndarray:
    """Returns the parts' values for every column of the totals, float64 (total width,).

    Args:
      values: A dict of a number for every part.
    """
    return np.concatenate([
        np.full(width, values[part], np.float64) for part, width in self._widths.items()
    ])

  def noise(self, stds: Mapping[str, float], noise_source: noise.Source) -> np.ndarray:
    """Returns noise for the totals, an int64 array of their shape.

    Args:
      stds: A dict of the standard deviation of the noise on every part; 0 for none.
    """
    num_groups, _ = self.shape
    draws = [
        noise_source.discrete_gaussian((num_groups, width), stds[part])
        if stds[part] else np.zeros((num_groups, width), np.int64)
        for part, width in self._widths.items()
    ]
    return np.concatenate(draws, axis=1)
