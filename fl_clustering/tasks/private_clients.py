"""Private reading of clients' tables: with a public schema, and no word of what they hold.

A row decides nothing but its own examples: no cell is an error, and none changes how another row,
or another client, is read.  What can't be read is left out where it is, in silence.  Public are the
schema, the names of the files, and with `client_column` the clients' ids and the columns of the
tables that they share.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Iterable, Mapping
import warnings

import numpy as np

from clustering_basics import validate
from dp_clustering import clustering_params
from fl_clustering.points import given_clients
from fl_clustering.tables import cells
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import problems
from fl_clustering.tables import reader
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import held_out
from fl_clustering.tasks import schema as schema_lib

_SPLIT = ("train", "test")


@dataclasses.dataclass(frozen=True, eq=False)
class PrivateClients:
  """Clients' examples by client id; a client may have none.

  Nothing of them may be shown but the ids.

  Attributes:
    train: Their examples for training; features are float32, labels int32.
    test: Those for testing.
  """

  train: Mapping[str, examples_lib.Examples]
  test: Mapping[str, examples_lib.Examples]

  @property
  def client_ids(self) -> tuple[str, ...]:
    """The clients' ids, in order."""
    return tuple(self.train)


def _with_point(cell: str | None, decimal: str) -> str | None:
  """Returns a cell, with a decimal point if it is a number with this decimal mark."""
  if cell is None or not cells.is_number(cell, decimal):
    return cell
  return cell.replace(decimal, ".")


def _labels(schema: schema_lib.Schema, column: np.ndarray) -> np.ndarray:
  """Returns the labels of cells, int32 of shape (n,); -1 for what is no class."""
  # Numbers have decimal points, as those of levels, or the schema's decimal mark.
  marks = (".", schema.decimal)
  with_points, others = (
      schema_lib.positions([_with_point(cell, mark) for cell in column], schema.classes)
      for mark in marks
  )
  return np.where(with_points < 0, others, with_points)


@dataclasses.dataclass(frozen=True, eq=False)
class _Rows:
  """Encoded rows, each of which depends on its own cells alone.

  Attributes:
    features: float32 of shape (n, d).
    labels: int32 of shape (n,); -1 for what is no class.
    parts: Positions in `_SPLIT`, of shape (n,); -1 for what is neither.
  """

  features: np.ndarray
  labels: np.ndarray
  parts: np.ndarray

  @classmethod
  def of(cls, schema: schema_lib.Schema, table: Mapping[str, np.ndarray]) -> _Rows:
    """Returns the rows of a table, columns by name."""
    labels = _labels(schema, table[schema.label_column])
    parts = np.zeros(len(labels), np.int32)
    if schema.split_column is not None:
      told = table[schema.split_column]
      parts = schema_lib.positions([cell and cell.lower() for cell in told], _SPLIT)
    encoded = [feature.encode(table[feature.name]) for feature in schema.features]
    return cls(np.concatenate(encoded, axis=1, dtype=np.float32), labels, parts)

  @classmethod
  def none(cls, schema: schema_lib.Schema) -> _Rows:
    """Returns no rows."""
    shape, no_label = (0, len(schema.feature_names)), np.zeros(0, np.int32)
    return cls(np.zeros(shape, np.float32), no_label, no_label)

  def take(self, chosen: np.ndarray | list[int]) -> _Rows:
    """Returns the rows of positions or of a mask."""
    return _Rows(self.features[chosen], self.labels[chosen], self.parts[chosen])

  def split(
      self, schema: schema_lib.Schema, client_id: str, seed: int
  ) -> tuple[examples_lib.Examples, examples_lib.Examples]:
    """Returns a client's examples for training and for testing."""
    rows = self.take((self.labels >= 0) & (self.parts >= 0))
    is_test = rows.parts == _SPLIT.index("test")
    if schema.split_column is None and len(is_test):
      is_test = held_out.draw_rows(client_id, len(is_test), schema.test_share, seed)
    everything = examples_lib.Examples(rows.features, rows.labels)
    return everything.take(~is_test), everything.take(is_test)


def _read(schema: schema_lib.Schema, path: str) -> Mapping[str, np.ndarray]:
  """Returns the columns of a file by name; `BadTable` if it lacks one or is no table."""
  columns = schema.columns
  head = reader.read_head(path, schema.options)
  (head,) = columns_lib.with_names([head], schema.header)
  for name in (*columns.features, *columns.roles.values()):
    if name not in head.known_names:
      raise problems.BadTable(f"it has no column {name!r}")
  _, table, _ = reader.read(head, columns, needed=(), allow_any_number=True)
  return table


def _rows_of_client(schema: schema_lib.Schema, path: str) -> _Rows:
  """Returns the rows of a client's own file; none if it can't be read."""
  try:
    return _Rows.of(schema, _read(schema, path))
  except Exception:  # pylint: disable=broad-exception-caught
    # A file may hold any bytes, which readers of many kinds of files meet with any exception.
    return _Rows.none(schema)


def _rows_of_clients(
    schema: schema_lib.Schema, paths: Iterable[str], client_column: str
) -> dict[str, _Rows]:
  """Returns the rows of the clients that share tables."""
  tables = []
  with problems.refusing("data_dir", ()):
    for path in paths:
      with problems.in_file(path):
        tables.append(_read(schema, path))
  columns = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
  places = collections.defaultdict(list)
  for place, client_id in enumerate(columns[client_column]):
    if client_id is not None:
      places[client_id].append(place)
  if not places:
    raise validate.error("client_column", "hold a client's name in some row", client_column)
  rows = _Rows.of(schema, columns)
  return {client_id: rows.take(found) for client_id, found in places.items()}


def load(schema: schema_lib.Schema, data_dir: str, seed: int) -> PrivateClients:
  """Reads clients' tables with nothing but a public schema.

  A client's examples depend on its id, its own rows, the schema and the seed alone.  Its rows
  without a known class, or with a cell in the split column that says neither `train` nor `test`,
  are left out.  One row without a split column is for training.  A client's own file that can't be
  read, or lacks a column of the schema, holds no rows.

  Args:
    data_dir: The folder with a file per client, or with `client_column` with the tables that they
      share.
    seed: Decides, without a split column, which of a client's rows are for testing.

  Raises:
    ValueError: If the folder has no files or other ones, or a table that clients share can't be
      read or lacks a column.
    OSError: If the folder, or such a table, can't be read.
  """
  paths = given_clients.sorted_by_id(reader.paths(data_dir, "data_dir", "client"))
  with problems.refusing("data_dir"):
    reader.check_kinds([data_dir], is_private=True)
  with warnings.catch_warnings(), clustering_params.content_raises_nothing():
    warnings.simplefilter("ignore")  # What libraries say of cells.
    if schema.client_column is None:
      rows = {client_id: _rows_of_client(schema, path) for client_id, path in paths.items()}
    else:
      found = _rows_of_clients(schema, paths.values(), schema.client_column)
      rows = given_clients.sorted_by_id(found)
  split = {client_id: own.split(schema, client_id, seed) for client_id, own in rows.items()}
  return PrivateClients(
      {client_id: train for client_id, (train, _) in split.items()},
      {client_id: test for client_id, (_, test) in split.items()},
  )
