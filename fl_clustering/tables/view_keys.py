"""Columns that several views of a client have, and that may name its rows.

Nothing else says whether row i is the same in all views.
"""

from __future__ import annotations

import collections
import contextlib
from typing import Collection, Mapping

import numpy as np

from fl_clustering.tables import client_tables
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import problems
from fl_clustering.tables import reader
from fl_clustering.tables import table_format
from fl_clustering.tables import table_options
from fl_clustering.tables import text_files

# Columns of fewer rows may have the same values by chance, none of them twice.
_FEWEST_KEYS = 5


def _distinct(
    head: columns_lib.Head, names: Collection[str], numbers: Collection[str]
) -> dict[str, np.ndarray]:
  """Returns those of some columns in which no value of a file is missing or occurs twice.

  Args:
    numbers: The columns that hold numbers; others are text.
  """
  own = [name for name in head.known_names if name in names]
  features = tuple(name for name in own if name in numbers)
  texts = {name: name for name in own if name not in numbers}
  with contextlib.suppress(problems.BadTable):  # Of which others tell.
    _, table, _ = reader.read(head, columns_lib.Columns(features, (), texts), needed=())
    return {
        name: column for name, column in table.items()
        if not reader.is_missing(column).any() and len(np.unique(column)) == len(column)
    }
  return {}


def _other_order(
    name: str, of_files: Mapping[str, np.ndarray], hints: tuple[str, ...]
) -> problems.BadTable | None:
  """Returns what is wrong if files, by path, have a column's values in different orders."""
  (path, first), *others = of_files.items()
  for other_path, values in others:
    for row in np.flatnonzero(values != first)[:1]:
      found, wanted = (table_format.level_of(str(column[row])) for column in (values, first))
      return problems.BadTable(
          f"the column {name!r} has the same values as in {path!r} in another order, {found} where "
          f"that has {wanted}; all views must have the same rows in the same order", other_path,
          hints,
      )
  return None


def told(
    views: Mapping[str, client_tables.ClientTables], paths: Mapping[str, Mapping[str, str]]
) -> tuple[str, ...]:
  """Returns what is odd about columns that have the same values in several views, none twice.

  Args:
    views: What reads each view, by its name.
    paths: The paths of the files, by view and client.

  Raises:
    BadTable: If the views of a client have the values of a feature in different orders.
  """
  heads = {head.path: head for view in views.values() for head in view.heads}
  names = {name for head in heads.values() for name in head.known_names}
  names = {name for name in names if not text_files.UNNAMED.fullmatch(name)}
  for view in views.values():  # Ids that are known have been compared.
    names -= {*view.format.columns.categories}
    options = view.format.options
    if options.allow_any_number or options.id_column is not None:
      return ()
  features = frozenset().union(*(view.number_columns for view in views.values()))
  faults: list[tuple[str, problems.BadTable | None]] = []
  most_rows = 0
  for client_id in next(iter(views.values())).client_ids:
    own = [heads[path_of[client_id]] for path_of in paths.values()]
    counts = collections.Counter(name for head in own for name in head.known_names)
    names = {name for name in names if counts[name] > 1}
    read = {head.path: _distinct(head, names, features) for head in own if names}
    for name in sorted(names):
      of_files = {path: found[name] for path, found in read.items() if name in found}
      values = list(map(np.sort, of_files.values()))
      if len(values) < 2 or not all(np.array_equal(values[0], other) for other in values):
        names.remove(name)
        continue
      most_rows = max(most_rows, len(values[0]))
      hints = (problems.comparing(name),) if counts[name] == len(own) else ()
      faults.append((name, _other_order(name, of_files, hints)))
  if most_rows < _FEWEST_KEYS:
    return ()
  found = []
  for name, fault in faults:
    if fault is not None and name in names:
      if name in features:
        raise fault
      (finding,) = fault.findings
      found.append(f"{finding.path!r}: {finding.problem}")
  return (*found, *(
      f"the column {name} looks like the rows' ids: all views have the same numbers in the same "
      f"order, none twice; {problems.comparing(name)}"
      for name in sorted(names.intersection(*(v.number_columns for v in views.values())))
  ))


def ids(
    heads: Mapping[str, Mapping[str, columns_lib.Head]], options: table_options.TableOptions,
    names: Collection[str],
) -> list[str]:
  """Returns which columns may name the rows: all views have them, and no file a cell twice.

  Args:
    heads: By view and client.
    names: The columns that are looked at.
  """
  of_files = [head for of_view in heads.values() for head in of_view.values()]
  if len(heads) < 2 or options.id_column is not None or options.allow_any_number:
    return []
  shared = set(names).intersection(*(head.known_names for head in of_files))
  return [
      name for name in of_files[0].known_names
      if name in shared and all(_distinct(head, [name], ()) for head in of_files)
  ]
