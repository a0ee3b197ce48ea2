"""Clients that see their rows in several views: a folder per client with a file per view.

  data/
    hospital_a/  pixels.npy  fourier.csv  labels.csv
    hospital_b/  pixels.npy  fourier.csv  labels.csv

A file is a view, named after the file without its ending; every client has the same views.  Row
i of every file of a client is the client's row i.  The files are read as those of
`client_tables`: the columns of a view are known by name.

`labels` is no view.  It has one column, besides one of ids, with known classes: integers or text.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from typing import Mapping, Sequence

import numpy as np

from clustering_basics import validate
from fl_clustering.points import given_clients
from fl_clustering.tables import cells
from fl_clustering.tables import client_tables
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import oddities
from fl_clustering.tables import problems
from fl_clustering.tables import reader
from fl_clustering.tables import rows as rows_lib
from fl_clustering.tables import table_format
from fl_clustering.tables import table_options
from fl_clustering.tables import text_files
from fl_clustering.tables import view_keys

LABELS = "labels"
# What does not apply to views, and why.
_REFUSED = {
    "columns": "views have all their columns but those in `exclude`",
    "client_column": "every client has a folder of its own",
    "label_column": f"classes are in the files {LABELS!r}",
    "split_column": "all rows are clustered",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Labels:
  """The known classes of all rows: their names, and positions in these by client id, (n,)."""

  classes: tuple[str, ...]
  by_client: Mapping[str, np.ndarray]

  @property
  def odd(self) -> tuple[str, ...]:
    """What is odd about the classes, in words."""
    clients_of: dict[str, list[str]] = {}
    for client_id, numbers in self.by_client.items():
      for number in np.unique(numbers):
        clients_of.setdefault(self.classes[number], []).append(client_id)
    return tuple(oddities.of_classes(clients_of))


@dataclasses.dataclass(frozen=True, eq=False)
class ViewTables:
  """The views of all clients, which are read one client at a time.

  Attributes:
    views: The `ClientTables` of every view by its name.
    labels: The known classes, if there are any.
    told: What is odd about the classes, and about columns that several views have, in words.
  """

  views: Mapping[str, client_tables.ClientTables]
  labels: Labels | None = None
  told: tuple[str, ...] = ()

  @property
  def num_rows(self) -> Mapping[str, int]:
    """The clients' numbers of rows, by client id."""
    return next(iter(self.views.values())).num_rows

  @property
  def warnings(self) -> tuple[str, ...]:
    """What is odd about the rows, in words."""
    return (*self.told, *(
        f"view {name}: {text}" for name, view in self.views.items() for text in view.warnings
    ))

  @property
  def classes_told(self) -> str:
    """The names of the known classes, in words; "" if there are none."""
    return "" if self.labels is None else problems.listed(self.labels.classes)

  @property
  def client_ids(self) -> tuple[str, ...]:
    """The clients' ids, in order."""
    return tuple(self.num_rows)

  @property
  def number_columns(self) -> frozenset[str]:
    """The columns that are features as numbers, in any view."""
    return frozenset().union(*(view.number_columns for view in self.views.values()))

  @property
  def format(self) -> table_format.ViewFormat:
    """The `ViewFormat`."""
    return table_format.ViewFormat({name: view.format for name, view in self.views.items()})

  @property
  def digests(self) -> Mapping[str, str]:
    """A digest of what is used of every client, in hex, by client id."""
    found = {}
    for client_id in self.client_ids:
      known = [view.digests[client_id] for view in self.views.values()]
      if self.labels is not None:
        known.append(repr(self.labels.by_client[client_id].tolist()))
      found[client_id] = hashlib.sha256(repr(known).encode()).hexdigest()
    return found

  @property
  def sha256(self) -> str:
    """A digest of all that is used, in hex."""
    digest = hashlib.sha256()
    for name, view in self.views.items():
      digest.update(repr((name, view.sha256)).encode())
    if self.labels is not None:
      digest.update(repr(self.labels.classes).encode())
      for labels in self.labels.by_client.values():
        digest.update(labels.tobytes())
    return digest.hexdigest()

  def read(self, client_id: str) -> client_tables.ClientTable:
    """Returns the `ClientTable` of a client, without labels: the views side by side."""
    tables = _of_common_rows([view.read(client_id) for view in self.views.values()])
    ids = [table.row_ids for table in tables if table.row_ids is not None]
    features = np.concatenate([table.features for table in tables], axis=1)
    # Later files of a view may have none.
    return client_tables.ClientTable(
        features, None, None, tables[0].rows, next((one for one in ids if any(one)), None)
    )

  def filled(self) -> ViewTables:
    """Returns the same tables, with missing values filled in as the options say.

    Raises:
      ValueError: If a column has no value.
    """
    views = {name: view.filled() for name, view in self.views.items()}
    return dataclasses.replace(self, views=views)


def _of_common_rows(
    tables: Sequence[client_tables.ClientTable],
) -> list[client_tables.ClientTable]:
  """Returns the `ClientTable`s of a client's views without rows that one of them left out."""
  common = functools.reduce(np.intersect1d, (table.rows for table in tables))
  return [
      table if len(table.rows) == len(common) else table.take(np.isin(table.rows, common))
      for table in tables
  ]


def _folders(directory: str, argument: str) -> dict[str, str]:
  """Returns the clients' folders, by client."""
  reader.check_folder(directory, argument)
  folders = {
      cells.composed(name): os.path.join(directory, name) for name in os.listdir(directory)
      if os.path.isdir(os.path.join(directory, name)) and not name.startswith(".")
  }
  if not folders:
    raise ValueError(
        f"`{argument}` must hold a folder per client with a file per view in it, got no folder "
        f"in {directory!r}."
    )
  return given_clients.sorted_by_id(folders)


def _files(folders: Mapping[str, str], argument: str) -> dict[str, dict[str, str]]:
  """Returns the paths of every client's files, by client and name."""
  return {
      client_id: reader.paths(path, argument, "view")
      for client_id, path in folders.items()
  }


def _by_name(
    folders: Mapping[str, Mapping[str, str]], argument: str
) -> dict[str, dict[str, str]]:
  """Returns the paths of all files, by name and client; every client must have the same."""
  first = next(iter(folders))
  for client_id, files in folders.items():
    for name in sorted(folders[first].keys() ^ files.keys()):
      having, lacking = (first, client_id) if name in folders[first] else (client_id, first)
      raise ValueError(
          f"`{argument}` must hold the same files for every client, got {name!r} at {having!r} "
          f"but not at {lacking!r}."
      )
  return {
      name: {client_id: files[name] for client_id, files in folders.items()}
      for name in sorted(folders[first])
  }


def _label_heads(
    paths: Mapping[str, str], options: table_options.TableOptions, argument: str
) -> dict[str, columns_lib.Head]:
  """Returns the `Head`s of the files of labels, by client."""
  heads, header = client_tables.unnamed_heads(paths, options, argument), options.header
  others = (options.id_column, *options.exclude)
  lines = {
      tuple(name for name in head.first_line if name not in others)
      for head in heads if head.first_line is not None
  }
  # The column's name is the same at all clients; if line 1 is not, it is a class.
  if header == table_options.AUTO and len(lines) > 1:
    header = table_options.NO
  return dict(zip(paths, columns_lib.with_names(heads, header)))


def _label_columns(
    head: columns_lib.Head, options: table_options.TableOptions
) -> columns_lib.Columns:
  """Returns the `Columns` of a file of labels: one, and that of the ids if there is one."""
  own = [name for name in head.known_names if name not in (options.id_column, *options.exclude)]
  if len(own) != 1:
    raise problems.BadTable(
        f"it must have one column of classes, got {len(own)}",
        hints=("--id_column names the rows by a column", problems.LEAVES_OUT),
    )
  ids = {} if options.id_column not in head.known_names else {"id_column": options.id_column or ""}
  return columns_lib.Columns((), (), {"label_column": own[0], **ids})


def _class_names(rows: rows_lib.Rows, column: str) -> list[str]:
  """Returns the names of the classes of rows; `BadTable` if one is a number, but no integer."""
  for row, text in zip(rows.numbers, rows.cells[column]):
    if cells.is_number(text) and not float(text).is_integer():
      raise problems.BadTable(f"row {row} must be an integer or text, got {text!r}")
  return [table_format.level_of(text) for text in rows.cells[column]]


@dataclasses.dataclass(frozen=True)
class _File:
  """A file's rows: how many, and the numbers and ids of those that are compared."""

  path: str
  num_rows: int
  rows: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, int))
  row_ids: tuple[str, ...] | None = None


def _read_labels(
    heads: Mapping[str, columns_lib.Head], options: table_options.TableOptions
) -> tuple[Labels, dict[str, _File]]:
  """Returns the `Labels`, and each client's `_File` by client."""
  names: dict[str, list[str]] = {}
  files = {}
  for client_id, head in heads.items():
    with problems.in_file(head.path):
      columns = _label_columns(head, options)
      rows = rows_lib.RowSources({client_id: head}, columns, options).read(client_id)
      names[client_id] = _class_names(rows, columns.roles["label_column"])
    ids = rows.cells.get(options.id_column or "")
    files[client_id] = _File(
        head.path, len(rows.numbers), rows.numbers, None if ids is None else tuple(ids)
    )
  classes = table_format.sorted_levels(set().union(*names.values()))
  number = {name: i for i, name in enumerate(classes)}
  by_client = {
      client_id: np.array([number[name] for name in found], np.int64)
      for client_id, found in names.items()
  }
  return Labels(classes, by_client), files


def _check_same_separators(heads: Sequence[columns_lib.Head]) -> None:
  """Raises `BadTable` if lines of separators only are not the same rows of a client's views."""
  first, *others = heads
  for other in others:
    found = sorted(set(first.separators) ^ set(other.separators))
    if found:
      having, lacking = (first, other) if found[0] in first.separators else (other, first)
      raise problems.BadTable(
          f"{text_files.where(having, found[0])} has nothing but separators, and the same row of "
          f"{lacking.path!r} has more; such a line must stand in all views or in none, and a row "
          "without values must have NA in its cells", having.path,
      )


def _check_same_rows(files: Sequence[_File]) -> None:
  """Raises `BadTable` unless all `_File`s of a client have the same rows."""
  named = [(file, row_ids) for file in files if any(row_ids := file.row_ids or ())]
  for file, row_ids in named[1:]:
    for row, wanted, found in zip(named[0][0].rows, named[0][1], row_ids):
      is_known = found is not None and wanted is not None
      if is_known and table_format.level_of(found) != table_format.level_of(wanted):
        raise problems.BadTable(
            f"row {row} has the id {found!r}, and in {named[0][0].path!r} it has {wanted!r}; all "
            "views must have the same rows in the same order", file.path
        )
  for file in files[1:]:
    if file.num_rows != files[0].num_rows:
      raise problems.BadTable(
          f"it has {file.num_rows} rows, and {files[0].path!r} has {files[0].num_rows}; all views "
          "must have the same rows", file.path, ("--header says whether line 1 is one",),
      )


def _checked(
    tables: ViewTables, paths: Mapping[str, Mapping[str, str]], label_files: Mapping[str, _File]
) -> ViewTables:
  """Returns tables; `BadTable` unless every client's files have the same rows.

  Args:
    paths: The paths of the files, by view and client.
    label_files: Those of the labels, by client, or none.
  """
  for client_id in tables.client_ids:
    own = {path_of[client_id] for path_of in paths.values()}
    _check_same_separators([
        head for view in tables.views.values() for head in view.heads if head.path in own
    ])
    # Reading takes time, and numbers of rows are known.
    named = [n for n, view in tables.views.items() if "id_column" in view.format.columns.roles]
    read = [tables.views[name].read(client_id) for name in named]
    common = dict(zip(named, _of_common_rows(read))) if read else {}
    files = []
    for name, view in tables.views.items():
      path = paths[name][client_id]
      num_rows = view.num_rows[client_id] + view.num_bad_rows(path)
      compared = (common[name].rows, common[name].row_ids) if name in common else ()
      files.append(_File(path, num_rows, *compared))
    if client_id in label_files:
      files.append(label_files[client_id])
    _check_same_rows(files)
  return tables


def open_folder(
    directory: str, options: table_options.TableOptions, argument: str = "data_dir"
) -> ViewTables:
  """Looks at the files of a folder with a folder per client, and returns what reads them.

  Missing values are not filled in yet.

  Args:
    options: For all views.  `exclude` and `categories` name columns of any of them; `id_column`
      must be in every view, and may be in the files of labels.
    argument: What messages call the folder.

  Raises:
    ValueError: If an option does not apply to views, files are missing or can't be used,
      columns of a view differ between clients, or rows between the views of a client.
    OSError: If a file can't be read.
  """
  for name, why in _REFUSED.items():
    if getattr(options, name) is not None:
      raise validate.error(name, f"be left out: {why}", getattr(options, name))
  folders = _folders(directory, argument)
  paths = _by_name(_files(folders, argument), argument)
  label_paths = paths.pop(LABELS, None)
  if not paths:
    raise ValueError(f"`{argument}` must hold a file per view, got {LABELS!r} only.")

  def open_with(tried: table_options.TableOptions) -> ViewTables:
    with problems.gathered() as part:
      with part():
        reader.check_kinds(folders.values())
      with part():
        opened = _opened(paths, label_paths, tried, argument, options)
        for view in opened.views.values():
          text_files.check_no_row_left_out(view.heads, options)
    return opened

  return problems.open_tables(open_with, options, argument)


def _opened(
    paths: Mapping[str, Mapping[str, str]], label_paths: Mapping[str, str] | None,
    options: table_options.TableOptions, argument: str, given: table_options.TableOptions,
) -> ViewTables:
  """Returns the `ViewTables` of files, whose paths are by view, and by client."""
  heads = {}
  with problems.gathered() as part:
    for name, of_view in paths.items():
      with part():
        heads[name] = client_tables.read_heads(of_view, options, argument, given)
  label_heads = {} if label_paths is None else _label_heads(label_paths, options, argument)
  all_heads = [head for of_view in (*heads.values(), label_heads) for head in of_view.values()]
  columns_lib.check_known(all_heads, options)
  ids = table_options.TableOptions(id_column=options.id_column)  # They are in every view.
  views = {}
  try:
    with problems.gathered() as part:
      for name, own in heads.items():
        with part():
          columns_lib.check_known(list(own.values()), ids)
          views[name] = client_tables.open_heads(own, options, argument)
  except problems.BadTable as e:
    # A flag that helps with one view must not drop numbers of another one.
    e.numbers = e.numbers.union(*(view.number_columns for view in views.values()))
    left_out = {name for one in e.findings for name in one.left_out}
    for name in view_keys.ids(heads, options, left_out)[:1]:
      e.findings = tuple(one.with_ids(name) for one in e.findings)
    raise
  labels: Labels | None = None
  files: dict[str, _File] = {}
  if label_heads:
    labels, files = _read_labels(label_heads, options)
  tables = _checked(ViewTables(views, labels), paths, files)
  odd = () if labels is None or options.allow_any_number else labels.odd
  return dataclasses.replace(tables, told=(*odd, *view_keys.told(views, paths)))


def open_folder_for(
    format_: table_format.ViewFormat, directory: str, argument: str = "data_dir",
    later: table_options.LaterFiles = table_options.LaterFiles(),
) -> ViewTables:
  """Looks at the files of a folder that a model is to be used on.

  Labels are left alone, and the column of ids may be absent.  A row that is left out of one view
  is left out of all.

  Args:
    argument: What messages call the folder.
    later: How the files may differ from those of the model.

  Raises:
    ValueError: If files are missing, can't be used or have other columns than the model, or
      a level is unknown.
    OSError: If a file can't be read.
  """
  folders = _folders(directory, argument)
  with problems.refusing(argument, table_options.OF_FILES):
    reader.check_kinds(folders.values())
    files = {
        client_id: {name: path for name, path in found.items() if name != LABELS}
        for client_id, found in _files(folders, argument).items()
    }
    paths = _by_name(files, argument)
    if paths.keys() != format_.views.keys():
      raise ValueError(
          f"`{argument}` must hold the model's views, {', '.join(format_.views)}, got "
          f"{', '.join(paths) or 'none'} in {directory!r}."
      )
    views = {
        name: client_tables.open_files_for(
            view, paths[name], argument, dataclasses.replace(later, moments={
                feature.removeprefix(f"{name}: "): found
                for feature, found in later.moments.items() if feature.startswith(f"{name}: ")
            })
        )
        for name, view in format_.views.items()
    }
    tables = _checked(ViewTables(views), paths, {})
    return dataclasses.replace(tables, told=view_keys.told(views, paths))
