"""Opens a folder of clients' tables or views, and writes the files that a site computes with.

Their names, like the site's digest, come from the rows and a random key that stays in the
worker's folder.  So a site that is started again on the same rows has the same files, and
programs that waited for it go on; but nobody else can try out which rows have such a name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hmac
import os
import re
import secrets
from typing import Any, Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from clustering_basics import atomic_file
from clustering_basics import validate
from fl_clustering.distribution import site as site_lib
from fl_clustering.tables import client_tables
from fl_clustering.tables import problems
from fl_clustering.tables import reader
from fl_clustering.tables import table_format
from fl_clustering.tables import table_options
from fl_clustering.tables import view_tables

KEY_FILE = "site.key"
_KEY_BYTES = 32
# Files of clients, and what one that was killed left of them.
_ENDINGS = "|".join((site_lib.POINTS[1:], site_lib.LABELS[1:], *site_lib.PARTS))
_WRITTEN = re.compile(rf"\.?[0-9a-f]{{64}}(\.[0-9a-z]+)*\.({_ENDINGS})")


def _write_file(folder: str, name: str, content: bytes | memoryview) -> None:
  """Writes a file wholly or not at all."""
  try:
    with atomic_file.atomic_path(os.path.join(folder, name)) as temporary:
      with open(temporary, "wb") as file:
        file.write(content)
  except OSError as e:
    rule = f"take the features of all clients ({e.strerror})"
    raise validate.error("cache_dir", rule, folder) from e


def _key(folder: str) -> bytes:
  """Returns the key of a worker's folder, which is made the first time."""
  path = os.path.join(folder, KEY_FILE)
  with contextlib.suppress(FileNotFoundError):
    with open(path, "rb") as file:
      key = file.read()
    if len(key) == _KEY_BYTES:
      return key
  key = secrets.token_bytes(_KEY_BYTES)
  _write_file(folder, KEY_FILE, key)
  return key


def _check_options(
    options: table_options.TableOptions,
    classes: Sequence[str] | None,
    levels: Mapping[str, Sequence[str]],
) -> None:
  if options.missing != table_options.ERROR:
    raise validate.error(
        "missing", f"be {table_options.ERROR!r} at a site, since the means of columns would need "
        "all sites", options.missing,
    )
  if classes is not None and options.label_column is None:
    raise validate.error("classes", "be left out without `label_column`", classes)
  for name in levels:
    if name not in options.categories:
      raise validate.error("levels", "be of a column of `categories`", name)


def _has_views(directory: str) -> bool:
  """Returns whether a folder's clients are folders, with a file per view."""
  reader.check_folder(directory, "data_dir")
  is_folder = {
      entry.is_dir() for entry in os.scandir(directory) if not entry.name.startswith(".")
  }
  if len(is_folder) > 1:
    raise ValueError(
        "`data_dir` must hold a file per client, or a folder per client with a file per view, got "
        f"files and folders in {directory!r}."
    )
  return True in is_folder


def _open_tables(directory: str, options: table_options.TableOptions) -> Any:
  """Returns the `ClientTables` or `ViewTables` of a folder."""
  module = view_tables if _has_views(directory) else client_tables
  try:
    return module.open_folder(directory, options)
  except problems.UnusableTables as e:
    if any("missing" in finding.fix for finding in e.findings):
      # The usual hint is at --missing.
      raise ValueError(
          f"{e.problem}; a site can't fill in missing cells; {problems.LEAVES_OUT}."
      ) from e
    raise


def _levels_of(names: Iterable[str]) -> tuple:
  """Returns the levels that names stand for, in order."""
  return table_format.sorted_levels({table_format.level_of(name) for name in names})


def _with_classes(tables: Any, classes: Sequence[str]) -> Any:
  """Returns tables with these classes; reading a row of another one is an error."""
  format_ = dataclasses.replace(tables.format, classes=_levels_of(classes))
  return dataclasses.replace(tables, format=format_)


def _with_levels(tables: Any, levels: Mapping[str, Sequence[str]]) -> Any:
  """Returns tables with these levels of columns; reading a row of another one is an error."""
  if isinstance(tables, view_tables.ViewTables):
    views = {name: _with_levels(view, levels) for name, view in tables.views.items()}
    return dataclasses.replace(tables, views=views)
  encoding = tables.format.encoding
  all_levels = {
      name: _levels_of(levels[name]) if name in levels else own
      for name, own in encoding.levels.items()
  }
  encoding = dataclasses.replace(encoding, levels=all_levels)
  return dataclasses.replace(tables, format=dataclasses.replace(tables.format, encoding=encoding))


def _labels(table: Any) -> np.ndarray | None:
  """Returns what a file of labels holds, int64 of shape (n, 2); None if there is nothing."""
  if table.labels is None and table.is_test is None:
    return None
  columns = [
      np.zeros(len(table.rows)) if column is None else column
      for column in (table.labels, table.is_test)
  ]
  return np.stack(columns, axis=1).astype("<i8")


def _write(client_id: str, table: Any, folder: str, key: bytes) -> site_lib.SiteClient:
  """Writes a client's files; returns what the site says of it."""
  contents = {site_lib.POINTS: np.ascontiguousarray(table.features, "<f8")}
  labels = _labels(table)
  if labels is not None:
    contents[site_lib.LABELS] = labels
  digest = hmac.new(key, repr(client_id).encode(), "sha256")
  for ending, array in contents.items():
    digest.update(repr((ending, array.shape)).encode())
    digest.update(array.data)
  name = digest.hexdigest()
  for ending, array in contents.items():
    _write_file(folder, name + ending, array.data)
  num_test = None if table.is_test is None else int(table.is_test.sum())
  return site_lib.SiteClient(name, len(table.rows), num_test)


def _remove_others(folder: str, names: Collection[str]) -> None:
  """Removes files of clients and rows that the site no longer has."""
  for name in os.listdir(folder):
    if _WRITTEN.fullmatch(name) and name.partition(".")[0] not in names:
      os.unlink(os.path.join(folder, name))


def open_site(
    directory: str,
    folder: str,
    options: table_options.TableOptions,
    classes: Sequence[str] | None = None,
    levels: Mapping[str, Sequence[str]] | None = None,
    tell: Callable[[str], object] = lambda text: None,
) -> site_lib.Site:
  """Writes the files of a site's clients, and returns what the site says of them.

  One client is in memory at a time.  Files of other rows, from earlier, are removed.

  Args:
    directory: The folder with a file per client, or with a folder per client and a file per
      view in it.
    folder: The worker's folder.
    options: How files are read; missing cells must be errors.
    classes: The names of all classes, in any order; None for those of the rows.
    levels: The names of all levels, in any order, by column; None for those of the rows.  A
      column that is left out has those of the rows too.
    tell: Is told what is odd about the rows, which the site itself does not say.

  Raises:
    ValueError: If an option does not apply, a file can't be used, or a row has another class
      or level.
    OSError: If a file can't be read or written.
  """
  levels = levels or {}
  _check_options(options, classes, levels)
  tables = _with_levels(_open_tables(directory, options), levels)
  for text in tables.warnings:
    tell(text)
  if classes is not None:
    tables = _with_classes(tables, classes)
  key = _key(folder)
  clients = {
      client_id: _write(client_id, tables.read(client_id), folder, key)
      for client_id in tables.client_ids
  }
  _remove_others(folder, {client.name for client in clients.values()})
  digest = hmac.new(key, tables.sha256.encode(), "sha256").hexdigest()
  return site_lib.Site(tables.format, clients, digest)
