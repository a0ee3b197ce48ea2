"""What all sites have in common: the format of their tables, which must be the same.

How files are written may differ from site to site: separators, decimal marks, headers, columns
of ids and of clients, and columns that are left out.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Collection, Mapping, Sequence

from fl_clustering.tables import table_format
from fl_clustering.tables import table_options

_KINDS = {table_format.TableFormat: "tables", table_format.ViewFormat: "views"}
# Options that say what rows are known to be, by name.
_OF_LABELS = ("label_column", "split_column")
# Options that decide which columns are features.
_OF_COLUMNS = ("columns", "exclude", "id_column", "client_column")


def _error(rule: str, got: str, hint: str = "") -> ValueError:
  return ValueError(f"`workers` must have {rule}, got {got}{hint}.")


def _check_same_names(what: str, by_address: Mapping[str, Collection[str]], hint: str = "") -> None:
  """Raises a ValueError unless all sites have the same names, in any order."""
  (first, names), *others = by_address.items()
  found = []
  for address, own in others:
    for having, more, lacking, known in (first, names, address, own), (address, own, first, names):
      further = [repr(name) for name in more if name not in known]
      if further:
        found.append(f"{', '.join(further)} at {having} but not at {lacking}")
  if found:
    raise _error(f"the same {what}", ", and ".join(found), hint)


def _check_same_values(
    by_address: Mapping[str, Any], show: Callable[[Any], str], rule: str, hint: str = ""
) -> None:
  """Raises a ValueError unless all sites have the same value."""
  (first, value), *others = by_address.items()
  for address, own in others:
    if own != value:
      raise _error(rule, f"{show(value)} at {first} and {show(own)} at {address}", hint)


def _check_tables(formats: Mapping[str, table_format.TableFormat], view: str | None = None) -> None:
  """Raises a ValueError unless tables have the same columns, levels and classes at all sites.

  Args:
    formats: Their formats by address.
    view: The view that the tables are of, if it is one.
  """
  place = "" if view is None else f" of view {view!r}"

  def each(get: Callable[[table_format.TableFormat], Any]) -> dict[str, Any]:
    return {address: get(format_) for address, format_ in formats.items()}

  for name in _OF_LABELS:
    # pylint: disable-next=cell-var-from-loop
    _check_same_values(each(lambda f: getattr(f.options, name)), _shown, f"the same `{name}`")
  _check_same_names(f"columns{place}", each(lambda f: f.columns.features))
  _check_same_values(
      each(lambda f: f.columns.features), ", ".join, f"columns{place} in the same order",
      "; --columns at tools:site gives an order" if view is None
      else "; files must have it, since --columns is not for views",
  )
  _check_same_names(f"`categories`{place}", each(lambda f: f.columns.categories))
  for name in next(iter(formats.values())).columns.categories:
    _check_same_names(
        # pylint: disable-next=cell-var-from-loop
        f"levels of {name!r}{place}", each(lambda f: f.encoding.levels[name]),
        "; --levels at tools:site names all of them",
    )
  _check_same_names(
      "classes", each(lambda f: f.classes or ()), "; --classes at tools:site names all of them"
  )


def _shown(value: Any) -> str:
  return f"{value:g}" if isinstance(value, float) else repr(value)


def _common_options(formats: Sequence[table_format.TableFormat]) -> table_options.TableOptions:
  """Returns options with which the files of any site can be read."""
  first = formats[0]
  given = {
      name: list(dict.fromkeys(getattr(format_.options, name) for format_ in formats))
      for name in (*_OF_COLUMNS, *table_options.OF_FILES)
  }
  differing = [name for name, values in given.items() if len(values) > 1]
  defaults = {field.name: field.default for field in dataclasses.fields(first.options)}
  changes: dict[str, Any] = {name: defaults[name] for name in differing}
  for name in ("id_column", "client_column"):
    # Files may lack it.
    columns = [column for column in given[name] if column is not None]
    if len(columns) == 1:
      changes[name] = columns[0]
  if set(differing) & set(_OF_COLUMNS):
    changes |= {"columns": first.columns.features, "exclude": ()}
  return dataclasses.replace(first.options, **changes)


def _common_tables(formats: Mapping[str, table_format.TableFormat]) -> table_format.TableFormat:
  options = _common_options(list(formats.values()))
  first = next(iter(formats.values()))
  columns = dataclasses.replace(first.columns, roles=options.roles)
  marks = {format_.decimal for format_ in formats.values()}
  decimal = first.decimal if len(marks) == 1 else None
  return dataclasses.replace(first, options=options, columns=columns, decimal=decimal)


def common_format(formats: Mapping[str, Any]) -> Any:
  """Returns the `TableFormat` or `ViewFormat` that all sites have.

  It is that of one machine with all files in one folder, if the options are the same.

  Args:
    formats: Those of the sites by address, in the order of their first clients.

  Raises:
    ValueError: If they differ in more than how files are written.
  """
  _check_same_values(
      {address: _KINDS[type(format_)] for address, format_ in formats.items()}, str,
      "all tables or all views",
  )
  if isinstance(next(iter(formats.values())), table_format.TableFormat):
    _check_tables(formats)
    return _common_tables(formats)
  _check_same_names("views", {address: format_.views for address, format_ in formats.items()})
  views = {}
  for name in next(iter(formats.values())).views:
    of_view = {address: format_.views[name] for address, format_ in formats.items()}
    _check_tables(of_view, name)
    views[name] = _common_tables(of_view)
  return table_format.ViewFormat(views)
