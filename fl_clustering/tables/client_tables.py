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
import re
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from fl_clustering.points import given_clients
from fl_clustering.tables import cells
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import label_scale
from fl_clustering.tables import oddities
from fl_clustering.tables import problems
from fl_clustering.tables import reader
from fl_clustering.tables import table_format
from fl_clustering.tables import table_options
from fl_clustering.tables import text_files

_TRAIN_OR_TEST = ("train", "test")
# As many numbers may be classes even if each occurs only once.
_MANY_NUMBERS = 20
# More integers than that, with fewer rows for each on average, are rather to be learned.
_MOST_CLASSES, _ROWS_PER_CLASS = 50, 5
# From a client id and its `ClientTable` to a mask of its rows.
ChooseRows = Callable[[str, "ClientTable"], np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
  """Some rows of a file, as they stand there.

  Attributes:
    cells: Columns by name, as `reader.read` returns them.
    numbers: The rows' numbers in the file, counted from 1.
  """

  cells: Mapping[str, np.ndarray]
  numbers: np.ndarray

  def take(self, chosen: np.ndarray) -> Rows:
    """Returns the rows of a mask."""
    columns = {name: column[chosen] for name, column in self.cells.items()}
    return Rows(columns, self.numbers[chosen])

  def digest(self) -> bytes:
    """Returns a digest of the cells, whatever the order of the columns."""
    digest = hashlib.sha256()
    for name, column in sorted(self.cells.items()):
      digest.update(repr(name).encode())
      is_text = column.dtype == object
      digest.update(repr(column.tolist()).encode() if is_text else column.tobytes())
    return digest.digest()


class RowSources:
  """Every client's rows, which are read when asked for.

  Attributes:
    paths: The path of every client's file by client id, in the order of the clients.
    argument: What messages call the folder of the files.
    facts: What the cells that were read are like.
    bad_rows: Why rows can't be used, and so were left out, by their numbers, by file.
  """

  def __init__(
      self, heads: Mapping[str, columns_lib.Head], columns: columns_lib.Columns,
      options: table_options.TableOptions, argument: str,
      model: table_format.TableFormat | None = None, skip_bad_rows: bool = False,
  ):
    """Reads the files that clients share.

    Args:
      heads: A mapping from client id to `Head`; with `client_column` from anything.
      columns: The `Columns` that are used.
      options: `TableOptions`.
      argument: What messages call the folder that the files are in.
      model: That of the model that the files are for; what has a role in them may then be missing.
      skip_bad_rows: Whether rows that can't be used, or not by the model, are left out.
    """
    self.argument = argument
    self.facts = problems.ColumnFacts()
    self.bad_rows: dict[str, dict[int, str]] = {}
    self._model = model
    self._skips_bad_rows = skip_bad_rows
    self._heads = dict(heads)
    self._columns = columns
    self._options = options
    # Rows of private algorithms need no names.
    self._needed = {
        name for role, name in columns.roles.items()
        if role == "client_column"
        or model is None and (role != "id_column" or not options.allow_any_number)
    }
    if options.missing == table_options.ERROR and not options.allow_any_number:
      self._needed |= set(columns.features)
    self._shared: Rows | None = None
    if options.client_column is None:
      self.paths = {client_id: head.path for client_id, head in heads.items()}
    else:
      self.paths = self._share(options.client_column)

  def refusing(self, client_id: str) -> Any:
    """Returns a context that turns a `BadTable` into a ValueError that names the file."""
    return problems.refusing(self.argument, self.paths[client_id])

  def read(self, client_id: str) -> Rows:
    """Returns the `Rows` of a client; a ValueError says what can't be used."""
    if self._shared is not None:
      owners = self._shared.cells[self._options.client_column or ""]
      return self._shared.take(owners == client_id)
    with self.refusing(client_id):
      rows = self._known(self._read(client_id), self.paths[client_id])
      if not len(rows.numbers) and not self._options.allow_any_number:
        raise problems.BadTable("it has no rows")
      return rows

  def _read(self, key: str) -> Rows:
    # What is found out of a file, such as its decimal mark, need not be found again.
    head, columns = self._heads[key], self._columns
    absent = [name for name in columns.roles.values() if name not in head.known_names]
    kept = {role: name for role, name in columns.roles.items() if name not in absent}
    self._heads[key], table, numbers = reader.read(
        head, dataclasses.replace(columns, roles=kept), self._needed,
        self._options.allow_any_number, self.facts,
        self.bad_rows.setdefault(head.path, {}) if self._skips_bad_rows else None,
    )
    return Rows({**table, **{name: np.full(len(numbers), None) for name in absent}}, numbers)

  def _known(self, rows: Rows, path: str) -> Rows:
    """Returns rows without those that the model can't use, if they are to be left out."""
    if self._model is None or not self._skips_bad_rows:
      return rows
    bad = _unknown(rows, self._model)
    self.bad_rows[path].update(bad)
    known = rows.take(~np.isin(rows.numbers, list(bad)))
    if len(rows.numbers) and not len(known.numbers):
      raise problems.BadTable(f"it has no row that can be used: {next(iter(bad.values()))}")
    return known

  def _share(self, client_column: str) -> dict[str, str]:
    """Reads files with the rows of several clients, which stay in memory; returns `paths`."""
    files = {}
    with self.settled(), problems.gathered(self.argument) as part:
      for key, head in self._heads.items():
        with part(), problems.refusing(self.argument, head.path):
          files[head.path] = self._known(self._read(key), head.path)
    names = next(iter(files.values())).cells
    joined = Rows(
        {name: np.concatenate([rows.cells[name] for rows in files.values()]) for name in names},
        np.concatenate([rows.numbers for rows in files.values()]),
    )
    if not len(joined.numbers):
      with problems.refusing(self.argument, next(iter(files))):
        raise problems.BadTable("it has no rows")
    owners = joined.cells[client_column]
    files_of_rows = np.repeat(list(files), [len(rows.numbers) for rows in files.values()])
    self._shared = joined
    return given_clients.sorted_by_id({
        client_id: str(files_of_rows[owners == client_id][0]) for client_id in set(owners)
    })

  @property
  def heads(self) -> tuple[columns_lib.Head, ...]:
    """The files' `Head`s, with what was found out by reading."""
    return tuple(self._heads.values())

  @property
  def decimal(self) -> str | None:
    """The decimal mark of all text files; None if they differ, or there are none."""
    found = {head.style.decimal for head in self.heads if head.style.decimal is not None}
    return found.pop() if len(found) == 1 else None

  def check_agreement(self) -> None:
    """Raises `UnusableTables` if files that can be read don't mean the same by their numbers."""
    with problems.refusing(self.argument, None):
      if self._options.strip_units:
        self.facts.check_units()
    commas = [f"{head.path!r} has" for head in self.heads if head.style.decimal == ","]
    commas += ["the model's files have" for head in self.heads if head.style.likely == ","]
    if not commas or not self._options.style.is_open:
      return
    with problems.gathered(self.argument) as part:
      for head in self.heads:
        with part(), problems.refusing(self.argument, head.path):
          unclear = reader.unclear_point(head, self._columns.numbers)
          if unclear is not None:
            raise problems.BadTable(
                f"{unclear} may have a decimal point or one between thousands, as {commas[0]} "
                "decimal commas", hints=("--decimal gives all files one decimal mark",),
            )

  @contextlib.contextmanager
  def settled(self) -> Iterator[None]:
    """Gives errors the hints that need a look at all files, which are read in this context."""
    try:
      yield
    except problems.UnusableTables as e:
      raise self.facts.settle(e, self.argument) from e


@dataclasses.dataclass(frozen=True, eq=False)
class ClientTable:
  """One client's table.

  Attributes:
    features: float64 of shape (n, d).
    labels: int64 of shape (n,), positions in the classes, -1 where a row that a model is used on
      has none; None if there is no label column.  Of a regression float64, standardized as soon as
      the format says how, and NaN for none.
    is_test: bool of shape (n,); None if there is no split column.
    rows: The rows' numbers in the client's file, counted from 1, int64 of shape (n,).
    row_ids: A tuple of n texts; None if there is no id column.
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
    return self.labels >= 0 if self.labels.dtype.kind == "i" else np.isfinite(self.labels)

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
    format: The `TableFormat`.
    digests: A SHA-256 of what is used of every client, in hex, by client id.
    warnings: What is odd about the rows, in words; nothing with `allow_any_number`.
    unlabelled: The clients without any label, of files that a model is used on.
  """

  num_rows: Mapping[str, int]
  format: table_format.TableFormat
  digests: Mapping[str, str]
  _sources: RowSources
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
    rows = self._sources.read(client_id)
    with self._sources.refusing(client_id):
      return _client_table(rows, self.format)

  def read(self, client_id: str) -> ClientTable:
    """Returns the `ClientTable` of a client."""
    table = self._unfilled(client_id)
    features = self.format.encoding.finish(table.features)
    labels, scale = table.labels, self.format.label_scale
    if labels is not None and scale is not None:
      labels = scale.standardized(labels)
    return dataclasses.replace(table, features=features, labels=labels)

  def features(self) -> Mapping[str, np.ndarray]:
    """Returns a mapping from client id to features, which are read when asked for."""
    return _Features(self)

  def filled(self, choose: ChooseRows | None = None) -> ClientTables:
    """Returns the same tables, with missing values filled in as the options say.

    The means come from sums over all clients.

    Args:
      choose: A function from a client id and its `ClientTable` to the rows that count for the
        means, bool of shape (n,); None for all rows.

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

    Means and variances come from sums over all clients.  Constant features become zero.  The labels
    of a regression are standardized likewise.

    Args:
      choose: As for `filled`.

    Raises:
      ValueError: If all labels of a regression are the same.
    """
    if self.format.options.is_regression:
      return self._with_label_scale(choose)._with_standard_features(choose)
    return self._with_standard_features(choose)

  def _with_label_scale(self, choose: ChooseRows) -> ClientTables:
    count, label_sum, squares = 0, 0.0, 0.0
    for table, chosen in self._chosen(choose):
      assert table.labels is not None
      count += int(chosen.sum())
      label_sum += float(table.labels[chosen].sum())
    mean = label_sum / count
    for table, chosen in self._chosen(choose):
      assert table.labels is not None
      squares += float(((table.labels[chosen] - mean) ** 2).sum())
    factor = table_format.standardizing_factor(np.array(mean), np.array(np.sqrt(squares / count)))
    if not factor:
      raise ValueError(
          "`label_column` must hold different numbers in the training rows of a regression, got "
          f"{mean:g} everywhere."
      )
    scale = label_scale.LabelScale(mean, float(1 / factor))
    return dataclasses.replace(self, format=dataclasses.replace(self.format, label_scale=scale))

  def _with_standard_features(self, choose: ChooseRows) -> ClientTables:
    count, sums, squares = 0, np.zeros(()), np.zeros(())
    for table, chosen in self._chosen(choose):
      count += int(chosen.sum())
      sums = sums + table.features[chosen].sum(axis=0)
    mean = sums / count
    for table, chosen in self._chosen(choose):
      squares = squares + ((table.features[chosen] - mean) ** 2).sum(axis=0)
    factor = table_format.standardizing_factor(mean, np.sqrt(squares / count))
    return self._with_encoding(shift=mean, factor=factor)

  def _chosen(self, choose: ChooseRows) -> Iterator[tuple[ClientTable, np.ndarray]]:
    """Yields every client's `ClientTable` and the mask of the rows that count."""
    for client_id in self.client_ids:
      table = self.read(client_id)
      yield table, choose(client_id, table)

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


def _client_table(rows: Rows, format_: table_format.TableFormat) -> ClientTable:
  """Returns the `ClientTable` of some rows, with NaN for missing features."""
  roles, classes = format_.columns.roles, format_.classes or ()
  labels = is_test = row_ids = None
  if "label_column" in roles and format_.options.is_regression:
    labels = np.asarray(rows.cells[roles["label_column"]], np.float64)  # None becomes NaN.
  elif "label_column" in roles:
    number: dict[str | None, int] = {name: i for i, name in enumerate(classes)}
    number[None] = -1
    names = _class_names(rows, format_.options)
    for row, name in zip(rows.numbers, names):
      if name not in number:
        raise problems.BadTable(
            table_format.no_level(roles["label_column"], row, str(name), classes)
        )
    labels = np.array([number[name] for name in names], np.int64)
  if "split_column" in roles:
    is_test = _is_test(rows, roles["split_column"])
  if "id_column" in roles:
    row_ids = tuple(rows.cells[roles["id_column"]])
  features = format_.encoding.encode(rows.cells, rows.numbers)
  return ClientTable(features, labels, is_test, rows.numbers, row_ids)


def _class_names(rows: Rows, options: table_options.TableOptions) -> list[Any]:
  """Returns the names of the classes of rows, None where a label is missing.

  Raises:
    BadTable: If a label is no number but has to be.
  """
  names = [
      None if text is None else table_format.level_of(text)
      for text in rows.cells[options.label_column or ""]
  ]
  limit = options.label_above
  if limit is None:
    return names
  for row, name in zip(rows.numbers, names):
    if name is not None and not cells.is_number(name):
      raise problems.BadTable(_no_number(row, options, name))
  return [
      None if name is None else f"{'>' if float(name) > limit else '<='} {limit:g}"
      for name in names
  ]


def _no_number(row: int, options: table_options.TableOptions, name: str) -> str:
  return (
      f"row {row}, column {options.label_column!r} must be a number with --label_above, got "
      f"{name!r}"
  )


def _unknown(rows: Rows, format_: table_format.TableFormat) -> dict[int, str]:
  """Returns what is wrong with rows that have an unknown level or class, by their numbers."""
  options, found = format_.options, {}
  known = {} if format_.encoding.ignores_unknown else dict(format_.encoding.levels)
  has_classes = not options.is_regression and options.label_above is None
  if options.label_column is not None and has_classes:
    known[options.label_column] = format_.classes or ()
  for name, levels in known.items():
    for row, cell in zip(rows.numbers.tolist(), rows.cells[name]):
      if cell is not None and table_format.level_of(cell) not in levels:
        found[row] = table_format.no_level(name, row, cell, levels)
  if options.label_above is not None:
    for row, cell in zip(rows.numbers.tolist(), rows.cells[options.label_column or ""]):
      if cell is not None and not cells.is_number(cell):
        found[row] = _no_number(row, options, cell)
  return found


def _ignored_levels(rows: Rows, format_: table_format.TableFormat) -> dict[str, set[str]]:
  """Returns the levels of rows that a format does not know and ignores, by column."""
  if not format_.encoding.ignores_unknown:
    return {}
  return {
      name: {cell for cell in set(rows.cells[name]) - {None}
             if table_format.level_of(cell) not in levels}
      for name, levels in format_.encoding.levels.items()
  }


def _is_test(rows: Rows, split_column: str) -> np.ndarray:
  """Returns which rows are for testing; `BadTable` if one does not say."""
  splits = [text.lower() for text in rows.cells[split_column]]
  for row, split in zip(rows.numbers, splits):
    if split not in _TRAIN_OR_TEST:
      raise problems.BadTable(
          f"row {row}, column {split_column!r} must be train or test, got {split!r}"
      )
  return np.array([split == "test" for split in splits], bool)


def _told_encodings(
    heads: Iterable[columns_lib.Head], options: table_options.TableOptions
) -> tuple[str, ...]:
  """Returns a text about files whose encoding was found out not to be UTF-8, if there are any."""
  found = [os.path.basename(head.path) for head in heads if head.encoding == text_files.ANSI]
  if not found or options.encoding is not None:
    return ()
  return (f"text that is no UTF-8 is read as cp1252: {problems.listed(found)}",)


class _Learned:
  """What the rows of all clients say of the format: levels, classes, and columns without values."""

  def __init__(self, columns: columns_lib.Columns, options: table_options.TableOptions):
    self._columns = columns
    self._options = options
    self._levels: dict[str, set[str]] = {name: set() for name in columns.categories}
    self._classes: set[str] = set()
    self._num_labels = 0
    self._oddities = None if options.allow_any_number else oddities.Oddities(columns)
    self._num_values = dict.fromkeys(columns.features, 0)

  def add(self, client_id: str, rows: Rows) -> None:
    """Learns from a client's rows; `BadTable` if a label or a split can't be used."""
    has_classes = self._options.label_column is not None and not self._options.is_regression
    labels = _class_names(rows, self._options) if has_classes else []
    for name in self._columns.features:
      self._num_values[name] += int(np.count_nonzero(~reader.is_missing(rows.cells[name])))
    for name, found in self._levels.items():
      found.update(table_format.level_of(cell) for cell in rows.cells[name] if cell is not None)
    self._classes.update(labels)
    self._num_labels += len(labels)
    if self._options.split_column is not None:
      _is_test(rows, self._options.split_column)
    if self._oddities is not None:
      self._oddities.add(client_id, rows.cells, labels)

  def format(self, decimal: str | None) -> table_format.TableFormat:
    """Returns the `TableFormat` of files with a decimal mark."""
    levels = {name: table_format.sorted_levels(found) for name, found in self._levels.items()}
    has_classes = self._options.label_column is not None and not self._options.is_regression
    return table_format.TableFormat(
        self._options,
        self._columns,
        table_format.FeatureEncoding(self._columns.features, levels),
        table_format.sorted_levels(self._classes) if has_classes else None,
        decimal,
    )

  def warnings(self, heads: Iterable[columns_lib.Head]) -> tuple[str, ...]:
    """Returns what is odd about the rows of files, in words."""
    if self._oddities is None:
      return ()
    return (*_told_encodings(heads, self._options), *self._oddities.texts())

  def finds_regression(self) -> bool:
    """Returns whether the labels are rather numbers to learn than classes, if no option says."""
    count = len(self._classes)
    if (
        self._options.allow_any_number or self._options.task is not None
        or self._options.label_above is not None or count <= _MANY_NUMBERS
    ):
      return False
    # What their decimal mark is, the files say when they are read as numbers.
    has_fraction = {mark: f"[+-]?[0-9]*{re.escape(mark)}[0-9]+.*" for mark in cells.OTHER_DECIMAL}
    for mark, fraction in has_fraction.items():
      if all(cells.is_number(name, mark) for name in self._classes):
        per_class = _ROWS_PER_CLASS if count > _MOST_CLASSES else 2
        are_rare = per_class * count > self._num_labels
        return are_rare or any(re.fullmatch(fraction, name) for name in self._classes)
    return False

  def check_classes(self) -> None:
    """Raises `BadTable` if the classes are numbers of which hardly any two are equal."""
    count = 0 if self._options.allow_any_number else len(self._classes)
    if (
        self._options.label_above is None and count > _MANY_NUMBERS and 2 * count > self._num_labels
        and all(map(cells.is_number, self._classes))
    ):
      raise problems.BadTable(
          f"column {self._options.label_column!r} has {count:,} different numbers in "
          f"{self._num_labels:,} rows, which are no classes",
          hints=(
              "--label_above makes two classes of them",
              "--task=regression learns the numbers, where the files are on one machine",
          ),
      )

  def check_values(self) -> None:
    """Raises `BadTable` if a mean is needed of a column that has no value at any client."""
    empty = tuple(name for name, count in self._num_values.items() if not count)
    if empty and self._options.missing != table_options.ERROR:
      raise problems.BadTable(
          f"column {empty[0]!r} is empty everywhere{problems.also(empty[1:])}",
          hints=(problems.LEAVES_OUT,), exclude=empty,
      )


def _scan(
    sources: RowSources, look: Callable[[str, Rows], object]
) -> tuple[dict[str, int], dict[str, str]]:
  """Reads all rows once; returns the clients' numbers of rows and their digests, in hex.

  Args:
    sources: The `RowSources`.
    look: Is called with every client's id and rows; raises `BadTable` for what can't be used.
  """
  num_rows, digests = {}, {}
  with sources.settled(), problems.gathered(sources.argument) as part:
    for client_id in sources.paths:
      with part(), sources.refusing(client_id):
        rows = sources.read(client_id)
        look(client_id, rows)
        num_rows[client_id] = len(rows.numbers)
        digests[client_id] = rows.digest().hex()
  sources.check_agreement()
  return num_rows, digests


def read_heads(
    paths: Mapping[str, str], options: table_options.TableOptions, argument: str
) -> dict[str, columns_lib.Head]:
  """Returns the `Head`s of files, with names, under the keys of their paths.

  Args:
    paths: A mapping of anything to a path.
    options: `TableOptions`.
    argument: What messages call the folder that the files are in.
  """
  reader.check_memory(tuple(paths.values()), options, argument)
  heads = []
  with problems.gathered(argument) as part:
    for path in paths.values():
      with part(), problems.refusing(argument, path):
        heads.append(reader.read_head(path, options))
  with problems.refusing(argument, None):
    return dict(zip(paths, columns_lib.with_names(heads, options.header)))


def open_heads(
    heads: Mapping[str, columns_lib.Head], options: table_options.TableOptions,
    argument: str = "data_dir",
) -> ClientTables:
  """Looks at clients' files, and returns what reads them.

  Args:
    heads: Their `Head`s, a mapping as `read_heads` returns it.
    options: `TableOptions`.
    argument: What messages call the folder that the files are in.

  Returns:
    `ClientTables`, whose missing values are not filled in yet.

  Raises:
    ValueError: If a file can't be used, or its columns differ from the others'.
    OSError: If a file can't be read.
  """
  with problems.refusing(argument, None):
    columns = columns_lib.agree(list(heads.values()), options)
  sources = RowSources(heads, columns, options, argument)
  learned = _Learned(columns, options)
  num_rows, digests = _scan(sources, learned.add)
  if learned.finds_regression():
    # Labels are read again, as numbers with the decimal mark of their file.
    found = dataclasses.replace(options, task=table_options.REGRESSION)
    return open_heads(heads, found, argument)
  with sources.settled(), sources.refusing(next(iter(sources.paths))):
    learned.check_values()
    learned.check_classes()
  warnings = learned.warnings(sources.heads)
  format_ = learned.format(sources.decimal)
  if options.task == table_options.CLASSIFICATION:  # As where it was found out.
    format_ = dataclasses.replace(format_, options=dataclasses.replace(options, task=None))
  return ClientTables(num_rows, format_, digests, sources, warnings)


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
    directory: The folder.
    options: `TableOptions`.
    argument: What messages call the folder.

  Raises:
    ValueError: If files can't be used.  The message says all that is wrong, and which flags
      help.
    OSError: If a file can't be read.
  """
  paths = _paths(directory, options, argument)
  is_one = len(paths) == 1 and options.client_column is None

  def open_with(tried: table_options.TableOptions) -> ClientTables:
    with problems.gathered(argument) as part:
      with part():
        reader.check_kinds([directory], argument, options.allow_any_number)
      with part():
        heads = read_heads(paths, tried, argument)
        if is_one:
          with problems.refusing(argument, None):
            columns_lib.check_no_clients(next(iter(heads.values())), tried)
        opened = open_heads(heads, tried, argument)
    return opened

  hints = (columns_lib.SEVERAL_CLIENTS,) if is_one and not options.allow_any_number else ()
  return problems.open_tables(open_with, options, argument, hints)


def _notes(
    sources: RowSources, unused: Sequence[str], ignored: Mapping[str, set[str]],
    options: table_options.TableOptions,
) -> tuple[str, ...]:
  """Returns what a model does not use of files, in words."""
  found = list(_told_encodings(sources.heads, options))
  if unused:
    found.append(f"columns that the model does not have are not used: {_quoted(unused)}")
  found += [
      f"the column {name!r} has levels that the model does not know: {_quoted(sorted(levels))}"
      for name, levels in ignored.items() if levels
  ]
  for path, bad in sources.bad_rows.items():
    if bad:
      count = "1 row is" if len(bad) == 1 else f"{len(bad):,} rows are"
      found.append(f"{count} left out of {path!r}: {problems.first_of(list(bad.values()))}")
  return tuple(found)


def _quoted(names: Iterable[str]) -> str:
  return problems.listed([repr(name) for name in names])


@problems.with_hints_of(table_options.OF_FILES)
def open_files_for(
    format_: table_format.TableFormat, paths: Mapping[str, str], argument: str = "data_dir",
    later: table_options.LaterFiles = table_options.LaterFiles(),
) -> ClientTables:
  """Looks at files that a model is to be used on.

  Columns with a role, such as the labels, may be absent from all files or some of them, and the
  cells of labels and ids may be empty.  `warnings` tell of what is not used.

  Args:
    format_: The model's `TableFormat`.
    paths: A mapping from client id to path; with `client_column` from anything.
    argument: What messages call the folder that the files are in.
    later: How the files may differ from those of the model.

  Returns:
    `ClientTables`.

  Raises:
    ValueError: If a file can't be used or lacks a column of the model, or a level or class is
      unknown.
    OSError: If a file can't be read.
  """
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
  with problems.refusing(argument, None):
    unused = columns_lib.check_later(list(heads.values()), format_.columns, options)
  heads = {
      key: dataclasses.replace(head, style=dataclasses.replace(head.style, likely=format_.decimal))
      for key, head in heads.items()
  }
  sources = RowSources(heads, format_.columns, options, argument, format_, later.skip_bad_rows)
  unlabelled: set[str] = set()
  ignored: dict[str, set[str]] = {}

  def look(client_id: str, rows: Rows) -> None:
    table = _client_table(rows, format_)  # Checks labels, levels and splits.
    if table.labels is None or not table.has_label.any():
      unlabelled.add(client_id)
    for name, levels in _ignored_levels(rows, format_).items():
      ignored.setdefault(name, set()).update(levels)

  num_rows, digests = _scan(sources, look)
  return ClientTables(
      num_rows, format_, digests, sources, _notes(sources, unused, ignored, options),
      frozenset(unlabelled),
  )


def open_folder_for(
    format_: table_format.TableFormat, directory: str, argument: str = "data_dir",
    later: table_options.LaterFiles = table_options.LaterFiles(),
) -> ClientTables:
  """Looks at the files of a folder that a model is to be used on, as `open_files_for` does.

  Args:
    format_: The model's `TableFormat`.
    directory: The folder.
    argument: What messages call the folder.
    later: How the files may differ from those of the model.
  """
  paths = _paths(directory, format_.options, argument)
  with problems.with_hints_of(()):
    reader.check_kinds([directory], argument, format_.options.allow_any_number)
  return open_files_for(format_, paths, argument, later)
