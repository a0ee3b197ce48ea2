"""Tidy tables, with a row for every number, and the journal from which they are written.

The journal has a line of JSON for every cell, and grows line by line.  Of a program that was killed,
a part of a line may be left, which counts for nothing.  When all cells are measured, the tables are
written from it, in the order of the cells, whatever the order of measuring.
"""

import contextlib
import csv
import io
import itertools
import json
import os
from typing import Any, Callable, Collection, Iterable, Mapping, Sequence

from clustering_basics import atomic_file
from experiment_shell import finished_run
from experiment_shell import output_folder

METRIC, VALUE = "metric", "value"
# From a column's name to what reads its text: `str`, `int` or `float`.
Columns = Mapping[str, Callable[[str], Any]]
Cell = Mapping[str, Any]
# From a table's name to rows: dicts of its columns beside the cell's keys.
Rows = Mapping[str, Iterable[Mapping[str, Any]]]


def file_name(table: str) -> str:
  return f"{table}.csv"


def _text(value: Any) -> str:
  return json.dumps(value, default=lambda number: number.item())  # Of NumPy.


class Journal:
  """The cells that are measured, in a file."""

  def __init__(self, path: str, cells: Sequence[Cell], tables: Mapping[str, Columns]) -> None:
    """Opens the journal of these cells; OSError if the file can't be read and written.

    Args:
      tables: The columns of every table.
    """
    self._path = path
    self._cells = cells
    self._tables = tables
    self._lines: dict[str, str] = {}
    if os.path.exists(path):
      with open(path, "rb") as file:
        for line in file.read().decode(errors="replace").split("\n"):
          with contextlib.suppress(ValueError, KeyError, TypeError):
            self._lines[_text(json.loads(line)["cell"])] = line
    atomic_file.write_text(path, "".join(f"{line}\n" for line in self._lines.values()))

  @property
  def left(self) -> list[Cell]:
    """The cells that are not measured."""
    return [cell for cell in self._cells if _text(cell) not in self._lines]

  def add(self, cell: Cell, tables: Rows) -> None:
    """Adds a cell that was measured; ValueError if its rows don't fit the tables."""
    found = {name: list(rows) for name, rows in tables.items()}
    for name, rows in found.items():
      wanted = {*self._tables.get(name, ())} - {*cell}
      for row in rows:
        if {*row} != wanted:
          raise ValueError(
              f"`measure` must return rows of {name} with {sorted(wanted)}, got {sorted(row)}."
          )
    line = _text({"cell": cell, "tables": found})
    self._lines[_text(cell)] = line
    with open(self._path, "a", encoding="utf-8") as file:
      file.write(f"{line}\n")

  def write_tables(
      self, folder: output_folder.OutputFolder, optional: Collection[str] = ()
  ) -> None:
    """Writes the tables; of the optional ones, those with rows."""
    lines = (self._lines.get(_text(cell)) for cell in self._cells)
    measured = [json.loads(line) for line in lines if line is not None]
    for name, names in self._tables.items():
      rows = [
          {**one["cell"], **row} for one in measured for row in one["tables"].get(name, ())
      ]
      if name in optional and not rows:
        continue
      text = output_folder.csv_text(names, ([row[column] for column in names] for row in rows))
      folder.write_text(file_name(name), text)


def _parsed(text: str) -> Any:
  """Returns a number if the text is one, None if it is empty, and else the text."""
  for kind in (int, float):
    with contextlib.suppress(ValueError):
      return kind(text)
  return text or None


def read(run: finished_run.FinishedRun, name: str, kinds: Columns | None = None) -> Any:
  """Returns a CSV file of a run as a `pandas.DataFrame`; `DamagedFile` if it can't be read.

  Args:
    kinds: Its columns; None for those that it has, where several may have one name.
  """
  import pandas as pd  # It takes long to import.

  path = run.join(name)
  with finished_run.damage(path), open(path, encoding="utf-8", newline="") as file:
    text = file.read()
    if not text.endswith("\n"):
      raise ValueError("its last line is not complete")
    header, *lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    for number, line in enumerate(lines, start=1):
      if len(line) != len(header):
        raise ValueError(f"row {number} has {len(line)} cells, not {len(header)}")
    if kinds is None:
      return pd.DataFrame([list(map(_parsed, line)) for line in lines], columns=header)
    cells = dict(zip(header, zip(*lines) if lines else itertools.repeat(())))
    for column in kinds:
      if column not in cells:
        raise ValueError(f"it has no {column!r}")
    found = {
        column: [kind(cell) if cell else None for cell in cells[column]]
        for column, kind in kinds.items()
    }
  # Numbers also where there is no row.
  return pd.DataFrame(found).astype({
      column: float if None in found[column] else kind for column, kind in kinds.items()
      if kind is not str
  })
