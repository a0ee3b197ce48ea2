"""A table of measurements that grows row by row and survives being killed.

A study is a list of cells, such as (data set, method, k, run).  Each cell is measured on
its own, as a function of its keys, and its row is appended to a CSV file at once.  A
resumed study keeps the existing rows and measures the rest, so its table is the same as
that of an uninterrupted study.
"""

import csv
import io
import os
from typing import Any, Callable, Collection, Iterable, Mapping, Sequence

import tqdm

from clustering_basics import atomic_file
from experiment_shell import launch
from experiment_shell import output_folder


def _written(value: Any) -> str:
  """Returns a value as text for the CSV file; `_parsed` is the inverse."""
  # A 32-bit NumPy scalar would be written with fewer digits than it has in 64 bits.
  text = "" if value is None else str(value.item() if hasattr(value, "item") else value)
  if "\n" in text or "\r" in text:
    # Half of such a row could look like a complete row, and a bare "\r" is not quoted.
    raise ValueError(f"`measure` must return text of one line, got {text!r}.")
  return text


def _parsed(text: str) -> Any:
  """Returns a number if the text is one, None if it is empty, and else the text."""
  if not text:
    return None
  for kind in (int, float):
    try:
      return kind(text)
    except ValueError:
      pass
  return text


def read_table(
    path: str, text_columns: Collection[str] = ()
) -> tuple[list[str], list[list[Any]]]:
  """Returns the header and the rows of a CSV file as lists: numbers, text, None for empty cells.

  Args:
    text_columns: Names of columns that stay text even if it reads as a number.

  Raises:
    ValueError: If a line is not complete.
    csv.Error: If the file is not CSV.
  """
  with open(path, encoding="utf-8", newline="") as file:
    text = file.read()
  if not text.endswith("\n"):
    raise ValueError("its last line is not complete")
  header, *lines = csv.reader(io.StringIO(text, newline=""), strict=True)
  for number, line in enumerate(lines, start=1):
    if len(line) != len(header):
      raise ValueError(f"row {number} has {len(line)} cells, not {len(header)}")
  parsers = [str if name in text_columns else _parsed for name in header]
  return header, [[parse(cell) for parse, cell in zip(parsers, line)] for line in lines]


class Study:
  """Measurements in one CSV file of an `OutputFolder`.

  Attributes:
    rows: The measurements so far: a list of dicts of keys and values, in the order of
      the file, as they are read back from it.  Numbers are exactly those that were
      measured.  Text that reads as a number becomes one, and empty text becomes None.
  """

  def __init__(
      self, folder: output_folder.OutputFolder, name: str, keys: Sequence[str],
      values: Sequence[str],
  ) -> None:
    """Opens the table; if the run is resumed, with its existing rows.

    Args:
      folder: An `OutputFolder` after its `start`.
      keys: Names of the columns that identify a cell.
      values: Names of the columns that are measured.

    Raises:
      launch.InputError: If the file is not such a table, or can't be read and written.
    """
    self._path = folder.join(name)
    self._keys = tuple(keys)
    self._columns = (*keys, *values)
    resumed = folder.recorded is not None and os.path.exists(self._path)
    with launch.input_errors():
      lines = self._read() if resumed else []
      self.rows = list(map(self._row, lines))
      # This removes an incomplete last line, which a killed program may leave.
      atomic_file.write_text(self._path, output_folder.csv_text(self._columns, lines))

  def _read(self) -> list[list[str]]:
    """Returns the complete lines of the file, as lists of text."""
    with open(self._path, "rb") as file:
      content = file.read()
    try:
      text = content[: content.rfind(b"\n") + 1].decode("utf-8")
      if not text:
        return []
      # Of a row that never came to the disk, zeros may be left.
      whole = (line for line in text.split("\n")[:-1] if "\0" not in line)
      header, *lines = csv.reader(whole, strict=True)
      if tuple(header) == self._columns and all(len(r) == len(header) for r in lines):
        return lines
    except (ValueError, csv.Error):
      pass
    raise ValueError(
        f"`output_dir` must hold {os.path.basename(self._path)} with the columns "
        f"{', '.join(self._columns)} to resume, got {self._path!r}."
    )

  def _row(self, line: list[str]) -> dict[str, Any]:
    return dict(zip(self._columns, map(_parsed, line)))

  def run(
      self, cells: Iterable[Mapping[str, Any]], measure: Callable[..., Mapping[str, Any]]
  ) -> None:
    """Measures the cells that have no row yet, under a progress bar.

    Args:
      cells: Dicts of the keys, in the order of measuring.
      measure: A function that is called with a cell's keys as keyword arguments and
        returns a dict of the values: numbers, text of one line or None.  It must not
        depend on what was measured before.
    """
    cells = list(cells)
    done = {self._identity(row) for row in self.rows}
    left = [cell for cell in cells if self._identity(cell) not in done]
    with open(self._path, "a", encoding="utf-8", newline="") as file, tqdm.tqdm(
        total=len(cells), initial=len(cells) - len(left), unit="cell"
    ) as bar:
      writer = csv.writer(file, lineterminator="\n")
      for cell in left:
        bar.set_postfix_str(" ".join(self._identity(cell)), refresh=bar.mininterval < 1)
        row = {**cell, **measure(**cell)}
        line = [_written(row[column]) for column in self._columns]
        writer.writerow(line)
        file.flush()
        self.rows.append(self._row(line))
        bar.update()

  def _identity(self, row: Mapping[str, Any]) -> tuple[str, ...]:
    # The values after reading them back, since text may have become a number.
    return tuple(_written(_parsed(_written(row[key]))) for key in self._keys)
