"""Clients' tables from files: the one reader of all programs.

A folder has one file per client, named after it, of any kind in `table_files.KINDS`:

  data/
    amsterdam.csv   boston.csv.gz   chicago.parquet

With `TableOptions.client_column`, one or several tables hold the rows of all clients instead.

Columns are known by name: a file may have them in another order.  A client's file is read when
its table is asked for, so all of them together may be larger than memory.
"""

import collections.abc
import dataclasses
import hashlib
from typing import Mapping, Optional

import numpy as np

from fl_clustering.points import given_clients
from fl_clustering.tables import cells
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import feature_encoding
from fl_clustering.tables import findings
from fl_clustering.tables import row_sources
from fl_clustering.tables import table_files
from fl_clustering.tables import table_format
from fl_clustering.tables import table_options

_TRAIN_OR_TEST = ("train", "test")


@dataclasses.dataclass(frozen=True, eq=False)
class ClientTable:
  """One client's table.

  Attributes:
    features: float64 of shape (n, d).
    labels: int64 of shape (n,), positions in the classes; None if there is no label column.
    is_test: bool of shape (n,); None if there is no split column.
    rows: The rows' numbers in the client's file, counted from 1, int64 of shape (n,).
    row_ids: A tuple of n texts; None if there is no id column.
  """

  features: np.ndarray
  labels: Optional[np.ndarray]
  is_test: Optional[np.ndarray]
  rows: np.ndarray
  row_ids: Optional[tuple[str, ...]]


@dataclasses.dataclass(frozen=True, eq=False)
class ClientTables:
  """The tables of all clients, which are read one at a time.

  Attributes:
    num_rows: The clients' numbers of rows, by client id; what the clients are called.
    format: The `TableFormat`.
    sha256: A digest of all that is used, in hex.
  """

  num_rows: Mapping[str, int]
  format: table_format.TableFormat
  sha256: str
  _sources: row_sources.RowSources

  @property
  def client_ids(self):
    """The clients' ids, in order."""
    return tuple(self.num_rows)

  @property
  def feature_names(self):
    """The names of the features."""
    return self.format.encoding.feature_names

  def _unfilled(self, client_id):
    rows = self._sources.read(client_id)
    with self._sources.refusing(client_id):
      return _client_table(rows, self.format)

  def read(self, client_id):
    """Returns the `ClientTable` of a client."""
    table = self._unfilled(client_id)
    features = self.format.encoding.finish(table.features)
    return dataclasses.replace(table, features=features)

  def features(self):
    """Returns a mapping from client id to features, which are read when asked for."""
    return _Features(self)

  def filled(self, choose=None):
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
    sums, counts, num_missing = 0.0, 0, 0
    for client_id in self.client_ids:
      table = self._unfilled(client_id)
      is_missing = np.isnan(table.features)
      is_counted = ~is_missing
      if choose is not None:
        is_counted &= choose(client_id, table)[:, np.newaxis]
      sums += np.where(is_counted, table.features, 0).sum(axis=0)
      counts += is_counted.sum(axis=0)
      num_missing += is_missing.sum(axis=0)
    for position in np.flatnonzero(counts == 0):
      name = encoding.encoded_names[position]
      raise ValueError(
          f"`missing` must leave something to take a mean of, got no value in column {name!r}; "
          f"{cells.LEAVES_OUT}."
      )
    indicators = ()
    if options.missing == table_options.INDICATOR:
      is_any = num_missing[encoding.first_encoded(encoding.columns)] > 0
      indicators = tuple(name for name, chosen in zip(encoding.columns, is_any) if chosen)
    return self._with_encoding(means=sums / counts, indicators=indicators)

  def standardized(self, choose):
    """Returns the same tables, with features of mean zero and variance one.

    Means and variances come from sums over all clients.  Constant features become zero.

    Args:
      choose: As for `filled`.
    """
    count, sums, squares = 0, 0.0, 0.0
    for table, chosen in self._chosen(choose):
      count += chosen.sum()
      sums += table.features[chosen].sum(axis=0)
    mean = sums / count
    for table, chosen in self._chosen(choose):
      squares += ((table.features[chosen] - mean) ** 2).sum(axis=0)
    factor = feature_encoding.standardizing_factor(mean, np.sqrt(squares / count))
    return self._with_encoding(shift=mean, factor=factor)

  def _chosen(self, choose):
    """Yields every client's `ClientTable` and the mask of the rows that count."""
    for client_id in self.client_ids:
      table = self.read(client_id)
      yield table, choose(client_id, table)

  def _with_encoding(self, **changes):
    encoding = dataclasses.replace(self.format.encoding, **changes)
    return dataclasses.replace(self, format=dataclasses.replace(self.format, encoding=encoding))


class _Features(collections.abc.Mapping):
  """The features of all clients by id, read when asked for."""

  def __init__(self, tables):
    self._tables = tables

  def __getitem__(self, client_id):
    return self._tables.read(client_id).features

  def __iter__(self):
    return iter(self._tables.client_ids)

  def __len__(self):
    return len(self._tables.client_ids)


def _client_table(rows, format_):
  """Returns the `ClientTable` of some rows, with NaN for missing features."""
  roles, classes = format_.columns.roles, format_.classes
  labels = is_test = row_ids = None
  if "label_column" in roles:
    number = {name: i for i, name in enumerate(classes)}
    names = _class_names(rows, format_.options)
    for row, name in zip(rows.numbers, names):
      if name not in number:
        raise cells.BadTable(
            f"row {row}, column {roles['label_column']!r} must be one of {', '.join(classes)}, "
            f"got {name!r}"
        )
    labels = np.array([number[name] for name in names], np.int64)
  if "split_column" in roles:
    is_test = _is_test(rows, roles["split_column"])
  if "id_column" in roles:
    row_ids = tuple(rows.cells[roles["id_column"]])
  features = format_.encoding.encode(rows.cells, rows.numbers)
  return ClientTable(features, labels, is_test, rows.numbers, row_ids)


def _class_names(rows, options):
  """Returns the names of the classes of rows; `BadTable` if one is no number but has to be."""
  names = [feature_encoding.level_of(text) for text in rows.cells[options.label_column]]
  if options.label_above is None:
    return names
  for row, name in zip(rows.numbers, names):
    if not cells.is_number(name):
      raise cells.BadTable(
          f"row {row}, column {options.label_column!r} must be a number with --label_above, got "
          f"{name!r}"
      )
  limit = options.label_above
  return [f"{'>' if float(name) > limit else '<='} {limit:g}" for name in names]


def _is_test(rows, split_column):
  """Returns which rows are for testing; `BadTable` if one does not say."""
  splits = [text.lower() for text in rows.cells[split_column]]
  for row, split in zip(rows.numbers, splits):
    if split not in _TRAIN_OR_TEST:
      raise cells.BadTable(
          f"row {row}, column {split_column!r} must be train or test, got {split!r}"
      )
  return np.array([split == "test" for split in splits], bool)


def _learned_format(sources, columns, options):
  """Returns the `TableFormat`, with the levels and classes of all clients.

  Args:
    sources: The `RowSources`.
    columns: The `Columns` that are used.
    options: `TableOptions`.
  """
  levels, classes = {name: set() for name in columns.categories}, set()
  if columns.categories or options.label_column is not None:
    with findings.gathered(sources.argument) as part:
      for client_id in sources.paths:
        with part(), sources.refusing(client_id):
          rows = sources.read(client_id)
          for name, found in levels.items():
            found.update(feature_encoding.level_of(c) for c in rows.cells[name] if c is not None)
          if options.label_column is not None:
            classes.update(_class_names(rows, options))
  levels = {name: feature_encoding.sorted_levels(found) for name, found in levels.items()}
  return table_format.TableFormat(
      options,
      columns,
      feature_encoding.FeatureEncoding(columns.features, levels),
      None if options.label_column is None else feature_encoding.sorted_levels(classes),
  )


def _check_values(encoding, num_values):
  """Raises `BadTable` if a column has no value at any client."""
  empty = tuple(name for name, count in zip(encoding.encoded_names, num_values) if not count)
  if empty:
    raise cells.BadTable(
        f"column {empty[0]!r} is empty everywhere{cells.also(empty[1:])}",
        hints=(cells.LEAVES_OUT,), exclude=empty,
    )


def _opened(sources, format_, learns_means=False):
  """Returns the `ClientTables`, all of which have been read once.

  Args:
    sources: The `RowSources`.
    format_: The `TableFormat`.
    learns_means: Whether missing values become means that are not known yet.
  """
  num_rows, digest, num_values = {}, hashlib.sha256(), 0
  with findings.gathered(sources.argument) as part:
    for client_id in sources.paths:
      with part(), sources.refusing(client_id):
        rows = sources.read(client_id)
        # Checks labels, levels and splits.
        num_values += (~np.isnan(_client_table(rows, format_).features)).sum(axis=0)
        num_rows[client_id] = len(rows.numbers)
        digest.update(repr(client_id).encode() + rows.digest())
  if learns_means:
    with sources.refusing(next(iter(sources.paths))):
      _check_values(format_.encoding, num_values)
  return ClientTables(num_rows, format_, digest.hexdigest(), sources)


def open_heads(heads, options, argument="data_dir"):
  """Looks at clients' files, and returns what reads them.

  Args:
    heads: Their `Head`s, a mapping as `row_sources.read_heads` returns it.
    options: `TableOptions`.
    argument: What messages call the folder that the files are in.

  Returns:
    `ClientTables`, whose missing values are not filled in yet.

  Raises:
    ValueError: If a file can't be used, or its columns differ from the others'.
    OSError: If a file can't be read.
  """
  with row_sources.refusing(argument, None):
    columns = columns_lib.agree(list(heads.values()), options)
  sources = row_sources.open_heads(heads, columns, options, argument)
  learns_means = options.missing != table_options.ERROR
  return _opened(sources, _learned_format(sources, columns, options), learns_means)


def _paths(directory, options, argument):
  what = "client" if options.client_column is None else "table"
  return given_clients.sorted_by_id(table_files.paths(directory, argument, what))


def open_folder(directory, options, argument="data_dir"):
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

  def open_with(tried):
    with findings.gathered(argument) as part:
      with part():
        table_files.check_kinds([directory], argument)
      with part():
        heads = row_sources.read_heads(paths, tried, argument)
        if is_one:
          with row_sources.refusing(argument, None):
            columns_lib.check_no_clients(next(iter(heads.values())), tried)
        opened = open_heads(heads, tried, argument)
    return opened

  hints = (columns_lib.SEVERAL_CLIENTS,) * (is_one and not options.allow_any_number)
  return findings.open_tables(open_with, options, argument, hints)


@findings.without_hints()
def open_files_for(format_, paths, argument="data_dir"):
  """Looks at files that a model is to be used on.

  Columns with a role, such as the labels, may be absent; if so, they are in no file.

  Args:
    format_: The model's `TableFormat`.
    paths: A mapping from client id to path; with `client_column` from anything.
    argument: What messages call the folder that the files are in.

  Returns:
    `ClientTables`.

  Raises:
    ValueError: If a file can't be used or has other columns than the model, or a level or
      class is unknown.
    OSError: If a file can't be read.
  """
  heads = row_sources.read_heads(paths, format_.options, argument)
  absent = {
      role for role, name in format_.columns.roles.items()
      if not any(name in head.names for head in heads.values())
  }
  format_ = format_.without_roles(absent)
  with row_sources.refusing(argument, None):
    columns_lib.check(list(heads.values()), format_.columns, format_.options)
  sources = row_sources.open_heads(heads, format_.columns, format_.options, argument)
  return _opened(sources, format_)


def open_folder_for(format_, directory, argument="data_dir"):
  """Looks at the files of a folder that a model is to be used on, as `open_files_for` does.

  Args:
    format_: The model's `TableFormat`.
    directory: The folder.
    argument: What messages call the folder.
  """
  paths = _paths(directory, format_.options, argument)
  with findings.without_hints():
    table_files.check_kinds([directory], argument)
  return open_files_for(format_, paths, argument)
