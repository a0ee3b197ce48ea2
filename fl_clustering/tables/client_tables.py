"""Clients' tables from files: the one reader of all programs.

A folder has one file per client, named after it, of any kind in `table_files.KINDS`:

  data/
    amsterdam.csv   boston.csv.gz   chicago.parquet

With `TableOptions.client_column`, one or several tables hold the rows of all clients instead.

Columns are known by name: a file may have them in another order.  A client's file is read when
its table is asked for, so all of them together may be larger than memory.
"""

import dataclasses
import hashlib
from typing import Callable, Mapping, Optional

import numpy as np

from fl_clustering.points import client_points
from fl_clustering.tables import cells
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import feature_encoding
from fl_clustering.tables import headers
from fl_clustering.tables import table_files
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
class _Rows:
  """Some rows of a file, as they stand there.

  Attributes:
    cells: Columns by name, as `table_files.read` returns them.
    numbers: The rows' numbers in the file, counted from 1.
  """

  cells: Mapping[str, np.ndarray]
  numbers: np.ndarray

  def take(self, chosen):
    """Returns the rows of a mask."""
    columns = {name: column[chosen] for name, column in self.cells.items()}
    return _Rows(columns, self.numbers[chosen])


@dataclasses.dataclass(frozen=True, eq=False)
class ClientTables:
  """The tables of all clients, which are read one at a time.

  Attributes:
    num_rows: The clients' numbers of rows, by client id; what the clients are called.
    columns: The `Columns` that are used.
    encoding: The `FeatureEncoding`.
    classes: The classes' names; None without a label column.
    sha256: A digest of all that is used, in hex.
  """

  num_rows: Mapping[str, int]
  columns: columns_lib.Columns
  encoding: feature_encoding.FeatureEncoding
  classes: Optional[tuple[str, ...]]
  sha256: str
  _read_rows: Callable[[str], _Rows]
  _options: table_options.TableOptions

  @property
  def client_ids(self):
    """The clients' ids, in order."""
    return tuple(self.num_rows)

  @property
  def feature_names(self):
    """The names of the features."""
    return self.encoding.feature_names

  def _unfilled(self, client_id):
    """Returns the `ClientTable` of a client, with NaN for missing features."""
    rows, roles = self._read_rows(client_id), self.columns.roles
    labels = is_test = row_ids = None
    if self.classes is not None:
      number = {name: i for i, name in enumerate(self.classes)}
      names = _class_names(rows, self._options)
      labels = np.array([number[name] for name in names], np.int64)
    if "split_column" in roles:
      is_test = _is_test(rows, roles["split_column"])
    if "id_column" in roles:
      row_ids = tuple(rows.cells[roles["id_column"]])
    features = self.encoding.encode(rows.cells)
    return ClientTable(features, labels, is_test, rows.numbers, row_ids)

  def read(self, client_id):
    """Returns the `ClientTable` of a client."""
    table = self._unfilled(client_id)
    return dataclasses.replace(table, features=self.encoding.fill(table.features))

  def filled(self, choose=None):
    """Returns the same tables, with missing values filled in as the options say.

    The means come from sums over all clients.

    Args:
      choose: A function from a client id and its `ClientTable` to the rows that count for the
        means, bool of shape (n,); None for all rows.

    Raises:
      ValueError: If a column has no value.
    """
    if self._options.missing == table_options.ERROR:
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
      name = self.encoding.encoded_names[position]
      raise ValueError(
          f"`missing` must leave something to take a mean of, got no value in column {name!r}; "
          f"--exclude={name} leaves it out."
      )
    indicators = ()
    if self._options.missing == table_options.INDICATOR:
      names = self.columns.features
      is_missing = num_missing[self.encoding.first_encoded(names)] > 0
      indicators = tuple(name for name, is_any in zip(names, is_missing) if is_any)
    encoding = dataclasses.replace(self.encoding, means=sums / counts, indicators=indicators)
    return dataclasses.replace(self, encoding=encoding)


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


def _of_own_files(heads, read):
  """Returns the clients' ids and the function that reads a client's rows."""
  return tuple(heads), lambda client_id: read(heads[client_id])


def _of_shared_files(heads, read, client_column):
  """Does the same for files with the rows of several clients; the rows are kept in memory."""
  files = list(map(read, heads.values()))
  numbers = np.concatenate([rows.numbers for rows in files])
  names = files[0].cells
  joined = _Rows({n: np.concatenate([rows.cells[n] for rows in files]) for n in names}, numbers)
  owners = joined.cells[client_column]
  client_ids = feature_encoding.sorted_levels(set(owners))
  return client_ids, lambda client_id: joined.take(owners == client_id)


def _digest(rows):
  digest = hashlib.sha256()
  for name, column in sorted(rows.cells.items()):
    digest.update(repr(name).encode())
    is_text = column.dtype == object
    digest.update(repr(column.tolist()).encode() if is_text else column.tobytes())
  return digest.digest()


class _Scan:
  """What one look at every client's rows shows."""

  def __init__(self, columns, options):
    self.num_rows, self.classes, self._digest = {}, set(), hashlib.sha256()
    self.levels = {name: set() for name in columns.categories}
    self._columns, self._options = columns, options

  def add(self, client_id, rows):
    """Takes a client's rows; `BadTable` if there are none, or they can't be used."""
    if not len(rows.numbers) and not self._options.allow_any_number:
      raise cells.BadTable("it has no rows")
    self.num_rows[client_id] = len(rows.numbers)
    for name, levels in self.levels.items():
      levels.update(feature_encoding.level_of(c) for c in rows.cells[name] if c is not None)
    if self._options.label_column is not None:
      self.classes.update(_class_names(rows, self._options))
    if self._options.split_column is not None:
      _is_test(rows, self._options.split_column)
    self._digest.update(repr(client_id).encode() + _digest(rows))

  @property
  def sha256(self):
    return self._digest.hexdigest()


def open_files(paths, options, argument="data_dir"):
  """Looks at clients' files, and returns what reads them.

  Args:
    paths: A mapping from client id to path; with `client_column` the files' names are of no
      matter.
    options: `TableOptions`.
    argument: What messages call the folder that they are in.

  Returns:
    `ClientTables`, whose missing values are not yet filled in.

  Raises:
    ValueError: If a file can't be used, or its columns differ from the others'.
    OSError: If a file can't be read.
  """

  def refusing(function, *arguments, path=None):
    try:
      return function(*arguments)
    except cells.BadTable as e:
      raise ValueError(
          f"`{argument}` must hold tables that can be used, got {e.path or path!r}: {e}."
      ) from e

  heads = [refusing(table_files.read_head, path, options, path=path) for path in paths.values()]
  heads = dict(zip(paths, refusing(headers.with_names, heads, options.header)))
  columns = refusing(columns_lib.agree, list(heads.values()), options)
  needed = set(columns.roles.values())
  if options.missing == table_options.ERROR and not options.allow_any_number:
    needed |= set(columns.features)

  def read(head):
    table = refusing(
        table_files.read, head, columns, needed, options.allow_any_number, path=head.path
    )
    return _Rows(table, np.arange(1, len(next(iter(table.values()))) + 1))

  if options.client_column is None:
    client_ids, read_rows = _of_own_files(heads, read)
  else:
    client_ids, read_rows = _of_shared_files(heads, read, options.client_column)
  scan = _Scan(columns, options)
  for client_id in client_ids:
    path = paths.get(client_id, next(iter(paths.values())))
    refusing(scan.add, client_id, read_rows(client_id), path=path)
  levels = {name: feature_encoding.sorted_levels(found) for name, found in scan.levels.items()}
  has_labels = options.label_column is not None
  return ClientTables(
      scan.num_rows,
      columns,
      feature_encoding.FeatureEncoding(columns.features, levels),
      feature_encoding.sorted_levels(scan.classes) if has_labels else None,
      scan.sha256,
      read_rows,
      options,
  )


def open_folder(directory, options, argument="data_dir"):
  """Looks at the files of a folder, as `open_files` does.

  Args:
    directory: The folder.
    options: `TableOptions`.
    argument: What messages call the folder.
  """
  what = "client" if options.client_column is None else "table"
  paths = client_points.sorted_by_id(table_files.paths(directory, argument, what))
  return open_files(paths, options, argument)
