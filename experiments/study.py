"""A table of measurements that grows row by row and survives being killed.

A study is a list of cells, such as (data set, method, k, run).  Each is measured on
its own, as a function of its keys, and its row is appended to a CSV file at once.  A
study that is resumed keeps the rows that are there and measures the rest, so the
table is the same as that of an uninterrupted one.
"""

import csv
import os

import tqdm

from fl_clustering import atomic_file
from experiments import output_folder


def _plain(value):
  """Returns a NumPy scalar as Python's own, which CSV writes exactly."""
  return value.item() if hasattr(value, "item") else value


def _parsed(text):
  """Returns a cell of the CSV file as the value that was written."""
  if not text:
    return None
  for kind in (int, float):
    try:
      return kind(text)
    except ValueError:
      pass
  return text


class Study:
  """Measurements in one CSV file of an `OutputFolder`.

  Attributes:
    rows: What is measured so far: a list of dicts of keys and values, in the order of
      the file.  Numbers are exactly those that were measured.
  """

  def __init__(self, folder, name, keys, values):
    """Opens the table, with the rows that are in it.

    Args:
      folder: An `OutputFolder` that is started.
      name: Name of the file.
      keys: Names of the columns that identify a cell.
      values: Names of the columns that are measured.

    Raises:
      ValueError: If the file is not such a table.
    """
    self._path = folder.join(name)
    self._keys = tuple(keys)
    self._columns = (*keys, *values)
    self.rows = self._read() if os.path.exists(self._path) else []
    # A killed program may leave half a line at the end.
    atomic_file.write_text(
        self._path, output_folder.csv_text(self._columns, map(self._cells, self.rows))
    )

  def _read(self):
    with open(self._path, encoding="utf-8", newline="") as file:
      text = file.read()
    header, *lines = csv.reader(text[: text.rfind("\n") + 1].splitlines()) or [[]]
    if tuple(header) != self._columns or any(len(r) != len(header) for r in lines):
      raise ValueError(
          f"`output_dir` must hold {os.path.basename(self._path)} with the columns "
          f"{', '.join(self._columns)} to resume, got {self._path!r}."
      )
    return [dict(zip(self._columns, map(_parsed, line))) for line in lines]

  def _cells(self, row):
    return ["" if row[column] is None else row[column] for column in self._columns]

  def run(self, cells, measure):
    """Measures the cells that have no row yet, under a progress bar.

    Args:
      cells: Dicts of the keys, in the order in which to measure.
      measure: A function that is called with a cell's keys and returns a dict of the
        values.  It must not depend on what was measured before.
    """
    done = {tuple(row[key] for key in self._keys) for row in self.rows}
    cells = list(cells)
    left = [cell for cell in cells if tuple(cell[key] for key in self._keys) not in done]
    with open(self._path, "a", encoding="utf-8", newline="") as file, tqdm.tqdm(
        total=len(cells), initial=len(cells) - len(left), unit="cell"
    ) as bar:
      writer = csv.writer(file, lineterminator="\n")
      for cell in left:
        bar.set_postfix_str(" ".join(str(cell[key]) for key in self._keys))
        values = {name: _plain(value) for name, value in measure(**cell).items()}
        row = {**cell, **values}
        writer.writerow(self._cells(row))
        file.flush()
        self.rows.append(row)
        bar.update()
