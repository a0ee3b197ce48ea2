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

import collections.abc
import dataclasses
import functools
import hashlib
import os
import tempfile
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

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


def _on_disk(blocks: Iterable[np.ndarray], num_columns: int) -> np.ndarray:
  """Returns float64 rows, of shape (n, num_columns), which are in a file that no folder lists.

  It goes with the last array that is in it.
  """
  with tempfile.TemporaryFile() as file:
    for block in blocks:
      file.write(np.ascontiguousarray(block, np.float64).data)
    file.flush()
    num_rows = file.tell() // (8 * num_columns)
    if not num_rows:
      return np.zeros((0, num_columns))
    return np.memmap(file, np.float64, "r+", shape=(num_rows, num_columns)).view(np.ndarray)


def _spans(features: np.ndarray) -> Iterator[slice]:
  """Yields the parts of rows that fit into memory together."""
  num_rows = max(1, _BLOCK_CELLS // features.shape[1])
  for start in range(0, len(features), num_rows):
    yield slice(start, start + num_rows)


class Folder(collections.abc.Mapping[str, ClientRows]):
  """The rows of a folder's clients by client id, in order; each client's are side by side.

  Attributes:
    schemas: What the tables hold, by view.
    num_rows: How many rows every client has.
    digests: The SHA-256 of every file by its name, of a view's file by `CLIENT/VIEW`; of none in
      private reading.
    reports: In private reading, what became of every file, by its path in the folder; for the owner
      alone.
  """

  def __init__(
      self, schemas: schema_lib.Schemas, features: np.ndarray, texts: Mapping[str, np.ndarray],
      places: Mapping[str, slice], read: _Files, read_as: np.ndarray | None = None,
  ) -> None:
    """Use `open_folder`.

    Args:
      texts: By role, those of all rows.
      places: The clients' rows among these.
      read: What read them.
      read_as: The rows' places in the files that clients share.
    """
    self.schemas, self._features, self._texts = dict(schemas), features, dict(texts)
    self._places, self._read_as = dict(places), read_as
    self.num_rows = {client_id: own.stop - own.start for client_id, own in places.items()}
    self.digests = {name: digest.hexdigest() for name, digest in read.digests.items()}
    self.reports = {name: f"{report}" for name, report in read.reports.items()}

  def __getitem__(self, client_id: str) -> ClientRows:
    """Returns a client's rows, which are no copy."""
    rows = self._places[client_id]
    own = np.arange(rows.stop - rows.start) if self._read_as is None else self._read_as[rows]
    return ClientRows(self._features[rows], own, *(
        self._texts[role][rows] if role in self._texts else None
        for role in ("key", "label", "split")
    ))

  def __iter__(self) -> Iterator[str]:
    return iter(self._places)

  def __len__(self) -> int:
    return len(self._places)

  def scale(self, scaling: Callable[[np.ndarray], np.ndarray]) -> None:
    """Replaces the features, in place, by what a function makes of blocks of shape (n, d)."""
    for rows in _spans(self._features):
      self._features[rows] = scaling(self._features[rows])

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


class _Files:
  """A folder's files as they are read; see `Folder`."""

  def __init__(self, directory: str, private: bool) -> None:
    self._directory, self.private = directory, private
    self.digests: dict[str, Any] = {}
    self.reports: dict[str, Any] = {}

  def blocks(
      self, name: str, path: str, schema: schema_lib.Schema
  ) -> Iterable[Mapping[str, np.ndarray]]:
    """Returns what `read.blocks` yields; in private, of all of a client's own file or of nothing.

    Args:
      name: That of the file's digest.
    """
    if not self.private:
      return read_lib.blocks(path, schema, digest=self.digest(name))
    report = os.path.relpath(path, self._directory)
    counts = self.reports[report] = read_lib.Counts()
    blocks = read_lib.blocks(path, schema, private=True, counts=counts)
    if schema.client is not None:
      return blocks
    try:
      return [*blocks]
    except MemoryError:  # Its rows would be lost for want of room, which is no one's choice.
      raise
    except Exception as e:  # pylint: disable=broad-exception-caught
      # A private client's file may hold any bytes, which libraries meet with any exception.
      self.reports[report] = "no rows, as it can't be read: " + f"{e}".partition("\n")[0]
      return []

  def digest(self, name: str) -> Any:
    """Returns the digest of a file that is not private, to which its bytes are to be given."""
    return self.digests.setdefault(name, hashlib.sha256())


def open_folder(
    directory: str, schemas: schema_lib.Schemas, *, private: bool = False
) -> Folder:
  """Returns the rows of a folder's clients.

  In private reading no row is an error, or changes how another one is read, and a client's own file
  that can't be read has no rows.  Row i is the same record in all views then.

  Args:
    schemas: What the tables hold, by view.
    private: Whether it is private reading; `saved.SavedTables.private` then says if the schemas say
      enough.

  Raises:
    ValueError: If the folder can't be used, or a client has other views.
    BadTable: If a file can't be used.
  """
  read = _Files(directory, private)
  return (_read_views if schema_lib.NO_VIEW not in schemas else _read_tables)(
      directory, schemas, read
  )


def _read_tables(directory: str, schemas: schema_lib.Schemas, read: _Files) -> Folder:
  """Reads tables without views."""
  schema, paths = schemas[schema_lib.NO_VIEW], files(directory)
  if schema.client is None:
    paths = given_clients.sorted_by_id(paths)
  texts: dict[str, list[str | None]] = {role: [] for role in schema.roles}
  ends = [0]

  def blocks() -> Iterator[np.ndarray]:
    for name, path in paths.items():
      ends.append(ends[-1])
      for columns in read.blocks(name, path, schema):
        for role, column in schema.roles.items():
          texts[role].extend(columns[column])
        features = encode.numbers(columns, schema)
        ends[-1] += len(features)
        yield features

  features = _on_disk(blocks(), len(schema.feature_names))
  of_clients = texts.pop("client", None)
  arrays = {role: np.array(own, object) for role, own in texts.items()}
  if of_clients is None:
    return Folder(schemas, features, arrays, dict(zip(paths, map(slice, ends, ends[1:]))), read)
  ids = given_clients.sorted_by_id(dict.fromkeys(one for one in of_clients if one is not None))
  clients = encode.positions(of_clients, ids)
  order = np.argsort(clients, kind="stable")
  order = order[np.count_nonzero(clients < 0) :]  # In private reading, rows may be of none.
  starts = np.searchsorted(clients[order], range(len(ids) + 1)).tolist()
  return Folder(
      schemas, _on_disk((features[order[rows]] for rows in _spans(features)), features.shape[1]),
      {role: own[order] for role, own in arrays.items()},
      dict(zip(ids, map(slice, starts, starts[1:]))), read, order,
  )


def _read_views(directory: str, schemas: schema_lib.Schemas, read: _Files) -> Folder:
  """Reads tables of several views, and the classes unless the rows are private or later ones."""
  paths, first = client_files(directory), next(iter(schemas.values()))
  has_labels = LABELS in next(iter(paths.values()))
  wanted = {*schemas, *([LABELS] if has_labels else [])}
  for client_id, own in paths.items():
    if set(own) != wanted:
      rule = f"hold the views {', '.join(sorted(wanted))} of client {client_id!r}"
      raise validate.error("data_dir", rule, ", ".join(sorted(own)))
  uses_labels = has_labels and not read.private and not first.is_later
  texts = {"key": list[str](), "label": list[str]()}
  ends = [0]

  def blocks() -> Iterator[np.ndarray]:
    for client_id, own in paths.items():
      tables = {
          view: read_lib.joined(read.blocks(f"{client_id}/{view}", own[view], one), one)
          for view, one in schemas.items()
      }
      features = [encode.numbers(tables[view], one) for view, one in schemas.items()]
      if read.private:  # What some view has no record for is none.
        features = [one[: min(map(len, features))] for one in features]
      else:
        names: list[Sequence[Any]] = [
            range(len(one)) if first.key is None else tables[view][first.key].tolist()
            for view, one in zip(schemas, features)
        ]
        features = [
            one[_order(own[view], first.key, own_names, names[0])]
            for view, one, own_names in zip(schemas, features, names)
        ]
        texts["key"].extend(names[0] if first.key is not None else ())
        if uses_labels:
          digest = read.digest(f"{client_id}/{LABELS}")
          texts["label"].extend(_labels(own[LABELS], first, names[0], digest))
      ends.append(ends[-1] + len(features[0]))
      yield np.concatenate(features, axis=1)

  features = _on_disk(blocks(), len(schema_lib.feature_names(schemas)))
  used = {"key": first.key is not None and not read.private, "label": uses_labels}
  arrays = {role: np.array(own, object) for role, own in texts.items() if used[role]}
  return Folder(schemas, features, arrays, dict(zip(paths, map(slice, ends, ends[1:]))), read)


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
