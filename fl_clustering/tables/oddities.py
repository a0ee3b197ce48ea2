"""What is odd about tables that can be read: no error, but worth a look before results are used."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import itertools
import re
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from fl_clustering.tables import cells
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import problems
from fl_clustering.tables import reader
from fl_clustering.tables import table_format
from fl_clustering.tables import table_options

_MANY_CLASSES = 50
# Integers below the former are exact in float64; larger numbers than the latter are no integers.
_LARGEST_EXACT, _LARGEST_INTEGER = 2.0**53, 2.0**64
# The first and the last day that an integer such as 20240131 may stand for.
_FIRST_DAY, _LAST_DAY = 19000101, 21001231
# What units differ by: 1.8 degrees Fahrenheit are one degree Celsius, and 2.2 pounds a kilogram.
_LEAST_FACTOR = 1.8
# Hardly a client's mean is so many standard deviations from that of others' numbers.
_FAR_DEVIATIONS = 5
# A client with fewer numbers says little of their unit.
_FEWEST_VALUES = 5
# A client with fewer rows may have such measurements.
_FEWEST_IDS = 20
# Of so many measurements, two are the same, if they don't differ by more than this times as much;
# else they are not spread so evenly: the deviation is a smaller share of their range.
_FEWEST_DISTINCT, _WIDE, _EVEN = 50, 200, 0.26
# A column that agrees with the label in fewer rows may do so by chance.
_FEWEST_LABELS, _FIRST_ROWS = 20, 500
# More of the ids may be those of another client, too.
_MOST_SHARED = 0.2
# Units of measurements, nearly all of which are positive, can be compared.
_LEAST_POSITIVE = 0.95
# What people write for a missing value, where it is this often and far from the others.
_CODES = (-9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0)
_FEWEST_CODES = 3
_FAR = 10
_LEAST_GAP = 2
# So many levels, of which a client has two at most, may be two words for one.
_TWO_VOCABULARIES = (3, 4)


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

  def overlaps(self, other: _Scale) -> bool:
    return self.low <= other.high and other.low <= self.high


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
    """Returns the clients, less than half, whose numbers are others' times a factor.

    Most of their numbers, which are positive but for a few, are none of the other clients'.
    """
    medians = sorted(scale.median for scale in self.scales.values())
    if not medians or medians[0] <= 0 or self.num_positive < _LEAST_POSITIVE * self.count:
      return []
    usual = medians[(len(medians) - 1) // 2]

    def is_off(scale: _Scale) -> bool:
      return max(scale.median / usual, usual / scale.median) >= _LEAST_FACTOR

    off = [client_id for client_id, scale in self.scales.items() if is_off(scale)]
    if any(self.scales[client_id].low == self.scales[client_id].high for client_id in off):
      return []  # They may be codes; measurements differ.
    others = [scale for client_id, scale in self.scales.items() if client_id not in off]
    is_apart = not any(self.scales[one].overlaps(other) for one in off for other in others)
    return off if is_apart and len(off) <= len(others) else []

  def is_far(self, value: float) -> bool:
    """Returns whether a value, which is none of these, can hardly be one of them."""
    if not self.count:
      return False
    gap, spread = max(self.least - value, value - self.largest), self.largest - self.least
    is_other_sign = value < 0 <= self.least
    is_large = abs(value) > _FAR * max(-self.least, self.largest)
    return is_other_sign or is_large or gap > max(spread, _LEAST_GAP) and spread > 0


@dataclasses.dataclass
class _Numbers:
  """What is known of a column of numbers.

  Attributes:
    is_named: Whether its name says that they may be ids.
    rest: The numbers without `_CODES`, which are counted.
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
    is_code = np.isin(values, _CODES)
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
  def codes(self) -> dict[float, int]:
    """What is far from the rest, and may stand for a missing value, and how often it occurs."""
    return {code: count for code, count in self.code_counts.items() if self.rest.is_far(code)}

  @property
  def measured(self) -> _Spread:
    """The `_Spread` of what is surely measured."""
    return self.rest if self.codes else self.spread


def _are_days(values: np.ndarray) -> bool:
  """Returns whether all values are integers such as 20240131."""
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


class _LikeLabel:
  """Whether a column says the same as the label: its number, or one value for each class."""

  def __init__(self, are_numbers: bool):
    self._are_numbers = are_numbers
    self._pairs: set[tuple[Any, Any]] = set()
    self._num_rows = 0
    self._may_be = True

  def add(self, column: np.ndarray, labels: Sequence[Any]) -> None:
    for size in (_FIRST_ROWS, len(column)):  # Most columns differ at once.
      if not self._may_be:
        return
      has_cell = ~reader.is_missing(column[:size])
      found = set(itertools.compress(zip(column[:size].tolist(), labels), has_cell))
      self._pairs |= {(_value(cell), label) for cell, label in found}
      values, known = zip(*self._pairs) if self._pairs else ((), ())
      are_paired = len(set(values)) == len(set(known)) == len(self._pairs)
      self._may_be = values == known if self._are_numbers else are_paired
    self._num_rows += len(column)

  def __bool__(self) -> bool:
    return self._may_be and len(self._pairs) > 1 and self._num_rows >= _FEWEST_LABELS


def _value(cell: Any) -> Any:
  return table_format.level_of(cell) if isinstance(cell, str) else cell


def _alike(names: Iterable[str]) -> list[list[str]]:
  """Returns groups of names that differ only in case or spaces."""
  groups = collections.defaultdict(list)
  for name in names:
    groups["".join(name.lower().split())].append(name)
  return [group for group in groups.values() if len(group) > 1]


def _abbreviated(names: Iterable[str]) -> list[list[str]]:
  """Returns pairs of a letter and the one name of three letters or more that begins with it."""
  words = {name.strip().lower(): name for name in names}
  found = []
  for letter in (word for word in words if len(word) == 1 and word.isalpha()):
    longer = [word for word in words if len(word) >= 3 and word.startswith(letter)]
    if len(longer) == 1 and longer[0].isalpha():
      found.append([words[letter], words[longer[0]]])
  return found


def _groups(clients_of: Mapping[str, Sequence[str]]) -> list[list[str]]:
  """Returns groups of clients, the largest first, of which no two have a name in common.

  Args:
    clients_of: The clients that have a level or a class, by its name.
  """
  groups: list[set[str]] = []
  for clients in clients_of.values():
    joined = [group for group in groups if not group.isdisjoint(clients)]
    groups = [group for group in groups if group not in joined] + [set(clients).union(*joined)]
  in_order = list(dict.fromkeys(itertools.chain(*clients_of.values())))
  return sorted(
      ([client for client in in_order if client in group] for group in groups),
      key=len, reverse=True,
  )


def _of_names(what: str, clients_of: Mapping[str, Sequence[str]], of: str = "") -> list[str]:
  """Returns what is odd about the names of levels or classes, by their clients.

  Args:
    what: What they are, in words.
    of: Words for where they are, after a space.
  """
  found = [
      f"the {what} {problems.named(names)}{of} differ only in case or spaces"
      for names in _alike(clients_of)
  ]
  found += [
      f"the {what} {problems.named(names)}{of} may be one" for names in _abbreviated(clients_of)
  ]
  dates = [name for name in clients_of if re.fullmatch(cells.DATE, name)]
  if 0 < len(dates) < len(clients_of):
    found.append(f"the {what} {problems.named(dates)}{of} look like dates, unlike the others")
  counts = collections.Counter(itertools.chain(*clients_of.values()))
  groups = _groups(clients_of)
  # Clients with one level each say something of the client.
  if any(counts[client] > 1 for group in groups[1:] for client in group):
    shown = problems.first_of([problems.listed(group) for group in groups])
    found.append(f"these groups of clients have none of the {what}{of} in common: {shown}")
  elif (
      not found and not dates and len(clients_of) in _TWO_VOCABULARIES
      and max(counts.values()) == 2 and not all(map(cells.is_number, clients_of))
  ):
    found.append(
        f"no client has more than two of the {what} {problems.named(clients_of)}{of}, some of "
        "which may be one"
    )
  return found


class Oddities:
  """What is odd about the rows of all clients, which are added one client at a time."""

  def __init__(self, columns: columns_lib.Columns, options: table_options.TableOptions):
    self._columns = columns
    self._options = options
    self._learns_numbers = options.is_regression or options.label_above is not None
    self._like_label = {name: _LikeLabel(self._learns_numbers) for name in columns.features}
    # What is written in columns of levels or classes.
    self._written: dict[str, set[str]] = collections.defaultdict(set)
    self._numbers = {
        name: _Numbers(columns_lib.may_be_an_id(name)) for name in columns.numbers
    }
    self._clients: list[str] = []
    # The clients of every class, and of every level by column.
    self._classes: dict[str, list[str]] = {}
    self._levels: dict[str, dict[str, list[str]]] = {name: {} for name in columns.categories}
    self._repeated: dict[str, int] = {}

  def add(
      self, client_id: str, table: Mapping[str, np.ndarray], classes: Sequence[str],
      levels: Mapping[str, Iterable[str]],
  ) -> None:
    """Adds a client's columns by name, the classes of its rows, and their levels by column."""
    self._clients.append(client_id)
    written = list(levels)
    label = self._options.label_column
    if label is not None:
      labels = list(map(float, table[label])) if self._learns_numbers else classes
      for name, is_like in self._like_label.items():
        is_like.add(table[name], labels)
      if not self._learns_numbers:
        written.append(label)
    for name in written:
      self._written[name].update(set(table[name]) - {None})
    for name, known in self._numbers.items():
      known.add(client_id, table[name])
    for name in sorted(set(classes)):
      self._classes.setdefault(name, []).append(client_id)
    for column, found in levels.items():
      for level in sorted(found):
        self._levels[column].setdefault(level, []).append(client_id)
    if "id_column" in self._columns.roles:
      ids = table[self._columns.roles["id_column"]]
      self._repeated[client_id] = len(ids) - len(set(ids))

  def texts(self) -> tuple[str, ...]:
    """Returns what is odd, one thing a text."""
    return (
        *self._of_clients(), *self._of_classes(), *self._of_levels(), *self._of_written(),
        *self._of_ids(),
        *self._of_labels(), *self._of_numbers(), *self._of_codes(), *self._of_units(),
    )

  def _leaving_out(self, names: Sequence[str]) -> str:
    """Returns what flags leave columns out, in words, if others are left."""
    if len(names) == len(self._columns.features):
      return ""
    flags = problems.flags(self._options, self._options.repaired(exclude=tuple(names)))
    return f"; {flags} leaves {'it' if len(names) == 1 else 'them'} out"

  def _of_labels(self) -> list[str]:
    names = [name for name, is_like in self._like_label.items() if is_like]
    if not names:
      return []
    says = f"column {names[0]} says" if len(names) == 1 else f"columns {problems.listed(names)} say"
    label = self._options.label_column
    return [f"the {says} the same as the label column {label}{self._leaving_out(names)}"]

  def _of_written(self) -> list[str]:
    found = []
    for column, texts in sorted(self._written.items()):
      by_level = collections.defaultdict(list)
      for text in sorted(filter(cells.is_number, texts)):
        by_level[table_format.level_of(text)].append(text)
      like_codes = [
          (text, level) for level, same in by_level.items() for text in same
          if any(re.fullmatch("[0-9]+[eE][0-9]+|0[0-9]+", one) for one in same)
      ]
      if like_codes:
        text, level = next(one for one in like_codes if one[0] != one[1])
        found.append(
            f"the column {column} has {problems.named([one for one, _ in like_codes])}, which are "
            f"read as numbers, {text} as {level}; write codes with a letter in front"
        )
    return found

  def _of_clients(self) -> list[str]:
    return [
        f"the clients {problems.named(names)} differ only in case or spaces"
        for names in _alike(self._clients)
    ]

  def _of_classes(self) -> list[str]:
    found = _of_names("classes", self._classes)
    alone = [name for name, clients in self._classes.items() if len(clients) == 1]
    if alone and len(self._clients) > 1:
      found.append(f"only one client has the class {problems.named(alone)}" if len(alone) == 1 else
                   f"only one client has each of the classes {problems.named(alone)}")
    if len(self._classes) > _MANY_CLASSES:
      found.append(f"there are {len(self._classes):,} classes")
    return found

  def _of_levels(self) -> list[str]:
    return [
        text for column, levels in self._levels.items()
        for text in _of_names("levels", levels, f" of the column {column}")
    ]

  def _of_ids(self) -> list[str]:
    repeated = {client_id: count for client_id, count in self._repeated.items() if count}
    if not repeated:
      return []
    rows = sum(repeated.values())
    return [
        f"ids in the column {self._columns.roles['id_column']} are not unique: {rows:,} of them "
        f"{'repeats' if rows == 1 else 'repeat'} another one of the same client "
        f"({problems.listed(list(repeated))})"
    ]

  def _of_numbers(self) -> list[str]:
    known = {name: column for name, column in self._numbers.items() if column.spread.count}
    constant = [
        name for name, column in known.items() if column.spread.least == column.spread.largest
    ]
    days = [name for name, column in known.items() if column.are_days and name not in constant]
    inexact = [
        name for name, column in known.items()
        if _LARGEST_EXACT <= max(-column.spread.least, column.spread.largest) < _LARGEST_INTEGER
    ]
    ids = [name for name in self._columns.features if name in known and known[name].are_ids]
    distinct = f"no number occurs twice at a client{self._leaving_out(ids)}"
    kinds = (
        (constant, "has the same value everywhere", "have the same value everywhere"),
        (days, "looks like dates written as integers", "look like dates written as integers"),
        ([name for name, column in known.items() if column.count_up],
         "looks like the rows' ids: every client's numbers have no gap",
         "look like the rows' ids: every client's numbers have no gap"),
        (ids, f"looks like the rows' ids: {distinct}", f"look like the rows' ids: {distinct}"),
        (inexact, "has numbers of 2^53 or more, which are rounded",
         "have numbers of 2^53 or more, which are rounded"),
    )
    return [
        f"the column {names[0]} {one}" if len(names) == 1
        else f"the columns {problems.listed(names)} {several}"
        for names, one, several in kinds if names
    ]

  def _of_codes(self) -> list[str]:
    found = []
    for code in _CODES:
      counts = {
          name: known.codes[code] for name, known in self._numbers.items()
          if known.codes.get(code, 0) >= _FEWEST_CODES
      }
      if counts:
        names, total = list(counts), sum(counts.values())
        has = (
            f"the column {names[0]} has {code:g} in {total:,} rows" if len(names) == 1
            else f"the columns {problems.listed(names)} have {code:g} in {total:,} cells"
        )
        found.append(f"{has}, which looks like a code for a missing value")
    return found

  def _of_units(self) -> list[str]:
    found = []
    for name, known in self._numbers.items():
      off = [] if known.count_up or known.are_ids else known.measured.clients_off()
      if off:
        by_mean = sorted(known.measured.scales.items(), key=lambda item: item[1].mean)
        means = problems.listed([f"{scale.mean:.4g} ({client})" for client, scale in by_mean])
        found.append(
            f"the column {name} may have another unit at {problems.listed(off)}; the clients' "
            f"means are {means}"
        )
    return found
