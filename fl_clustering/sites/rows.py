"""A site's rows: a folder of tables, read by the schema whose hash all sites have agreed on."""

from __future__ import annotations

import numpy as np

from clustering_basics import validate
from fl_clustering.sites import federation as federation_lib
from fl_clustering.tables import folder as folder_lib
from fl_clustering.tables import saved
from fl_clustering.tables import schema as schema_lib


def tables(
    schemas: schema_lib.Schemas, federation: federation_lib.Federation
) -> saved.SavedTables:
  """Returns how the rows of tables become points.

  With `privacy` they are in the units of the schema, so that a ball around the origin is, too; else
  in the data's own.

  Raises:
    ValueError: If the schemas are others than the federation file's, or do not say enough.
  """
  if federation_lib.schema_hash(schemas) != federation.schema:
    names = [name for one in schemas.values() for name in one.feature_names]
    rule = "be the one of the federation file, with the same fields, bounds and levels"
    raise validate.error("schema", rule, names)
  if is_private := federation.privacy is not None:
    found = saved.SavedTables.private(schemas)
  else:  # No cell is missing; later ones become the mean of the fit.
    found = saved.SavedTables.exact(schemas, np.full(federation.num_columns, np.nan))
  if found.widths != federation.widths:
    rule = f"be {list(found.widths)}, as the schema says"
    raise validate.error("widths", rule, federation.widths)
  for schema in schemas.values():
    if schema.missing != "error" and not is_private:
      raise validate.error("schema.missing", "be 'error' at sites with exact sums", schema.missing)
  return found


def read(
    directory: str, schemas: schema_lib.Schemas, federation: federation_lib.Federation
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
  """Returns a folder's features by client id, of shape (n, d), the views side by side.

  With `privacy` no cell is an error, and what became of every file is returned, too: its `reports`,
  for the owner alone.

  Raises:
    ValueError: As of `tables`.
    BadTable: If a file can't be used.
  """
  kept = tables(schemas, federation)
  folder = folder_lib.open_folder(directory, schemas, private=kept.is_private)
  folder.scale(kept.features)
  found = {client_id: rows.features for client_id, rows in folder.items()}
  # That nobody is there is private, too.
  return found or {"": np.zeros((0, federation.num_columns))}, folder.reports
