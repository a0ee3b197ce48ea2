"""Tables inside other files: an archive with one file, or a workbook with one sheet."""

from __future__ import annotations

import csv
import datetime
import functools
import gzip
import io
import itertools
import os
import re
from typing import Any, Iterator, Sequence
import zipfile
import zlib

from fl_clustering.tables import cells
from fl_clustering.tables import problems

ZIP, WORKBOOK = ".zip", ".xlsx"
# What reading a file that is not what its name says, or only half of it, may raise.
DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, zipfile.BadZipFile, RuntimeError)
# A range of merged cells in a sheet: its first column, and its first and its last row.
_MERGED = re.compile(rb'mergeCell [^>]*ref="(([A-Z]+)([0-9]+):[A-Z]+([0-9]+))"')

# A cell with a formula whose value is not stored; "" is one.
_NO_VALUE = re.compile(
    rb'<(?:\w+:)?c (?![^>]*\bt="str")[^>]*\br="([A-Z]+[0-9]+)"[^>]*>\s*'
    rb"<(?:\w+:)?f\b(?:[^>]*/>|[^>]*>[^<]*</(?:\w+:)?f>)\s*"
    rb"(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v></(?:\w+:)?v>)?\s*</(?:\w+:)?c>"
)


def _is(path: str, ending: str) -> bool:
  return path.lower().endswith(ending)


def inner_name(path: str) -> str:
  """Returns the name that says what kind of table a file holds: in an archive, that of its file.

  Raises `BadTable` if there is not one file in an archive.
  """
  if not _is(path, ZIP):
    return path
  try:
    with zipfile.ZipFile(path) as archive:
      names = [
          name for name in archive.namelist()
          if not name.endswith("/") and not os.path.basename(name).startswith(".")
          and not name.startswith("__MACOSX/")
      ]
  except (*DAMAGED, ValueError) as e:
    raise problems.BadTable("it is no zip file, or not all of one") from e
  if len(names) != 1:
    raise problems.BadTable(f"it must hold one file, got {len(names)}")
  return names[0]


def open_binary(path: str) -> Any:
  """Returns a file of bytes: a file's own, or those of the table in it."""
  if _is(path, WORKBOOK):
    return io.BytesIO(_sheet_as_csv(path, os.stat(path).st_mtime_ns))
  if _is(path, ZIP):
    name = inner_name(path)
    # All of it, as Parquet and NumPy move to and fro in a file.
    with zipfile.ZipFile(path) as archive:
      content = archive.read(name)
    inner = io.BytesIO(content)
    return gzip.open(inner) if _is(name, ".gz") else inner
  return gzip.open(path) if _is(path, ".gz") else open(path, "rb")


def source(path: str) -> Any:
  """Returns what libraries that open files themselves take: the path, or a file of bytes."""
  return open_binary(path) if _is(path, ZIP) or _is(path, WORKBOOK) else path


# A file is read twice when it is opened, and workbooks take their time.
@functools.lru_cache(maxsize=1)
def _sheet_as_csv(path: str, unused_time: int) -> bytes:
  """Returns the sheet of a workbook as CSV in UTF-8, a line for each row."""
  sheets = {name: rows for name, rows in _sheets(path) if rows}
  if len(sheets) != 1:
    raise problems.BadTable(
        f"it must have one sheet with cells, got {', '.join(sheets) or 'none'}"
    )
  (rows,) = sheets.values()
  _check_cells(path, rows)
  width = max(map(len, rows))
  text = io.StringIO()
  writer = csv.writer(text, lineterminator="\n")
  for row in rows:
    writer.writerow([*row, *[""] * (width - len(row))] if row else [])
  return text.getvalue().encode()


def _check_cells(path: str, rows: Sequence[Sequence[str]]) -> None:
  """Raises `BadTable` if a workbook's cells have values that don't stand in them.

  Of merged cells that reach into further rows with cells, only those of the first have a value.
  Programs that don't compute formulas write them without values.
  """
  with zipfile.ZipFile(path) as archive:
    sheets = [archive.read(name) for name in archive.namelist() if "worksheets/" in name]
  for found in filter(None, map(_NO_VALUE.search, sheets)):
    raise problems.BadTable(
        f"cell {found[1].decode()} has a formula without its value; open the workbook in a "
        "spreadsheet program, and save it"
    )
  for merged, letters, first, last in itertools.chain(*map(_MERGED.findall, sheets)):
    column = functools.reduce(lambda number, letter: 26 * number + letter - 64, letters, 0) - 1
    top, *others = rows[int(first) - 1 : int(last)] or [[]]
    # Of another sheet, others may have values there.
    if any(top[column : column + 1]) and any(others) and not any(
        any(row[column : column + 1]) for row in others
    ):
      raise problems.BadTable(
          f"it has merged cells, {merged.decode()} for one; unmerge them and fill in every row"
      )


def _sheets(path: str) -> Iterator[tuple[str, list[list[str]]]]:
  """Yields the name and the rows of every sheet, without empty cells and rows at their ends."""
  try:
    import openpyxl  # pylint: disable=g-import-not-at-top
  except ImportError as e:
    raise problems.BadTable(
        "it takes the package openpyxl, which is not installed; install it, or save the table as "
        "CSV"
    ) from e
  try:
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    for sheet in book.worksheets:
      rows = sheet.iter_rows(values_only=True)
      yield sheet.title, _without_end([_without_end(list(map(_text, row))) for row in rows])
    book.close()
  except (*DAMAGED, KeyError, OSError, ValueError) as e:
    raise problems.BadTable(f"it can't be read as a workbook ({e})") from e


def _without_end(values: Sequence[Any]) -> list[Any]:
  """Returns values without those at the end that are empty."""
  size = max((place + 1 for place, value in enumerate(values) if value), default=0)
  return list(values[:size])


def _text(value: Any) -> str:
  if isinstance(value, bool):
    return str(value).lower()
  if isinstance(value, datetime.datetime):
    return value.isoformat(sep=" ")
  return "" if value is None else cells.in_one_line(str(value))  # A row is a line.
