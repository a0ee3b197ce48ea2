"""What the rows of all clients say of their format, and what is odd about them."""

from __future__ import annotations

import collections
import os
from typing import Collection, Iterator, Mapping

import numpy as np

from fl_clustering.tables import cells
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import oddities
from fl_clustering.tables import problems
from fl_clustering.tables import reader
from fl_clustering.tables import rows as rows_lib
from fl_clustering.tables import table_format
from fl_clustering.tables import table_options
from fl_clustering.tables import text_lines

# As many numbers may be classes even if each occurs only once.
_MANY_NUMBERS = 20
# Reads numbers with a unit, whatever their marks.
_ANY_STYLES = tuple(cells.Style(thousands=mark, strips_units=True) for mark in cells.THOUSANDS)


def told_of_reading(
    heads: Collection[columns_lib.Head], options: table_options.TableOptions
) -> Iterator[str]:
  """Yields texts about encodings that were found out, and about what is not read as it stands."""
  found = [os.path.basename(head.path) for head in heads if head.encoding == text_lines.ANSI]
  if found and options.encoding is None:
    yield f"text that is no UTF-8 is read as cp1252: {problems.listed(found)}"
  empty = [f"{len(h.separators):,} in {os.path.basename(h.path)}" for h in heads if h.separators]
  if empty:
    yield f"lines with nothing but separators are no rows: {problems.listed(empty)}"
  others = [
      os.path.basename(head.path) for head in heads
      if head.first_line is not None and head.separator != ","
      and head.style.decimal is not None and head.style.decimal == options.thousands
  ]
  if others:
    yield (
        f"--thousands={options.thousands} is not for files where numbers have it as their decimal "
        f"mark: {problems.listed(others)}"
    )
  words: collections.Counter[str] = collections.Counter()
  for head in heads:
    words.update(dict(head.words))
  if words:
    places = problems.listed([f"{count:,} in the column {name}" for name, count in words.items()])
    yield f"cells with {problems.named(cells.WORDS)} are read as missing: {places}"


class FormatScan:
  """What the rows of all clients say of the format: levels, classes, and columns without values."""

  def __init__(self, columns: columns_lib.Columns, options: table_options.TableOptions):
    self._columns = columns
    self._options = options
    self._levels: dict[str, set[str]] = {name: set() for name in columns.categories}
    self._classes: set[str] = set()
    self._num_labels = 0
    self._oddities = None if options.allow_any_number else oddities.Oddities(columns, options)
    self._num_values = dict.fromkeys(columns.features, 0)
    # The rows without values, by client.
    self._filled: dict[str, list[int]] = {}
    # Where few cells of a column have a value, or none, in words.
    self._sparse: dict[str, list[str]] = {}

  def add(self, client_id: str, rows: rows_lib.Rows) -> None:
    """Adds what a client's rows say; `BadTable` if a split can't be used."""
    has_classes = self._options.label_column is not None
    labels = rows_lib.class_names(rows, self._options) if has_classes else []
    for name in self._columns.features:
      num_values = int(np.count_nonzero(~reader.is_missing(rows.cells[name])))
      self._num_values[name] += num_values
      if 2 * num_values < len(rows.numbers):
        self._sparse.setdefault(name, []).append(
            f"{client_id} (a value in {num_values:,} of {len(rows.numbers):,} rows)"
        )
    self._filled[client_id] = rows_lib.filled_rows(rows, self._columns, self._options)
    levels = {
        name: {table_format.level_of(cell) for cell in rows.cells[name] if cell is not None}
        for name in self._levels
    }
    for name, found in levels.items():
      self._levels[name] |= found
    self._classes.update(labels)
    self._num_labels += len(labels)
    if self._options.split_column is not None:
      rows_lib.is_test(rows, self._options.split_column)
    if self._oddities is not None:
      self._oddities.add(client_id, rows.cells, labels, levels)

  def format(self, decimal: str | None) -> table_format.TableFormat:
    """Returns the `TableFormat` of files with a decimal mark."""
    levels = {name: table_format.sorted_levels(found) for name, found in self._levels.items()}
    has_classes = self._options.label_column is not None
    return table_format.TableFormat(
        self._options,
        self._columns,
        table_format.FeatureEncoding(self._columns.features, levels),
        table_format.sorted_levels(self._classes) if has_classes else None,
        decimal,
    )

  def warnings(
      self, heads: Collection[columns_lib.Head], digests: Mapping[str, str]
  ) -> tuple[str, ...]:
    """Returns what is odd about the rows of files, in words; `digests` are of every client's."""
    if self._oddities is None:
      return ()
    copies: dict[str, list[str]] = {}
    for client_id, digest in digests.items():
      copies.setdefault(digest, []).append(client_id)
    return (*told_of_reading(heads, self._options), *(
        f"the files of the clients {problems.named(same)} hold the same rows in all columns that "
        "are used" for same in copies.values() if len(same) > 1
    ), *(
        f"most cells of the column {name} are empty, and filled in, at {problems.listed(clients)}"
        for name, clients in self._sparse.items()
    ), *rows_lib.of_filled_rows(self._filled), *self._oddities.texts())

  def check_classes(self) -> None:
    """Raises `BadTable` if the classes are numbers of which hardly any two are equal."""
    count = 0 if self._options.allow_any_number else len(self._classes)
    if count <= _MANY_NUMBERS or 2 * count <= self._num_labels:
      return
    others = [name for name in self._classes if not cells.is_number(name)]
    dressed = [
        name for name in others
        if any(not np.isnan(style.number_of(name)) for style in _ANY_STYLES)
    ]
    if others and 2 * (len(others) - len(dressed)) < count:
      raise problems.BadTable(
          f"column {self._options.label_column!r} has {count:,} different labels in "
          f"{self._num_labels:,} rows, most of them numbers; {min(others)!r} is none"
      )
    if not others:
      raise problems.BadTable(
          f"column {self._options.label_column!r} has {count:,} different numbers in "
          f"{self._num_labels:,} rows, which are no classes"
      )

  def check_values(self) -> None:
    """Raises `BadTable` if a mean is needed of a column that has no value at any client."""
    empty = tuple(name for name, count in self._num_values.items() if not count)
    if empty and self._options.missing != table_options.ERROR:
      raise problems.BadTable(
          f"column {empty[0]!r} is empty everywhere{problems.also(empty[1:])}",
          hints=(problems.LEAVES_OUT,), exclude=empty,
      )
