"""Clients' tables from files: the one reader of all programs.

A folder has one file per client, named after it, of any kind in `reader.KINDS`:

  data/
    amsterdam.csv   boston.csv.gz   chicago.parquet

With `TableOptions.client_column`, one or several tables hold the rows of all clients instead.

Columns are known by name: a file may have them in another order.  Opening reads every file once;
a client's file is read again when its table is asked for, so all of them together may be larger
than memory.
"""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import hashlib
import itertools
import os
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np

from fl_clustering.points import given_clients
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import format_scan
from fl_clustering.tables import number_columns
from fl_clustering.tables import problems
from fl_clustering.tables import reader
from fl_clustering.tables import rows as rows_lib
from fl_clustering.tables import table_format
from fl_clustering.tables import table_options
from fl_clustering.tables import text_files

# What may help with files that a model is used on, in words and as fields of `LaterFiles`.
_HELP: dict[str, tuple[str, dict[str, Any]]] = {
    "unknown_levels": (
        "--unknown_levels=ignore takes rows with such a level as ones without any",
        {"unknown_levels": table_options.IGNORE},
    ),
    "skip_bad_rows": ("--skip_bad_rows leaves such rows out", {"skip_bad_rows": True}),
}
_NO_TITLES = "--skip_lines=0 reads files that begin with the table"
# From a client id and its `ClientTable` to a mask of its rows.
ChooseRows = Callable[[str, "ClientTable"], np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class ClientTable:
  """One client's table, or its views side by side.

  Attributes:
    features: float64 of shape (n, d).
    labels: int64 of shape (n,), positions in the classes, -1 where a row that a model is used on
      has none; None if there is no label column.
    is_test: bool of shape (n,); None if there is no split column.
    rows: The rows' numbers in the client's file, counted from 1, int64 of shape (n,).
    row_ids: None if there is no id column.
  """

  features: np.ndarray
  labels: np.ndarray | None
  is_test: np.ndarray | None
  rows: np.ndarray
  row_ids: tuple[str, ...] | None

  @property
  def has_label(self) -> np.ndarray:
    """Which rows have a label, bool of shape (n,)."""
    assert self.labels is not None
    return self.labels >= 0

  def take(self, chosen: np.ndarray) -> ClientTable:
    """Returns the rows of a mask."""
    return ClientTable(
        self.features[chosen],
        None if self.labels is None else self.labels[chosen],
        None if self.is_test is None else self.is_test[chosen],
        self.rows[chosen],
        None if self.row_ids is None else tuple(itertools.compress(self.row_ids, chosen)),
    )


@dataclasses.dataclass(frozen=True, eq=False)
class ClientTables:
  """The tables of all clients, which are read one at a time.

  Attributes:
    num_rows: The clients' numbers of rows, by client id; what the clients are called.
    digests: A SHA-256 of what is used of every client, in hex, by client id.
    argument: What messages call the folder of the files.
    warnings: What is odd about the rows, in words; nothing with `allow_any_number`.
    unlabelled: The clients without any label, of files that a model is used on.
  """

  num_rows: Mapping[str, int]
  format: table_format.TableFormat
  digests: Mapping[str, str]
  argument: str
  _sources: rows_lib.RowSources
  warnings: tuple[str, ...] = ()
  unlabelled: frozenset[str] = frozenset()

  @property
  def heads(self) -> tuple[columns_lib.Head, ...]:
    """The files' `Head`s, with what was found out by reading."""
    return self._sources.heads

  @property
  def sha256(self) -> str:
    """A digest of all that is used, in hex."""
    digest = hashlib.sha256()
    for client_id, of_client in self.digests.items():
      digest.update(repr(client_id).encode() + bytes.fromhex(of_client))
    return digest.hexdigest()

  @property
  def client_ids(self) -> tuple[str, ...]:
    """The clients' ids, in order."""
    return tuple(self.num_rows)

  def num_bad_rows(self, path: str) -> int:
    """Returns how many rows of a file that a model is used on were left out."""
    return len(self._sources.bad_rows.get(path, ()))

  @property
  def number_columns(self) -> frozenset[str]:
    """The columns that are features as numbers."""
    return frozenset(self.format.columns.numbers) & frozenset(self.format.columns.features)

  @property
  def feature_names(self) -> tuple[str, ...]:
    """The names of the features."""
    return self.format.encoding.feature_names

  def _unfilled(self, client_id: str) -> ClientTable:
    with problems.refusing(self.argument), problems.in_file(self._sources.paths[client_id]):
      return _client_table(self._sources.read(client_id), self.format)

  def read(self, client_id: str) -> ClientTable:
    """Returns the `ClientTable` of a client."""
    table = self._unfilled(client_id)
    return dataclasses.replace(table, features=self.format.encoding.finish(table.features))

  def features(self) -> Mapping[str, np.ndarray]:
    """Returns a mapping from client id to features, which are read when asked for."""
    return _Features(self)

  def filled(self, choose: ChooseRows | None = None) -> ClientTables:
    """Returns the same tables, with missing values filled in as the options say.

    The means come from sums over all clients.

    Args:
      choose: Says which rows count for the means; None for all rows.

    Raises:
      ValueError: If a column has no value.
    """
    options, encoding = self.format.options, self.format.encoding
    if options.missing == table_options.ERROR:
      return self
    sums, counts, num_missing = np.zeros(()), np.zeros((), int), np.zeros((), int)
    for client_id in self.client_ids:
      table = self._unfilled(client_id)
      is_missing = np.isnan(table.features)
      is_counted = ~is_missing
      if choose is not None:
        is_counted &= choose(client_id, table)[:, np.newaxis]
      sums = sums + np.where(is_counted, table.features, 0).sum(axis=0)
      counts = counts + is_counted.sum(axis=0)
      num_missing = num_missing + is_missing.sum(axis=0)
    for position in np.flatnonzero(counts == 0):
      name = encoding.encoded_names[position]
      raise ValueError(
          f"`missing` must leave something to take a mean of, got no value in column {name!r}; "
          f"{problems.LEAVES_OUT}."
      )
    indicators: tuple[str, ...] = ()
    if options.missing == table_options.INDICATOR:
      is_any = num_missing[encoding.first_encoded(encoding.columns)] > 0
      indicators = tuple(name for name, chosen in zip(encoding.columns, is_any) if chosen)
    return self._with_encoding(means=sums / counts, indicators=indicators)

  def standardized(self, choose: ChooseRows) -> ClientTables:
    """Returns the same tables, with features of mean zero and variance one.

    Means and variances come from sums over all clients.  Constant features become zero.
    """
    count, sums, squares = 0, np.zeros(()), np.zeros(())
    for features in self._chosen(choose):
      count += len(features)
      sums = sums + features.sum(axis=0)
    mean = sums / count
    for features in self._chosen(choose):
      squares = squares + ((features - mean) ** 2).sum(axis=0)
    factor = table_format.standardizing_factor(mean, np.sqrt(squares / count))
    return self._with_encoding(shift=mean, factor=factor)

  def _chosen(self, choose: ChooseRows) -> Iterator[np.ndarray]:
    for client_id in self.client_ids:
      table = self.read(client_id)
      yield table.features[choose(client_id, table)]

  def _with_encoding(self, **changes: Any) -> ClientTables:
    encoding = dataclasses.replace(self.format.encoding, **changes)
    return dataclasses.replace(self, format=dataclasses.replace(self.format, encoding=encoding))


class _Features(collections.abc.Mapping):
  """The features of all clients by id, read when asked for."""

  def __init__(self, tables: ClientTables):
    self._tables = tables

  def __getitem__(self, client_id: str) -> np.ndarray:
    return self._tables.read(client_id).features

  def __iter__(self) -> Iterator[str]:
    return iter(self._tables.client_ids)

  def __len__(self) -> int:
    return len(self._tables.client_ids)


def _client_table(rows: rows_lib.Rows, format_: table_format.TableFormat) -> ClientTable:
  """Returns the `ClientTable` of some rows, with NaN for missing features."""
  roles, classes = format_.columns.roles, format_.classes or ()
  labels = is_test = row_ids = None
  if "label_column" in roles:
    number: dict[str | None, int] = {name: i for i, name in enumerate(classes)}
    number[None] = -1
    names = rows_lib.class_names(rows, format_.options)
    for row, name in zip(rows.numbers, names):
      if name not in number:
        raise problems.BadTable(
            table_format.no_level(roles["label_column"], row, str(name), classes)
        )
    labels = np.array([number[name] for name in names], np.int64)
  if "split_column" in roles:
    is_test = rows_lib.is_test(rows, roles["split_column"])
  if "id_column" in roles:
    row_ids = tuple(rows.cells[roles["id_column"]])
  features = format_.encoding.encode(rows.cells, rows.numbers)
  return ClientTable(features, labels, is_test, rows.numbers, row_ids)


def _ignored_levels(
    rows: rows_lib.Rows, format_: table_format.TableFormat
) -> dict[str, set[str]]:
  """Returns the levels of rows that a format does not know and ignores, by column."""
  if not format_.encoding.ignores_unknown:
    return {}
  return {
      name: {cell for cell in set(rows.cells[name]) - {None}
             if table_format.level_of(cell) not in levels}
      for name, levels in format_.encoding.levels.items()
  }


def _scan(
    sources: rows_lib.RowSources, look: Callable[[str, rows_lib.Rows], object]
) -> tuple[dict[str, int], dict[str, str]]:
  """Reads all rows once; returns the clients' numbers of rows and their digests, in hex.

  Args:
    look: Is called with every client's id and rows; raises `BadTable` for what can't be used.
  """
  num_rows, digests = {}, {}
  with sources.facts.settled(), problems.gathered() as part:
    for client_id, path in sources.paths.items():
      with part(path):
        rows = sources.read(client_id)
        with sources.in_lines(path):
          look(client_id, rows)
        num_rows[client_id] = len(rows.numbers)
        digests[client_id] = rows.digest().hex()
  sources.check_agreement()
  return num_rows, digests


def unnamed_heads(
    paths: Mapping[str, str], options: table_options.TableOptions, argument: str
) -> list[columns_lib.Head]:
  """Returns the `Head`s of files, whose names are not known yet."""
  reader.check_memory(paths.values(), options, argument)
  heads = []
  with problems.gathered() as part:
    for path in paths.values():
      with part(path):
        heads.append(reader.read_head(path, options))
  return heads


def read_heads(
    paths: Mapping[str, str], options: table_options.TableOptions, argument: str,
    given: table_options.TableOptions | None = None,
) -> dict[str, columns_lib.Head]:
  """Returns the `Head`s of files, with names, under the keys of their paths.

  Args:
    given: The options that these are a repair of, which may leave out lines of names; or None.
  """
  unnamed = unnamed_heads(paths, options, argument)
  try:
    return dict(zip(paths, columns_lib.with_names(unnamed, options.header)))
  except problems.BadTable:
    text_files.check_no_row_left_out(unnamed, given or options)
    raise


def _numbers_lost(
    heads: Sequence[columns_lib.Head], findings: Sequence[problems.Finding],
    categories: Sequence[str],
) -> frozenset[str]:
  """Returns the columns of numbers, in some files only, that findings must not leave out.

  They are those that most files have, and those in place of which a file has another one.
  """
  facts, first = problems.ColumnFacts(), set(heads[0].known_names)
  names = {name for finding in findings for name in finding.left_out if name not in categories}
  names -= first.intersection(*(head.known_names for head in heads))
  names = {name for name in names if not columns_lib.is_like_an_id(name)}
  for head in heads:
    own = tuple(name for name in head.known_names if name in names)
    if own:
      with contextlib.suppress(problems.BadTable):  # Of which others tell.
        reader.read(head, columns_lib.Columns(own, (), {}), needed=(), facts=facts)
  numbers = names & facts.mostly_numbers
  kept = {
      name for name in numbers
      if 2 * sum(name in head.known_names for head in heads) > len(heads)
  }
  for head in heads:
    lacked = numbers & first - set(head.known_names)
    further = numbers & set(head.known_names) - first
    if lacked and further:
      kept |= lacked | further
  return frozenset(kept)


def _of_doubts(doubts: Mapping[str, str]) -> tuple[str, ...]:
  """Returns a warning of `RowSources.doubts`, if there are some."""
  if not doubts:
    return ()
  path, *others = doubts
  return (
      f"{path!r}, {doubts[path]} is read with a decimal point, but may have one between "
      f"thousands{problems.also(others)}; --decimal=. or --thousands=. says which",
  )


def open_heads(
    heads: Mapping[str, columns_lib.Head], options: table_options.TableOptions, argument: str
) -> ClientTables:
  """Looks at clients' files, and returns what reads them, without filling in missing values.

  Args:
    heads: What `read_heads` returned.
    argument: What messages call the folder that the files are in.

  Raises:
    BadTable: If a file can't be used, or its columns differ from the others'.
    OSError: If a file can't be read.
  """
  try:
    columns = columns_lib.agree(list(heads.values()), options)
  except problems.BadTable as e:
    if not options.allow_any_number:
      e.numbers = _numbers_lost(list(heads.values()), e.findings, options.categories)
    raise
  sources = rows_lib.RowSources(heads, columns, options)
  scan = format_scan.FormatScan(columns, options)
  num_rows, digests = _scan(sources, scan.add)
  paths = list(sources.paths.values())
  with sources.facts.settled():
    with problems.in_file(paths[0]):
      scan.check_values()
    with problems.in_file(os.path.commonpath(paths)):
      scan.check_classes()
  warnings = (*_of_doubts(sources.doubts), *scan.warnings(sources.heads, digests))
  format_ = scan.format(sources.decimal)
  return ClientTables(num_rows, format_, digests, argument, sources, warnings)


def _paths(
    directory: str, options: table_options.TableOptions, argument: str
) -> dict[str, str]:
  what = "client" if options.client_column is None else "table"
  return given_clients.sorted_by_id(reader.paths(directory, argument, what))


def open_folder(
    directory: str, options: table_options.TableOptions, argument: str = "data_dir"
) -> ClientTables:
  """Looks at the files of a folder, and returns what reads them, as `open_heads` does.

  Args:
    argument: What messages call the folder.

  Raises:
    ValueError: If files can't be used.  The message says all that is wrong, and which flags
      help.
    OSError: If a file can't be read.
  """
  paths = _paths(directory, options, argument)
  is_one = len(paths) == 1 and options.client_column is None

  def open_with(tried: table_options.TableOptions) -> ClientTables:
    with problems.gathered() as part:
      with part():
        reader.check_kinds([directory], options.allow_any_number)
      with part():
        heads = read_heads(paths, tried, argument, options)
        columns_lib.check_known(list(heads.values()), tried)
        if is_one:
          columns_lib.check_no_clients(next(iter(heads.values())), tried)
        opened = open_heads(heads, tried, argument)
        text_files.check_no_row_left_out(opened.heads, options)
    return opened

  hints = (columns_lib.SEVERAL_CLIENTS,) if is_one and not options.allow_any_number else ()
  return problems.open_tables(open_with, options, argument, hints)


def _notes(
    sources: rows_lib.RowSources, unused: tuple[str, ...], ignored: Mapping[str, set[str]],
    unlike: Mapping[str, tuple[float, list[str]]], options: table_options.TableOptions,
) -> tuple[str, ...]:
  """Returns what a model does not use of files, or is unlike its own, in words."""
  found = [*_of_doubts(sources.doubts), *format_scan.told_of_reading(sources.heads, options)]
  if unused:
    found.append(f"columns that the model does not have are not used: {problems.named(unused)}")
  found += [
      f"the column {name!r} has levels that the model does not know: "
      f"{problems.named(sorted(levels))}"
      for name, levels in ignored.items() if levels
  ]
  found += [
      f"the column {name} may have another unit: its mean is {problems.listed(means)}, and was "
      f"{mean:.4g} in the run" for name, (mean, means) in unlike.items()
  ]
  for path, bad in sources.bad_rows.items():
    if bad:
      count = "1 row is" if len(bad) == 1 else f"{len(bad):,} rows are"
      found.append(f"{count} left out of {path!r}: {problems.first_of(list(bad.values()))}")
  return tuple(found)


def open_files_for(
    format_: table_format.TableFormat, paths: Mapping[str, str], argument: str = "data_dir",
    later: table_options.LaterFiles = table_options.LaterFiles(),
) -> ClientTables:
  """Looks at files that a model is to be used on.

  Columns with a role, such as the labels, may be absent from all files or some of them, and the
  cells of labels and ids may be empty.  `warnings` tell of what is not used.

  Args:
    paths: A mapping from client id to path; with `client_column` from anything.
    argument: What messages call the folder that the files are in.
    later: How the files may differ from those of the model.

  Raises:
    ValueError: If a file can't be used or lacks a column of the model, or a level or class is
      unknown.
    OSError: If a file can't be read.
  """

  def open_with(**changes: Any) -> ClientTables:
    return _open_files_for(format_, paths, argument, dataclasses.replace(later, **changes))

  with problems.refusing(argument, (*table_options.OF_FILES, *_HELP)):
    try:
      return open_with()
    except problems.BadTable as e:
      problems.check_mark(
          e, lambda mark: open_with(options={**later.options, "thousands": mark})
      )
      helps = list(_HELP.values())
      if format_.options.skip_lines and "skip_lines" not in later.options:
        helps.insert(0, (_NO_TITLES, {"options": {**later.options, "skip_lines": 0}}))
      for hint, change in helps if not format_.options.allow_any_number else ():
        with contextlib.suppress(problems.BadTable):
          open_with(**change)
          if hint == _NO_TITLES:  # Whatever else is said is of other lines.
            e.findings = tuple(dataclasses.replace(one, hints=(hint,)) for one in e.findings)
            break
          e.findings = (*e.findings[:-1], e.findings[-1].with_hint(hint))
      raise


def _open_files_for(
    format_: table_format.TableFormat, paths: Mapping[str, str], argument: str,
    later: table_options.LaterFiles,
) -> ClientTables:
  options = format_.options.for_later_files(later.options)
  encoding = dataclasses.replace(
      format_.encoding, ignores_unknown=later.unknown_levels == table_options.IGNORE
  )
  format_ = dataclasses.replace(format_, options=options, encoding=encoding)
  heads = read_heads(paths, options, argument)
  having = {
      role: [name in head.known_names for head in heads.values()]
      for role, name in format_.columns.roles.items()
  }
  format_ = format_.without_roles({
      role for role, have in having.items()
      if not any(have) or role == "split_column" and not all(have)
  })
  options = format_.options
  unused = columns_lib.check_later(list(heads.values()), format_.columns, options)
  if format_.decimal == ",":  # Files that leave their mark open have it too.
    heads = {
        key: dataclasses.replace(head, style=dataclasses.replace(head.style, likely=","))
        for key, head in heads.items()
    }
  if "skip_lines" not in later.options and not options.allow_any_number:
    for head in heads.values():
      text_files.check_no_row_skipped(head, format_.columns.numbers)
  known = {} if options.allow_any_number else later.moments or encoding.moments
  sources = rows_lib.RowSources(
      heads, format_.columns, options, format_, later.skip_bad_rows, known
  )
  unlabelled: set[str] = set()
  ignored: dict[str, set[str]] = {}
  unlike: dict[str, tuple[float, list[str]]] = {}
  filled: dict[str, list[int]] = {}

  def look(client_id: str, rows: rows_lib.Rows) -> None:
    table = _client_table(rows, format_)  # Checks labels, levels and splits.
    if table.labels is None or not table.has_label.any():
      unlabelled.add(client_id)
    for name, levels in _ignored_levels(rows, format_).items():
      ignored.setdefault(name, set()).update(levels)
    filled[client_id] = rows_lib.filled_rows(rows, format_.columns, options)
    for name in filter(known.__contains__, format_.columns.numbers):
      column = np.asarray(rows.cells[name], np.float64)
      mean = number_columns.known_mean(column, known[name])
      if mean is not None:
        place = client_id if options.client_column else sources.paths[client_id]
        own = float(np.nanmean(column))
        unlike.setdefault(name, (mean, []))[1].append(f"{own:.4g} in {place!r}")

  num_rows, digests = _scan(sources, look)
  return ClientTables(
      num_rows, format_, digests, argument, sources,
      (*rows_lib.of_filled_rows(filled), *_notes(sources, unused, ignored, unlike, options)),
      frozenset(unlabelled),
  )


def open_folder_for(
    format_: table_format.TableFormat, directory: str, argument: str = "data_dir",
    later: table_options.LaterFiles = table_options.LaterFiles(),
) -> ClientTables:
  """Looks at the files of a folder that a model is to be used on, as `open_files_for` does."""
  paths = _paths(directory, format_.options, argument)
  with problems.refusing(argument, ()):
    reader.check_kinds([directory], format_.options.allow_any_number)
  return open_files_for(format_, paths, argument, later)
