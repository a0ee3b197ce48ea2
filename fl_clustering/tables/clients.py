"""A folder of clients' files, read when they are asked for.

A folder has a file per client, `ID.csv`, `ID.csv.gz`, `ID.parquet` or `ID.npz`.  Where the schema
names a column for the client, the files' rows are those of several clients.
"""

from __future__ import annotations

import collections.abc
import functools
import hashlib
import os
from typing import Any, Iterator, Mapping, TYPE_CHECKING

from clustering_basics import validate
from fl_clustering.points import given_clients
from fl_clustering.tables import bad_table
from fl_clustering.tables import encode
from fl_clustering.tables import read as read_lib
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import typed_files

if TYPE_CHECKING:
  import pandas as pd

ENDINGS = (*bad_table.TEXT_FILES, *typed_files.ENDINGS)


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


class Clients(collections.abc.Mapping):
  """Clients' tables by client id, in order; each is read when it is asked for.

  Tables that clients share are read once, and kept.  In private reading, a client's own file that
  can't be read has no rows.

  Attributes:
    schema: What they hold.
  """

  def __init__(
      self, paths: Mapping[str, str], schema: schema_lib.Schema, private: bool = False
  ) -> None:
    """Opens files.

    Args:
      paths: Those of `files`.
      private: Whether no row may be an error, or change how another one is read.
    """
    self.schema = schema
    self._paths, self._private = dict(paths), private
    # Some ask for a client's features, and then for its rows.
    self._read = functools.lru_cache(maxsize=1)(self._read_path)

  def _read_path(self, path: str) -> pd.DataFrame:
    try:
      return read_lib.read(path, self.schema, private=self._private)
    except Exception:  # pylint: disable=broad-exception-caught
      # A private client's file may hold any bytes, which libraries meet with any exception.
      if self._private and self.schema.client is None:
        return read_lib.no_rows(self.schema)
      raise

  @functools.cached_property
  def _shared(self) -> dict[str, list[pd.DataFrame]]:
    """Every client's rows in the tables that clients share, which are read once."""
    found: dict[str, list[pd.DataFrame]] = {}
    num_before = 0
    for path in self._paths.values():
      table = self._read_path(path)
      table.index += num_before
      num_before += len(table)
      for client_id, rows in table.groupby(self.schema.client, sort=False):
        found.setdefault(client_id, []).append(rows)
    return found

  def classes(self) -> tuple[str, ...]:
    """Returns the classes in their order: the schema's, or else those of all clients, sorted."""
    if self.schema.classes is not None:
      return self.schema.classes
    return encode.in_order({label for table in self.values() for label in table[self.schema.label]})

  @functools.cached_property
  def _ids(self) -> tuple[str, ...]:
    one_each = self.schema.client is None
    return tuple(given_clients.sorted_by_id(self._paths if one_each else self._shared))

  def __getitem__(self, client_id: str) -> pd.DataFrame:
    """Returns a client's rows, with the columns of the schema.

    The index has their places in the file, or in the files that clients share one after another.
    """
    import pandas as pd  # pylint: disable=g-import-not-at-top

    if self.schema.client is None:
      return self._read(self._paths[client_id]).copy()
    return pd.concat(self._shared[client_id])

  def __iter__(self) -> Iterator[str]:
    return iter(self._ids)

  def __len__(self) -> int:
    return len(self._ids)

  @functools.cached_property
  def num_rows(self) -> dict[str, int]:
    """The number of every client's rows."""
    return {client_id: len(self[client_id]) for client_id in self}

  def row_names(self, table: pd.DataFrame) -> dict[str, list[Any]]:
    """Returns the columns that name a client's rows: their place, from 1, and their key if any."""
    return row_names(table, self.schema.key)

  def digests(self) -> dict[str, str]:
    """Returns the SHA-256 of every file by its name; not for private runs."""
    return digests(self._paths)


def digests(paths: Mapping[str, str]) -> dict[str, str]:
  """Returns the SHA-256 of files by their names."""
  found = {}
  for name, path in paths.items():
    digest = hashlib.sha256()
    with open(path, "rb") as file:
      while block := file.read(2**20):
        digest.update(block)
    found[name] = digest.hexdigest()
  return found


def open_folder(
    directory: str, schema: schema_lib.Schema, *, private: bool = False
) -> Clients:
  """Returns the clients of a folder.

  Without `private`, all files are read once, so that what is wrong is said before anything else.

  Raises:
    ValueError: If the folder can't be used, or in a private run the schema does not say enough.
    BadTable: If a file can't be used.
  """
  if private:
    schema.check_private()
  paths = files(directory)
  clients = Clients(paths, schema, private)
  if not private:
    _ = clients.num_rows  # Reads all files.
  return clients


def row_names(table: pd.DataFrame, key: str | None) -> dict[str, list[Any]]:
  """Returns the columns that name rows: their place, from 1, and their key if any."""
  names = {"row": (table.index + 1).tolist()}
  return names if key is None else {**names, "id": table[key].tolist()}
