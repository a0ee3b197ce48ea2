"""What the numbers of a column are like, over all clients and at each: ids, dates, codes, units."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
from typing import Sequence

import numpy as np

from fl_clustering.tables import table_options

# Integers below the former are exact in float64; larger numbers than the latter are no integers.
_LARGEST_EXACT, _LARGEST_INTEGER = 2.0**53, 2.0**64
# The first and the last day that an integer such as 20240131 may stand for.
_FIRST_DAY, _LAST_DAY = 19000101, 21001231
# What units differ by: 1.8 degrees Fahrenheit are one degree Celsius, and 2.2 pounds a kilogram.
# Where clients themselves differ as much, it takes the other factor.
_LEAST_FACTOR, _LARGE_FACTOR = 1.8, 10
# Hardly a client's mean is so many standard deviations from that of others' numbers.
_FAR_DEVIATIONS = 5
# A client with fewer numbers says little of their unit.
_FEWEST_VALUES = 5
# A client with fewer rows may have such measurements.
_FEWEST_IDS = 20
# Of so many measurements, two are the same, if they don't differ by more than this times as much;
# else they are not spread so evenly: the deviation is a smaller share of their range.
_FEWEST_DISTINCT, _WIDE, _EVEN = 50, 200, 0.26
# More of the ids may be those of another client, too.
_MOST_SHARED = 0.2
# Units of measurements, nearly all of which are positive, can be compared.
_LEAST_POSITIVE = 0.95
# What people write for a missing value, where it is far from the others.
CODES = (-9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0)
_FAR = 10
_LEAST_GAP = 2


@dataclasses.dataclass(frozen=True)
class _Scale:
  """How large the numbers of a client are: nine of ten are from `low` to `high`."""

  low: float
  median: float
  high: float
  mean: float

  @classmethod
  def of(cls, values: np.ndarray) -> _Scale:
    low, median, high = np.quantile(values, (0.05, 0.5, 0.95)).tolist()
    return cls(low, median, high, float(values.mean()))


def known_mean(column: np.ndarray, moments: Sequence[table_options.Moments]) -> float | None:
  """Returns the mean of a model's rows, if a client's column is like none of theirs; else None."""
  values = column[np.isfinite(column)]
  counts, means, deviations = np.array(moments, float).T
  mean = float(counts @ means / counts.sum())
  if len(values) < _FEWEST_VALUES:
    return None
  scale, ratios = _Scale.of(values), deviations / np.where(means > 0, means, np.inf)
  # Where numbers are positive, few of them are near zero even if they spread much.
  lows = np.where(means > 0, means / (1 + 2 * ratios), means - 2 * deviations)
  is_apart = scale.high < lows.min() or scale.low > (means + 2 * deviations).max()
  variance = float(counts @ (deviations**2 + (means - mean) ** 2) / counts.sum())
  is_other_factor = min(scale.mean, mean) > 0 and (
      max(scale.mean / mean, mean / scale.mean) >= _LEAST_FACTOR
  )
  is_far = abs(scale.mean - mean) >= _FAR_DEVIATIONS * variance**0.5
  if not is_apart or not variance > 0 or not (is_other_factor or is_far):
    return None
  # Ids without large gaps have no unit.
  is_dense = len(values) >= _FEWEST_IDS and len(values) ** 2 >= 6 * np.ptp(values)
  return None if is_dense and _are_distinct(values) and not np.any(values % 1) else mean


def may_be_thousands(parts: np.ndarray, moments: Sequence[table_options.Moments]) -> bool:
  """Returns whether a thousand times some numbers may be in a column of a model with moments."""
  _, means, deviations = np.array(moments, float).T
  far = np.maximum(_FAR_DEVIATIONS * deviations, np.abs(parts.mean() - means))
  return bool(np.any(np.abs(1000 * parts.mean() - means) <= far))


@dataclasses.dataclass
class _Spread:
  """How large the numbers of a column are, over all clients and at each."""

  least: float = np.inf
  largest: float = -np.inf
  count: int = 0
  num_positive: int = 0
  scales: dict[str, _Scale] = dataclasses.field(default_factory=dict)

  def add(self, client_id: str, values: np.ndarray) -> None:
    if len(values):
      self.least = min(self.least, values.min())
      self.largest = max(self.largest, values.max())
      self.count += len(values)
      self.num_positive += int(np.count_nonzero(values > 0))
    if len(values) >= _FEWEST_VALUES:
      self.scales[client_id] = _Scale.of(values)

  def clients_off(self) -> list[str]:
    """Returns the clients, at most half, whose numbers are others' times a factor.

    Most of their numbers, which are positive but for a few, are all above, or all below, those of
    the clients on the other side of a gap.
    """
    in_order = sorted(self.scales, key=lambda client_id: self.scales[client_id].median)
    scales = [self.scales[client_id] for client_id in in_order]
    num_clients = len(scales)
    if (
        not scales or scales[0].median <= 0
        or self.num_positive < _LEAST_POSITIVE * self.count
    ):
      return []
    highs = np.maximum.accumulate([scale.high for scale in scales])
    lows = np.minimum.accumulate([scale.low for scale in reversed(scales)])[::-1]
    for least in (_LEAST_FACTOR, _LARGE_FACTOR):
      off: set[str] = set()
      for size in np.flatnonzero(highs[:-1] < lows[1:]) + 1:
        below, above = scales[(size - 1) // 2], scales[(size + num_clients - 1) // 2]
        if above.median / below.median >= least:
          off.update(in_order[:size] if 2 * size < num_clients else in_order[size:])
      if 2 * len(off) <= num_clients:
        break
    else:
      return []
    if any(self.scales[client_id].low == self.scales[client_id].high for client_id in off):
      return []  # They may be codes; measurements differ.
    return [client_id for client_id in self.scales if client_id in off]

  def is_far(self, value: float) -> bool:
    """Returns whether a value, which is none of these, can hardly be one of them."""
    if not self.count:
      return False
    gap, spread = max(self.least - value, value - self.largest), self.largest - self.least
    is_other_sign = value < 0 <= self.least
    is_large = abs(value) > _FAR * max(-self.least, self.largest)
    return is_other_sign or is_large or gap > max(spread, _LEAST_GAP) and spread > 0


@dataclasses.dataclass
class NumberColumn:
  """What is known of a column of numbers.

  Attributes:
    is_named: Whether its name says that they may be ids.
    rest: The numbers without `CODES`, which are counted.
  """

  is_named: bool = False
  spread: _Spread = dataclasses.field(default_factory=_Spread)
  rest: _Spread = dataclasses.field(default_factory=_Spread)
  code_counts: collections.Counter[float] = dataclasses.field(default_factory=collections.Counter)
  are_days: bool = True
  count_up: bool = True
  # The clients' numbers by their digest, as long as they may be ids.
  distinct: dict[bytes, np.ndarray] | None = dataclasses.field(default_factory=dict)

  def add(self, client_id: str, column: np.ndarray) -> None:
    values = column[np.isfinite(column)]
    if self.distinct is not None:
      are_ids = not np.any(values % 1) and np.all(values >= 0) and _are_distinct(values)
      if are_ids:  # A copied file has the same numbers.
        self.distinct[hashlib.sha256(values).digest()] = values
      else:
        self.distinct = None
    if len(values):
      self.are_days = self.are_days and _are_days(values)
      self.count_up = self.count_up and _count_up(values)
    is_code = np.isin(values, CODES)
    self.spread.add(client_id, values)
    self.rest.add(client_id, values[~is_code])
    self.code_counts.update(values[is_code].tolist())

  @property
  def are_ids(self) -> bool:
    """Whether all numbers of a client differ, which measurements would hardly do."""
    clients = list((self.distinct or {}).values())
    values = np.concatenate([np.zeros(0), *clients])
    num_shared = len(values) - len(np.unique(values))
    if (
        len(values) < _FEWEST_DISTINCT or self.count_up or self.are_days
        or num_shared > _MOST_SHARED * len(values)
    ):
      return False
    span = np.ptp(values)
    # Of n random numbers, about n^2 / (2 span) are the same as another one.
    num_pairs = sum(len(one) ** 2 for one in clients) if num_shared else len(values) ** 2
    is_even = span >= _WIDE * len(values) and values.std() >= _EVEN * span
    return bool(self.is_named or num_pairs >= 6 * span or is_even)

  @property
  def is_constant(self) -> bool:
    """Whether it has one value everywhere."""
    return self.spread.least == self.spread.largest

  @property
  def is_inexact(self) -> bool:
    """Whether it may have integers that float64 rounds."""
    return _LARGEST_EXACT <= max(-self.spread.least, self.spread.largest) < _LARGEST_INTEGER

  @property
  def codes(self) -> dict[float, int]:
    """What is far from the rest, and may stand for a missing value, and how often it occurs."""
    return {code: count for code, count in self.code_counts.items() if self.rest.is_far(code)}

  @property
  def measured(self) -> _Spread:
    """The `_Spread` of what is surely measured."""
    return self.rest if self.codes else self.spread


def _are_days(values: np.ndarray) -> bool:
  """Returns whether all values are integers such as 20240131, or 202401."""
  if values.max() <= _LAST_DAY // 100:
    values = 100 * values + 1
  if values.min() < _FIRST_DAY or values.max() > _LAST_DAY:
    return False  # As most columns' are.
  days, months = values % 100, values // 100 % 100
  return bool(np.all(
      (values % 1 == 0) & (1 <= days) & (days <= 31) & (1 <= months) & (months <= 12)
  ))


def _are_distinct(values: np.ndarray) -> bool:
  return len(np.unique(values)) == len(values)


def _count_up(values: np.ndarray) -> bool:
  """Returns whether enough values, in any order, are integers without a gap."""
  is_dense = np.ptp(values) == len(values) - 1 >= _FEWEST_IDS - 1 and not np.any(values % 1)
  return bool(is_dense) and _are_distinct(values)
