"""Clients' tables in several views: a folder per client, with a file per view.

Where the views' schemas have a key, their rows are joined by it, one to one, in the order of the
first view; else row i is the same everywhere.  A client may have a file `labels`, with a column of
classes and the key if there is one, of which nothing but scores is made.  Every other file is a
view, whatever its name is.

A file of schemas is a Frictionless Data Package, of which a part is understood: `resources`, each
with the `name` of a view and its `schema`.
"""

from __future__ import annotations

import collections.abc
import functools
import itertools
import os
from typing import Any, Collection, Iterable, Iterator, Mapping, TYPE_CHECKING

import numpy as np

from clustering_basics import validate
from fl_clustering.points import given_clients
from fl_clustering.tables import bad_table
from fl_clustering.tables import clients as clients_lib
from fl_clustering.tables import encode
from fl_clustering.tables import read as read_lib
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import typed_files

if TYPE_CHECKING:
  import pandas as pd

LABELS = "labels"


def check(schemas: schema_lib.Schemas) -> None:
  """Raises a ValueError unless these can be the schemas of views, by the views' names."""
  if not schemas:
    raise validate.error("resources", "hold a view", [])
  for view, schema in schemas.items():
    for role in set(schema.roles) - {"key"}:
      raise validate.error(f"resources[{view}].{role}", "be left out of views", schema.roles[role])
  keys = {schema.key for schema in schemas.values()}
  if len(keys) > 1:
    rule = "be the same in all views, or in none"
    raise validate.error("primaryKey", rule, sorted(map(str, keys)))


def from_json(document: Any) -> schema_lib.Schemas:
  """Returns the schemas of a data package, by the views' names in order, or that of tables."""
  if not isinstance(document, dict) or "resources" not in document:
    return {schema_lib.NO_VIEW: schema_lib.Schema.from_json(document)}
  schema_lib.check_object(document, "schema", ("resources",))
  schemas: dict[str, schema_lib.Schema] = {}
  keys = ("name", "schema")
  for resource in document["resources"]:
    schema_lib.check_object(resource, "resources", keys, keys)
    if resource["name"] in (schema_lib.NO_VIEW, *schemas):
      raise validate.error("resources", "name each view once", resource["name"])
    schemas[resource["name"]] = schema_lib.Schema.from_json(resource["schema"])
  check(schemas)
  return dict(sorted(schemas.items()))


def to_json(schemas: schema_lib.Schemas) -> dict[str, Any]:
  """Returns what `from_json` takes."""
  if schema_lib.NO_VIEW in schemas:
    return schemas[schema_lib.NO_VIEW].to_json()
  return {
      "resources": [{"name": view, "schema": one.to_json()} for view, one in schemas.items()]
  }


def write(schemas: schema_lib.Schemas, path: str) -> None:
  """Writes the schemas to a file."""
  schema_lib.write_document(path, to_json(schemas))


def load(path: str) -> schema_lib.Schemas:
  """Returns the schemas of a file; ValueError says in one line what is wrong with it."""
  return schema_lib.read_document(path, from_json)


def strict(
    directory: str, has_views: bool, *, exclude: Iterable[str] = (), **roles: str
) -> schema_lib.Schemas:
  """Returns the schemas of a folder whose columns are numbers, but for those of roles.

  Raises:
    ValueError: If the folder can't be used, or does not have these columns.
    BadTable: If a file has other names of columns than the first one, or they can't be read.
  """
  files = files_by_view(directory, has_views)
  headers = {path: read_lib.header(path) for paths in files.values() for path in paths}
  schema_lib.check_given({*itertools.chain(*headers.values())}, exclude=exclude)
  schemas = {}
  for view, (first, *others) in files.items():
    names = headers[first]
    own, unused = without_y(first, names, roles, exclude, has_views)
    try:
      schemas[view] = schema_lib.strict(names, exclude=unused & {*names}, **own)
    except ValueError as e:
      raise bad_table.bad_header(first, None, f"{e}".rstrip(".")) from e
    for path in others:
      for name in sorted({*headers[path]}.difference(names)):
        raise bad_table.bad_header(path, name, f"is not in {first}")
  if has_views:
    check(schemas)
  return schemas


def without_y(
    path: str, names: Collection[str], roles: Mapping[str, str], exclude: Iterable[str],
    has_views: bool,
) -> tuple[dict[str, str], set[str]]:
  """Returns the roles and the unused columns of a file: `y` of arrays is no feature.

  Unless it is named, it is the label if no other column is, and of views it is not used.
  """
  y, own, unused = typed_files.LABELS, dict(roles), {*exclude}
  if path.endswith(typed_files.NPZ) and y in names and y not in (*own.values(), *unused):
    if has_views or own.setdefault("label", y) != y:
      unused.add(y)
  return own, unused


def are_in(directory: str) -> bool:
  """Returns whether a folder has folders, as those of clients with views."""
  entries = clients_lib.entries(directory)
  return any(os.path.isdir(os.path.join(directory, entry)) for entry in entries)


def client_files(directory: str) -> dict[str, dict[str, str]]:
  """Returns the paths of every client's files by view."""
  found = {}
  for entry in clients_lib.entries(directory):
    folder = os.path.join(directory, entry)
    if not os.path.isdir(folder):
      raise validate.error("data_dir", "hold a folder per client, with a file per view", folder)
    found[entry] = clients_lib.files(folder)
  if not found:
    raise validate.error("data_dir", "hold a folder per client", directory)
  return given_clients.sorted_by_id(found)


def files_by_view(directory: str, has_views: bool) -> dict[str, list[str]]:
  """Returns the paths of all clients' files by the names of the first one's views."""
  if not has_views:
    return {schema_lib.NO_VIEW: [*clients_lib.files(directory).values()]}
  clients = list(client_files(directory).values())
  return {
      view: [own[view] for own in clients if view in own] for view in clients[0] if view != LABELS
  }


class Views(collections.abc.Mapping):
  """Clients' tables by client id; each is a dict by view, read when it is asked for.

  Attributes:
    schemas: What the views hold.
  """

  def __init__(
      self, paths: Mapping[str, Mapping[str, str]], schemas: schema_lib.Schemas,
      private: bool = False,
  ) -> None:
    """Opens files.

    Args:
      paths: Those of `client_files`.
      schemas: Of the views; in private reading without a key.
      private: Whether no row may be an error, or change how another one is read.
    """
    self.schemas, self._private = dict(schemas), private
    self._paths = {client_id: dict(files) for client_id, files in paths.items()}
    self._clients = {
        view: clients_lib.Clients({i: own[view] for i, own in paths.items()}, one, private)
        for view, one in schemas.items()
    }

  @property
  def _key(self) -> str | None:
    return next(iter(self.schemas.values())).key

  def __getitem__(self, client_id: str) -> dict[str, pd.DataFrame]:
    """Returns a client's rows by view, aligned."""
    tables = {view: clients[client_id] for view, clients in self._clients.items()}
    if self._private:  # What some view has no record for is none.
      num_rows = min(map(len, tables.values()))
      return {view: table[:num_rows] for view, table in tables.items()}
    first, paths = next(iter(tables.values())), self._paths[client_id]
    return {view: self._aligned(table, first, paths[view]) for view, table in tables.items()}

  def _aligned(self, table: pd.DataFrame, first: pd.DataFrame, path: str) -> pd.DataFrame:
    """Returns a table's rows in the order of the first view's keys, if there are keys."""
    if len(table) != len(first):
      rule = f"has {len(table)} rows, and the first view of its client {len(first)}"
      raise bad_table.BadTable(path, None, None, rule)
    if self._key is None:
      return table
    places = encode.positions(first[self._key].to_numpy(), list(table[self._key]))
    if (places < 0).any():
      key = first[self._key][int((places < 0).argmax())]
      raise bad_table.BadTable(path, None, self._key, f"lacks {key!r}, which another view has")
    return table.iloc[places].reset_index(drop=True)

  def __iter__(self) -> Iterator[str]:
    return iter(self._paths)

  def __len__(self) -> int:
    return len(self._paths)

  def row_names(self, tables: Mapping[str, pd.DataFrame]) -> dict[str, list[Any]]:
    """Returns the columns that name a client's rows: their place, from 1, and their key if any."""
    return clients_lib.row_names(next(iter(tables.values())), self._key)

  @functools.cached_property
  def num_rows(self) -> dict[str, int]:
    """The number of every client's rows."""
    return {client_id: len(next(iter(self[client_id].values()))) for client_id in self}

  def labels(self) -> dict[str, np.ndarray] | None:
    """Returns every client's classes, texts of shape (n,); None without files of labels.

    Raises:
      BadTable: If a file has not one class for every row.
    """
    if not any(LABELS in paths for paths in self._paths.values()):
      return None
    return {client_id: self._labels_of(client_id) for client_id in self}

  def _labels_of(self, client_id: str) -> np.ndarray:
    path, first = self._paths[client_id][LABELS], next(iter(self[client_id].values()))
    delimiter = next(iter(self.schemas.values())).delimiter
    names = read_lib.header(path, delimiter)
    if self._key not in (None, *names):
      rule = f"is not among the columns {bad_table.listed(names)}"
      raise bad_table.bad_header(path, self._key, f"{rule}, and names the rows of the views")
    columns = [name for name in names if name != self._key]
    if len(columns) != 1:
      raise bad_table.bad_header(path, None, f"has {len(columns)} columns of classes, not one")
    table = read_lib.texts(path, delimiter, names)
    if (are_missing := table[columns[0]].isna()).any():
      raise bad_table.bad_cell(path, int(are_missing.argmax()), columns[0], "a cell is missing")
    return self._aligned(table, first, path)[columns[0]].to_numpy()

  def digests(self) -> dict[str, str]:
    """Returns the SHA-256 of every file by its client and view."""
    return clients_lib.digests({
        f"{client_id}/{view}": path
        for client_id, paths in self._paths.items() for view, path in paths.items()
    })


def open_folder(directory: str, schemas: schema_lib.Schemas, *, private: bool = False) -> Views:
  """Returns the clients of a folder.

  Without `private`, all files are read once, so that what is wrong is said before anything else.
  With it, row i is the same record in all views: a key could change to which rows others belong.

  Raises:
    ValueError: If the folder can't be used, a client has other views, or in a private run the
      schemas have a key or do not say enough.
    BadTable: If a file can't be used.
  """
  if private:
    for one in schemas.values():
      one.check_private()
      if one.key is not None:
        raise validate.error("primaryKey", "be left out of views in a private run", one.key)
  paths = client_files(directory)
  has_labels = LABELS in next(iter(paths.values()))
  wanted = {*schemas, *([LABELS] if has_labels else [])}
  for client_id, files in paths.items():
    if set(files) != wanted:
      rule = f"hold the views {', '.join(sorted(wanted))} of client {client_id!r}"
      raise validate.error("data_dir", rule, ", ".join(sorted(files)))
  views = Views(paths, schemas, private)
  if not private:
    _ = views.num_rows  # Reads all files.
  return views
