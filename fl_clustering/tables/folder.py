"""A folder of clients' tables, whose files are read once.

A folder has a file per client, `ID.csv`, `ID.csv.gz`, `ID.parquet` or `ID.npz`.  Where the schema
names a column for the client, the files' rows are those of several clients.

Of several views, a folder has a folder per client, with a file per view.  Where the views' schemas
have a key, their rows are joined by it, one to one, in the order of the first view; else row i is
the same everywhere.  A client may have a file `labels`, with a column of classes and the key if
there is one, of which nothing but scores is made.  Every other file is a view, whatever its name
is.
"""

from __future__ import annotations

import array
import collections
import collections.abc
import dataclasses
import functools
import hashlib
import os
import tempfile
from typing import Any, BinaryIO, Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from clustering_basics import validate
from fl_clustering.points import given_clients
from fl_clustering.tables import bad_table
from fl_clustering.tables import encode
from fl_clustering.tables import read as read_lib
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import typed_files

ENDINGS = (*bad_table.TEXT_FILES, *typed_files.ENDINGS)
LABELS = "labels"
# Of features that are scaled at a time.
_BLOCK_CELLS = 2**22

# The places of clients' rows among all that were read.
_Places = Mapping[str, range | np.ndarray]
_Digests = Mapping[str, Any]


def files(directory: str) -> dict[str, str]:
  """Returns the paths of a folder's tables by the names before their endings, in order.

  Names that begin with a dot are left out.

  Raises:
    ValueError: If there is none, a file has another ending, two have the same name, or there is a
      folder.
  """
  found: dict[str, str] = {}
  for entry in entries(directory):
    path = os.path.join(directory, entry)
    ending = next((one for one in ENDINGS if entry.endswith(one)), None)
    if os.path.isdir(path):
      raise validate.error("data_dir", "hold files, and no folder", path)
    if ending is None:
      raise validate.error("data_dir", f"hold files that end in {', '.join(ENDINGS)}", path)
    name = entry.removesuffix(ending)
    if name in found:
      raise validate.error("data_dir", f"hold one file for {name!r}", path)
    found[name] = path
  if not found:
    raise validate.error("data_dir", f"hold a file that ends in {', '.join(ENDINGS)}", directory)
  return found


def entries(directory: str) -> list[str]:
  """Returns the names in a folder, in order, but for those that begin with a dot."""
  try:
    entries = sorted(entry for entry in os.listdir(directory) if not entry.startswith("."))
  except OSError as e:
    rule = f"be a folder that can be read ({e.strerror})"
    raise validate.error("data_dir", rule, directory) from e
  for entry in entries:
    validate.utf_8(data_dir=entry)
  return entries


def client_files(directory: str) -> dict[str, dict[str, str]]:
  """Returns the paths of every client's files by view."""
  found = {}
  for entry in entries(directory):
    folder = os.path.join(directory, entry)
    if not os.path.isdir(folder):
      raise validate.error("data_dir", "hold a folder per client, with a file per view", folder)
    found[entry] = files(folder)
  if not found:
    raise validate.error("data_dir", "hold a folder per client", directory)
  return given_clients.sorted_by_id(found)


@dataclasses.dataclass(frozen=True, eq=False)
class ClientRows:
  """The n rows of a client.

  Attributes:
    features: float64 of shape (n, d), those of all views side by side, in the data's units until
      `Folder.scale`; NaN where a cell is missing.
    places: int64 of shape (n,), the rows' places from 0 in the client's file, or in the files that
      clients share one after another.
    keys: Texts of shape (n,), of the column that names the rows; None without.
    labels: Likewise of the label's column, or of the views' file `labels`.
    parts: Likewise of the column that says `train` or `test`.
  """

  features: np.ndarray
  places: np.ndarray
  keys: np.ndarray | None = None
  labels: np.ndarray | None = None
  parts: np.ndarray | None = None


class _Rows:
  """Rows as they are read: their features are in a file, and their texts are here by role."""

  def __init__(
      self, file: BinaryIO, schemas: schema_lib.Schemas, roles: Iterable[str]
  ) -> None:
    self._file, self._num_features = file, len(schema_lib.feature_names(schemas))
    self.num_rows = 0
    self.texts: dict[str, list[str | None]] = {role: [] for role in roles}

  def add(self, features: np.ndarray, texts: Mapping[str, Iterable[str | None]]) -> None:
    self._file.write(np.ascontiguousarray(features).data)
    self.num_rows += len(features)
    for role, column in texts.items():
      self.texts[role].extend(column)

  def features(self) -> np.ndarray:
    """Returns the features of all rows, which the file holds."""
    shape = (self.num_rows, self._num_features)
    if not self.num_rows:
      return np.zeros(shape)
    self._file.flush()
    return np.memmap(self._file, np.float64, "r+", shape=shape).view(np.ndarray)


class Folder(collections.abc.Mapping[str, ClientRows]):
  """The rows of a folder's clients by client id, in order.

  Attributes:
    schemas: What the tables hold, by view.
    num_rows: How many rows every client has.
    digests: The SHA-256 of every file by its name, of a view's file by `CLIENT/VIEW`; of none in
      private reading.
  """

  def __init__(
      self, schemas: schema_lib.Schemas, rows: _Rows, places: _Places, digests: _Digests
  ) -> None:
    """Use `open_folder`."""
    self.schemas, self._features, self._places = dict(schemas), rows.features(), dict(places)
    self._texts = {role: np.array(own, object) for role, own in rows.texts.items()}
    self.num_rows = {client_id: len(own) for client_id, own in places.items()}
    self.digests = {name: digest.hexdigest() for name, digest in digests.items()}

  def __getitem__(self, client_id: str) -> ClientRows:
    """Returns a client's rows; of a client with a file of its own, the features are no copy."""
    places: Any = self._places[client_id]
    own, rows = places, places
    if isinstance(places, range):
      own, rows = np.arange(len(places)), slice(places.start, places.stop)
    keys, labels, parts = (
        self._texts[role][rows] if role in self._texts else None
        for role in ("key", "label", "split")
    )
    return ClientRows(self._features[rows], own, keys, labels, parts)

  def __iter__(self) -> Iterator[str]:
    return iter(self._places)

  def __len__(self) -> int:
    return len(self._places)

  def scale(self, scaling: Callable[[np.ndarray], np.ndarray]) -> None:
    """Replaces the features, in place, by what a function makes of blocks of shape (n, d)."""
    num_rows = max(1, _BLOCK_CELLS // self._features.shape[1])
    for start in range(0, len(self._features), num_rows):
      block = self._features[start : start + num_rows]
      block[:] = scaling(block)

  @functools.cached_property
  def means(self) -> np.ndarray:
    """The features' means over the cells that are there, before `scale`, of shape (d,).

    Raises:
      ValueError: If a feature has no value.
    """
    features = (rows.features for rows in self.values())
    return encode.means(features, schema_lib.feature_names(self.schemas))

  @functools.cached_property
  def missing(self) -> dict[str, int]:
    """How many cells of each column of features are missing, before `scale`, if any."""
    fields = [
        schema_lib.in_view(view, field.name)
        for view, one in self.schemas.items() for field in one.features for _ in field.feature_names
    ]
    counts = sum(np.isnan(rows.features).sum(axis=0) for rows in self.values())
    return {name: int(number) for name, number in zip(fields, counts) if number}

  def classes(self) -> tuple[str, ...]:
    """Returns the classes in their order: the schema's, or else those of all rows, sorted."""
    schema = self.schemas.get(schema_lib.NO_VIEW)
    if schema is not None and schema.classes is not None:
      return schema.classes
    return encode.in_order({*self._texts.get("label", ())})

  def row_names(self, client_id: str) -> dict[str, list[Any]]:
    """Returns the columns that name a client's rows: their place, from 1, and their key if any."""
    rows = self[client_id]
    names: dict[str, list[Any]] = {"row": (rows.places + 1).tolist()}
    return names if rows.keys is None else {**names, "id": rows.keys.tolist()}


def open_folder(
    directory: str, schemas: schema_lib.Schemas, *, private: bool = False
) -> Folder:
  """Returns the rows of a folder's clients.

  In private reading no row is an error, or changes how another one is read, and a client's own file
  that can't be read has no rows.  Row i is the same record in all views then: a key could change to
  which rows others belong.

  Args:
    schemas: What the tables hold, by view.
    private: Whether it is private reading.

  Raises:
    ValueError: If the folder can't be used, a client has other views, or in private reading the
      schemas have a key of views or do not say enough.
    BadTable: If a file can't be used.
  """
  has_views = schema_lib.NO_VIEW not in schemas
  for one in schemas.values() if private else ():
    one.check_private()
    if has_views and one.key is not None:
      raise validate.error("primaryKey", "be left out of views in a private run", one.key)
  # No folder lists it, and it goes with the last array that is in it.
  with tempfile.TemporaryFile() as file:
    if has_views:
      return _read_views(file, client_files(directory), schemas, private)
    return _read_tables(file, files(directory), schemas, private)


def _blocks(
    path: str, schema: schema_lib.Schema, private: bool, digest: Any
) -> Iterable[Mapping[str, np.ndarray]]:
  """Returns what `read.blocks` yields; in private, of all of a client's own file or of nothing."""
  blocks = read_lib.blocks(path, schema, private=private, digest=digest)
  if not private or schema.client is not None:
    return blocks
  try:
    return [*blocks]
  except Exception:  # pylint: disable=broad-exception-caught
    # A private client's file may hold any bytes, which libraries meet with any exception.
    return []


def _read_tables(
    file: BinaryIO, paths: Mapping[str, str], schemas: schema_lib.Schemas, private: bool
) -> Folder:
  """Reads tables without views; their features go into a file."""
  schema = schemas[schema_lib.NO_VIEW]
  rows = _Rows(file, schemas, schema.roles)
  digests = {} if private else {name: hashlib.sha256() for name in paths}
  places: dict[str, range | np.ndarray] = {}
  for name in paths if schema.client is not None else given_clients.sorted_by_id(paths):
    first = rows.num_rows
    for columns in _blocks(paths[name], schema, private, digests.get(name)):
      texts = {role: columns[column] for role, column in schema.roles.items()}
      rows.add(encode.numbers(columns, schema), texts)
    places[name] = range(first, rows.num_rows)
  if schema.client is not None:
    shared: dict[str, array.array] = collections.defaultdict(lambda: array.array("q"))
    for place, client_id in enumerate(rows.texts["client"]):
      if client_id is not None:  # In private reading, it may be missing.
        shared[client_id].append(place)
    places = {name: np.array(own) for name, own in given_clients.sorted_by_id(shared).items()}
  return Folder(schemas, rows, places, digests)


def _read_views(
    file: BinaryIO, paths: Mapping[str, Mapping[str, str]], schemas: schema_lib.Schemas,
    private: bool,
) -> Folder:
  """Reads tables of several views, and the classes unless the rows are private or later ones."""
  has_labels, first = LABELS in next(iter(paths.values())), next(iter(schemas.values()))
  wanted = {*schemas, *([LABELS] if has_labels else [])}
  for client_id, files in paths.items():
    if set(files) != wanted:
      rule = f"hold the views {', '.join(sorted(wanted))} of client {client_id!r}"
      raise validate.error("data_dir", rule, ", ".join(sorted(files)))
  used = wanted if not private and not first.is_later else {*schemas}
  digests = {} if private else {
      f"{client_id}/{view}": hashlib.sha256()
      for client_id, files in paths.items() for view in files if view in used
  }
  roles = [*(["key"] if first.key is not None else []), *(["label"] if LABELS in used else [])]
  rows, places = _Rows(file, schemas, roles), dict[str, range]()
  for client_id, files in paths.items():
    tables = {
        view: read_lib.joined(
            _blocks(files[view], one, private, digests.get(f"{client_id}/{view}")), one
        ) for view, one in schemas.items()
    }
    features = [encode.numbers(tables[view], one) for view, one in schemas.items()]
    texts: Mapping[str, Any] = {}
    if private:  # What some view has no record for is none.
      num_rows = min(map(len, features))
      features = [own[:num_rows] for own in features]
    else:
      names: list[Sequence[Any]] = [
          range(len(own)) if first.key is None else tables[view][first.key].tolist()
          for view, own in zip(schemas, features)
      ]
      features = [
          own[_order(files[view], first.key, own_names, names[0])]
          for view, own, own_names in zip(schemas, features, names)
      ]
      texts = {} if first.key is None else {"key": names[0]}
    start = rows.num_rows
    rows.add(np.concatenate(features, axis=1), texts)
    places[client_id] = range(start, rows.num_rows)
  if LABELS in used:
    for client_id, files in paths.items():
      own = places[client_id]
      of_first: Sequence[Any] = own
      if first.key is not None:
        of_first = rows.texts["key"][own.start : own.stop]
      labels = _labels(files[LABELS], first, of_first, digests[f"{client_id}/{LABELS}"])
      rows.texts["label"].extend(labels)
  return Folder(schemas, rows, places, digests)


def _order(
    path: str, key: str | None, names: Sequence[Any], first: Sequence[Any]
) -> slice | np.ndarray:
  """Returns the places of a table's rows in the order of its client's first view.

  Args:
    names: The keys of the table's rows, or without a key what is as long.
    first: Those of the first view.
  """
  if len(names) != len(first):
    rule = f"has {len(names)} rows, and the first view of its client {len(first)}"
    raise bad_table.BadTable(path, None, None, rule)
  if key is None:
    return slice(None)
  places = encode.positions(first, names)
  if (places < 0).any():
    name = first[int((places < 0).argmax())]
    raise bad_table.BadTable(path, None, key, f"lacks {name!r}, which another view has")
  return places


def _labels(
    path: str, schema: schema_lib.Schema, first: Sequence[Any], digest: Any
) -> np.ndarray:
  """Returns the classes in a file, in the order of the first view's rows.

  Args:
    schema: That of a view.
  """
  names = read_lib.header(path, schema.delimiter)
  if schema.key not in (None, *names):
    rule = f"is not among the columns {bad_table.listed(names)}"
    raise bad_table.bad_header(path, schema.key, f"{rule}, and names the rows of the views")
  columns = [name for name in names if name != schema.key]
  if len(columns) != 1:
    raise bad_table.bad_header(path, None, f"has {len(columns)} columns of classes, not one")
  table = read_lib.texts(path, schema.delimiter, names, digest)
  if (are_missing := table[columns[0]].isna()).any():
    raise bad_table.bad_cell(path, int(are_missing.argmax()), columns[0], "a cell is missing")
  labels = table[columns[0]].to_numpy()
  return labels[_order(path, schema.key, table[schema.key or columns[0]].to_list(), first)]
