"""The schemas of clients' tables, with or without views: of a file, or of columns of numbers.

A file of views' schemas is a Frictionless Data Package, of which a part is understood: `resources`,
each with the `name` of a view and its `schema`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import Any, Collection, Iterable, Mapping

from clustering_basics import validate
from fl_clustering.tables import bad_table
from fl_clustering.tables import folder as folder_lib
from fl_clustering.tables import read as read_lib
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import typed_files


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
  for first, *_ in files.values():
    _check_commas(first)
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


def _check_commas(path: str) -> None:
  """Raises a BadTable if a file has no two columns by commas, but has by another delimiter."""
  names: tuple[str, ...] = ()
  with contextlib.suppress(bad_table.BadTable):  # By commas, quotes may end within a cell.
    names = read_lib.header(path)
  if len(names) > 1 or not path.endswith(bad_table.TEXT_FILES):
    return
  if (delimiter := read_lib.likely_delimiter(path)) != ",":
    rule = f"seems to have {delimiter!r} between its cells, which a schema must say"
    raise bad_table.bad_header(path, None, rule)


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
  entries = folder_lib.entries(directory)
  return any(os.path.isdir(os.path.join(directory, entry)) for entry in entries)


def files_by_view(directory: str, has_views: bool) -> dict[str, list[str]]:
  """Returns the paths of all clients' files by the names of the first one's views."""
  if not has_views:
    return {schema_lib.NO_VIEW: [*folder_lib.files(directory).values()]}
  clients = list(folder_lib.client_files(directory).values())
  return {
      view: [own[view] for own in clients if view in own]
      for view in clients[0] if view != folder_lib.LABELS
  }
