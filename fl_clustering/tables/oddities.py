"""What is odd about tables that can be read: no error, but worth a look before results are used."""

from __future__ import annotations

import collections
import itertools
import re
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from fl_clustering.tables import cells
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import number_columns
from fl_clustering.tables import problems
from fl_clustering.tables import reader
from fl_clustering.tables import table_format
from fl_clustering.tables import table_options

_MANY_CLASSES = 50
# Fewer cells may be so by chance.
_FEWEST_CODES = 3
# A column that agrees with the label in fewer rows may do so by chance.
_FEWEST_LABELS, _FIRST_ROWS = 20, 500
# So many levels, of which a client has two at most, may be two words for one.
_TWO_VOCABULARIES = (3, 4)


class _LikeLabel:
  """Whether a column says the same as the label: one value for each class."""

  def __init__(self) -> None:
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
      self._may_be = len(set(values)) == len(set(known)) == len(self._pairs)
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


def _of_names(
    one: str, what: str, clients_of: Mapping[str, Sequence[str]], of: str = ""
) -> list[str]:
  """Returns what is odd about the names of levels or classes, by their clients.

  Args:
    one: What one of them is, in words.
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
    look = (
        f"{one} {dates[0]!r}{of} looks like a date" if len(dates) == 1
        else f"{what} {problems.named(dates)}{of} look like dates"
    )
    found.append(f"the {look}, unlike the others")
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


def of_classes(clients_of: Mapping[str, Sequence[str]]) -> list[str]:
  """Returns what is odd about classes, by the clients of each, one thing a text."""
  found = _of_names("class", "classes", clients_of)
  alone = [name for name, clients in clients_of.items() if len(clients) == 1]
  if alone and len(set(itertools.chain(*clients_of.values()))) > 1:
    found.append(f"only one client has the class {problems.named(alone)}" if len(alone) == 1 else
                 f"only one client has each of the classes {problems.named(alone)}")
  if len(clients_of) > _MANY_CLASSES:
    found.append(f"there are {len(clients_of):,} classes")
  return found


class Oddities:
  """What is odd about the rows of all clients, which are added one client at a time."""

  def __init__(self, columns: columns_lib.Columns, options: table_options.TableOptions):
    self._columns = columns
    self._options = options
    self._like_label = {name: _LikeLabel() for name in columns.features}
    # What is written in columns of levels or classes.
    self._written: dict[str, set[str]] = collections.defaultdict(set)
    self._numbers = {
        name: number_columns.NumberColumn(columns_lib.may_be_an_id(name))
        for name in columns.numbers
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
      for name, is_like in self._like_label.items():
        is_like.add(table[name], classes)
      written.append(label)
    for name in written:
      self._written[name].update(set(table[name]) - {None})
    for name, known in self._numbers.items():
      known.add(client_id, np.array(table[name], np.float64))
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
        *self._of_clients(), *of_classes(self._classes), *self._of_levels(), *self._of_written(),
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

  def _of_levels(self) -> list[str]:
    return [
        text for column, levels in self._levels.items()
        for text in _of_names("level", "levels", levels, f" of the column {column}")
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
    constant = [name for name, column in known.items() if column.is_constant]
    days = [name for name, column in known.items() if column.are_days and name not in constant]
    inexact = [name for name, column in known.items() if column.is_inexact]
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
    for code in number_columns.CODES:
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
