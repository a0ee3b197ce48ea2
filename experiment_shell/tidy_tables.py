"""Tidy tables, with a row for every number, that grow cell by cell and survive being killed.

A cell's rows go into the tables first, and then a row of its own into `cells.csv`.  Rows of a cell
that has none there, or another number of rows, go when the run is resumed; so do lines that are not
complete.  At the end the rows are in the order of the cells, whatever the order of measuring.
"""

import collections
import os
from typing import Any, Callable, Iterable, Mapping, Sequence

from clustering_basics import atomic_file
from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import study

CELLS = "cells.csv"
METRIC, VALUE = "metric", "value"
# The column of `CELLS` with the number of a cell's rows in all tables.
_ROWS = "rows"

Columns = Mapping[str, Callable[[str], Any]]


def file_name(table: str) -> str:
  return f"{table}.csv"


def columns(keys: Columns, further: Columns) -> Columns:
  """Returns the columns of a tidy table: from their names to what reads a cell's text.

  Args:
    keys: The columns that identify a cell.
    further: Those that tell its rows apart, beside the metric.
  """
  return {**keys, **further, METRIC: str, VALUE: float}


class TidyTables:
  """The tables of a run in an `OutputFolder`.

  Attributes:
    left: The cells that are to be measured.
  """

  def __init__(
      self, folder: output_folder.OutputFolder, cells: Sequence[Mapping[str, Any]], keys: Columns,
      tables: Mapping[str, Columns],
  ) -> None:
    """Opens the tables; if the run is resumed, with the rows of the cells that are complete.

    Args:
      folder: An `OutputFolder` after its `start`.
      cells: All cells, as dicts of the keys.
      tables: From a table's name to its columns beside those of all tables.
    """
    self._keys = tuple(keys)
    self._order = {self.identity(cell): place for place, cell in enumerate(cells)}
    self._paths = {CELLS: folder.join(CELLS)}
    self._columns = {CELLS: (*keys, _ROWS)}
    for name, further in tables.items():
      self._paths[name] = folder.join(file_name(name))
      self._columns[name] = tuple(columns(keys, further))
    resumed = folder.recorded is not None
    with launch.input_errors():
      lines = {
          name: study.read_lines(path, self._columns[name])
          if resumed and os.path.exists(path) else []
          for name, path in self._paths.items()
      }
      counts = collections.Counter(self._cell(line) for name in tables for line in lines[name])
      done = {
          self._cell(line) for line in lines[CELLS] if line[-1] == str(counts[self._cell(line)])
      } & set(self._order)
      for name, found in lines.items():
        self._write(name, (line for line in found if self._cell(line) in done))
    self.left = [cell for cell in cells if self.identity(cell) not in done]

  def _cell(self, line: Sequence[str]) -> tuple[str, ...]:
    return tuple(line[:len(self._keys)])

  def _write(self, name: str, lines: Iterable[Sequence[str]]) -> None:
    text = output_folder.csv_text(self._columns[name], lines)
    atomic_file.write_text(self._paths[name], text)

  def _append(self, name: str, lines: Iterable[Sequence[str]]) -> None:
    with open(self._paths[name], "a", encoding="utf-8", newline="") as file:
      file.write(output_folder.csv_lines(lines))

  def identity(self, cell: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the keys of a cell as text."""
    return tuple(study.written(cell[key]) for key in self._keys)

  def add(self, cell: Mapping[str, Any], tables: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
    """Adds a cell.

    Args:
      tables: From a table's name to rows: dicts of its columns beside the keys.
    """
    identity, count = self.identity(cell), 0
    for name, rows in tables.items():
      own = self._columns[name][len(identity):]
      lines = [[*identity, *(study.written(row[column]) for column in own)] for row in rows]
      self._append(name, lines)
      count += len(lines)
    self._append(CELLS, [[*identity, str(count)]])

  def sort(self) -> None:
    """Brings the rows into the order of the cells."""
    for name, path in self._paths.items():
      lines = study.read_lines(path, self._columns[name])
      self._write(name, sorted(lines, key=lambda line: self._order[self._cell(line)]))


def read(run: finished_run.FinishedRun, table: str, kinds: Columns) -> Any:
  """Returns a table of a run as a `pandas.DataFrame`; `DamagedFile` if it can't be read.

  Args:
    kinds: What `columns` returned.
  """
  import pandas as pd  # It takes long to import.

  rows = run.rows(file_name(table), kinds)
  with finished_run.damage(run.join(file_name(table))):
    found = {
        name: [kind(row[name]) if row[name] else None for row in rows]
        for name, kind in kinds.items()
    }
  # Numbers also where there is no row.
  return pd.DataFrame(found).astype({
      name: float if None in found[name] else kind for name, kind in kinds.items()
      if kind is not str
  })
