"""Where every client's rows are: in a file of its own, or in files that it shares with others."""

import contextlib
import dataclasses
import hashlib
import os
from typing import Callable, Mapping

import numpy as np
import psutil

from fl_clustering.points import given_clients
from fl_clustering.tables import cells
from fl_clustering.tables import findings
from fl_clustering.tables import headers
from fl_clustering.tables import table_files
from fl_clustering.tables import table_options


# What reading a table takes at least: its text, or its numbers, and a copy.
_LEAST_BYTES_PER_BYTE = 2


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
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
    return Rows(columns, self.numbers[chosen])

  def digest(self):
    """Returns a digest of the cells, whatever the order of the columns."""
    digest = hashlib.sha256()
    for name, column in sorted(self.cells.items()):
      digest.update(repr(name).encode())
      is_text = column.dtype == object
      digest.update(repr(column.tolist()).encode() if is_text else column.tobytes())
    return digest.digest()


@contextlib.contextmanager
def refusing(argument, path):
  """Turns a `BadTable` into an `UnusableTables` that names the file."""
  try:
    yield
  except cells.BadTable as e:
    found = findings.Finding(e.path or path, str(e), e.hints, e.fix)
    raise findings.UnusableTables(argument, [found]) from e


@dataclasses.dataclass(frozen=True, eq=False)
class RowSources:
  """Every client's rows, which are read when asked for.

  Attributes:
    paths: The path of every client's file by client id, in the order of the clients.
    argument: What messages call the folder of the files.
  """

  paths: Mapping[str, str]
  argument: str
  _read: Callable[[str], Rows]

  def refusing(self, client_id):
    """Returns a context that turns a `BadTable` into a ValueError that names the file."""
    return refusing(self.argument, self.paths[client_id])

  def read(self, client_id):
    """Returns the `Rows` of a client; a ValueError says what can't be used."""
    with self.refusing(client_id):
      return self._read(client_id)


def check_memory(paths, options, argument):
  """Raises a ValueError if the largest file, or with `client_column` all, can't fit into memory.

  Args:
    paths: A mapping of anything to a path.
    options: `TableOptions`.
    argument: What messages call the folder that the files are in.
  """
  available = psutil.virtual_memory().available
  sizes = {path: _LEAST_BYTES_PER_BYTE * os.path.getsize(path) for path in paths.values()}
  if options.client_column is not None:
    sizes = {next(iter(sizes)): sum(sizes.values())}
  path = max(sizes, key=sizes.get)
  if sizes[path] > available:
    raise ValueError(
        f"`{argument}` must hold tables that fit into memory, of which {available / 1e9:.1f} GB "
        f"are free, got {path!r}, which takes {sizes[path] / 1e9:.1f} GB at least."
    )


def read_heads(paths, options, argument):
  """Returns the `Head`s of files, with names, under the keys of their paths.

  Args:
    paths: A mapping of anything to a path.
    options: `TableOptions`.
    argument: What messages call the folder that the files are in.
  """
  check_memory(paths, options, argument)
  heads = []
  with findings.gathered(argument) as part:
    for path in paths.values():
      with part(), refusing(argument, path):
        heads.append(table_files.read_head(path, options))
  with refusing(argument, None):
    return dict(zip(paths, headers.with_names(heads, options.header)))


def open_heads(heads, columns, options, argument):
  """Returns the `RowSources` of files.

  Args:
    heads: A mapping from client id to `Head`; with `client_column` from anything.
    columns: The `Columns` that are used.
    options: `TableOptions`.
    argument: What messages call the folder that the files are in.
  """
  # Rows of private algorithms need no names.
  needed = {
      name for role, name in columns.roles.items()
      if role != "id_column" or not options.allow_any_number
  }
  if options.missing == table_options.ERROR and not options.allow_any_number:
    needed |= set(columns.features)

  def read(head):
    table = table_files.read(head, columns, needed, options.allow_any_number)
    return Rows(table, np.arange(1, len(next(iter(table.values()))) + 1))

  def read_client(client_id):
    rows = read(heads[client_id])
    if not len(rows.numbers) and not options.allow_any_number:
      raise cells.BadTable("it has no rows")
    return rows

  if options.client_column is None:
    paths = {client_id: head.path for client_id, head in heads.items()}
    return RowSources(paths, argument, read_client)
  files = {}
  with findings.gathered(argument) as part:
    for head in heads.values():
      with part(), refusing(argument, head.path):
        files[head.path] = read(head)
  return _shared(files, options.client_column, argument)


def _shared(files, client_column, argument):
  """Returns the sources of files with the rows of several clients, which stay in memory."""
  names = next(iter(files.values())).cells
  joined = Rows(
      {name: np.concatenate([rows.cells[name] for rows in files.values()]) for name in names},
      np.concatenate([rows.numbers for rows in files.values()]),
  )
  if not len(joined.numbers):
    with refusing(argument, next(iter(files))):
      raise cells.BadTable("it has no rows")
  owners = joined.cells[client_column]
  files_of_rows = np.repeat(list(files), [len(rows.numbers) for rows in files.values()])
  paths = given_clients.sorted_by_id({
      client_id: str(files_of_rows[owners == client_id][0]) for client_id in set(owners)
  })
  return RowSources(paths, argument, lambda client_id: joined.take(owners == client_id))
