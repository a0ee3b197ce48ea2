"""A site's rows: a folder of tables, read by the schema whose hash all sites have agreed on."""

from __future__ import annotations

import os
from typing import Any, Iterator

import numpy as np

from clustering_basics import validate
from fl_clustering.sites import federation as federation_lib
from fl_clustering.tables import clients as clients_lib
from fl_clustering.tables import encode
from fl_clustering.tables import read as read_lib
from fl_clustering.tables import saved
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views as views_lib


def tables(
    schema: schema_lib.Schema | views_lib.Schemas, federation: federation_lib.Federation
) -> saved.SavedTables | saved.SavedViews:
  """Returns how the rows of tables become points.

  With `privacy` they are in the units of the schema, so that a ball around the origin is, too; else
  in the data's own.

  Args:
    schema: That of tables, or those of views by name.

  Raises:
    ValueError: If the schema is another one than the federation file's, or does not say enough.
  """
  by_view = {"": schema} if isinstance(schema, schema_lib.Schema) else schema
  if federation_lib.schema_hash(schema) != federation.schema:
    names = [name for one in by_view.values() for name in one.feature_names]
    rule = "be the one of the federation file, with the same fields, bounds and levels"
    raise validate.error("schema", rule, names)
  widths = tuple(len(one.feature_names) for one in by_view.values())
  if widths != federation.widths:
    raise validate.error("widths", f"be {list(widths)}, as the schema says", federation.widths)
  kept = {view: _tables(one, federation.privacy is not None) for view, one in by_view.items()}
  return kept[""] if isinstance(schema, schema_lib.Schema) else saved.SavedViews(kept)


def _tables(schema: schema_lib.Schema, is_private: bool) -> saved.SavedTables:
  if is_private:
    return saved.SavedTables(schema, encode.public_scaling(schema), is_private=True)
  if schema.missing != "error":
    raise validate.error("schema.missing", "be 'error' at sites with exact sums", schema.missing)
  nothing = np.zeros(len(schema.feature_names))
  return saved.SavedTables(schema, encode.FeatureScaling(nothing, nothing, nothing + 1))


def read(
    directory: str, schema: schema_lib.Schema | views_lib.Schemas,
    federation: federation_lib.Federation,
) -> dict[str, np.ndarray]:
  """Returns a folder's features by client id, of shape (n, d), the views side by side.

  With `privacy` no cell is an error.

  Raises:
    ValueError: As of `tables`.
    BadTable: If a file can't be used.
  """
  kept: Any = tables(schema, federation)
  library: Any = clients_lib if isinstance(schema, schema_lib.Schema) else views_lib
  clients = library.open_folder(directory, schema, private=federation.privacy is not None)
  found = {client_id: kept.features(own) for client_id, own in clients.items()}
  # That nobody is there is private, too.
  return found or {"": np.zeros((0, federation.num_columns))}


def about(directory: str, schema: schema_lib.Schema | views_lib.Schemas) -> Iterator[str]:
  """Yields a line on every table, of what private reading makes of it; for the owner alone.

  Raises:
    ValueError: If the folder can't be used.
  """
  if isinstance(schema, schema_lib.Schema):
    tables = [(path, schema) for path in clients_lib.files(directory).values()]
  else:
    tables = [
        (own[view], one) for own in views_lib.client_files(directory).values()
        for view, one in schema.items() if view in own
    ]
  for path, one in tables:
    name = os.path.relpath(path, directory)
    try:
      num_rows, num_bad_lines, num_missing = read_lib.counts(path, one)
    except Exception as e:  # pylint: disable=broad-exception-caught
      # A file may hold any bytes, which libraries meet with any exception.
      yield f"{name}: no rows, as it can't be read: " + f"{e}".partition("\n")[0]
    else:
      yield (
          f"{name}: rows: {num_rows:,}, bad lines: {num_bad_lines:,}, missing cells: "
          f"{num_missing:,}"
      )
