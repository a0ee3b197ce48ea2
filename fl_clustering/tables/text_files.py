"""Text tables: commas, semicolons, tabs or bars between the cells, plain or gzipped.

Arrow reads them.  It refuses what it can't read, but does not say which line of the file that
is, so Python's `csv` then looks for it.

For private algorithms nothing is refused, and no line changes how another one is read: the
options and the line of names decide, and Python's `csv` reads every line on its own.
"""

from __future__ import annotations

import array
import csv
import dataclasses
import gzip
import itertools
import re
from typing import Any, Iterator, Mapping, Sequence
import zlib

import pyarrow as pa
from pyarrow import csv as arrow_csv

from fl_clustering.tables import cells
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import problems
from fl_clustering.tables import table_options
from fl_clustering.tables import written_numbers

# Tried in this order: a comma may also stand in a number or a text of the other kinds.
_SEPARATORS = ("\t", ";", "|", ",")
_LINES_TO_SNIFF = 20
# Spreadsheets begin a file with a byte order mark.
_ENCODING = "utf-8-sig"
# A column of a file without names, which has less than a million.
UNNAMED = re.compile(r"column_([1-9][0-9]{0,5})")


def _open(path: str, **options: Any) -> Any:
  return (gzip.open if path.lower().endswith(".gz") else open)(path, "rt", **options)


def _lines(path: str, separator: str) -> Iterator[tuple[int, list[str]]]:
  """Yields (line number, cells) of all lines that are not empty."""
  try:
    with _open(path, encoding=_ENCODING, newline="") as file:
      reader = csv.reader(file, delimiter=separator)
      for line in reader:
        if line:
          yield reader.line_num, line
  except UnicodeDecodeError as e:
    raise problems.BadTable("it is no text in UTF-8; save it with that encoding") from e
  except (csv.Error, EOFError, gzip.BadGzipFile, zlib.error) as e:
    raise problems.BadTable(f"it can't be read as a table ({e})") from e


def _single_lines(path: str, separator: str) -> Iterator[list[str]]:
  """Yields the cells of every line that is not empty, each of which is read on its own."""
  try:
    with _open(path, encoding=_ENCODING, errors="replace") as file:
      for text in file:
        try:
          line = next(csv.reader([text], delimiter=separator), [])
        except csv.Error:  # A cell is too long.
          line = [""]
        if line:
          yield line
  except (EOFError, gzip.BadGzipFile, zlib.error):  # Their words may show bytes of the file.
    raise problems.BadTable("it is no gzip file, or not all of one") from None


def _first_lines(path: str, separator: str) -> list[tuple[int, list[str]]]:
  return list(itertools.islice(_lines(path, separator), _LINES_TO_SNIFF))


def _sniff(path: str, separator: str | None) -> tuple[str, list[tuple[int, list[str]]]]:
  """Returns the first separator that cuts all of the first lines into as many cells, and these."""
  found = {one: _first_lines(path, one) for one in ([separator] if separator else _SEPARATORS)}
  for one, lines in found.items():
    lengths = {len(line) for _, line in lines}
    if len(lengths) == 1 and lengths != {1}:
      return one, lines
  # One column, or a file whose lines differ, which is found out later.
  return max(
      reversed(found.items()), key=lambda item: sum(len(line) for _, line in item[1][:1])
  )


def _names_of_private(path: str, separator: str | None) -> tuple[str, tuple[str, ...]]:
  """Returns the separator and the names in the first line of a file; no names if it is empty."""
  separators = (separator,) if separator else _SEPARATORS
  found = {one: next(_single_lines(path, one), []) for one in separators}
  separator = next((one for one, names in found.items() if len(names) > 1), separators[-1])
  if any("\ufffd" in name for name in found[separator]):
    raise problems.BadTable("its line of names is no text in UTF-8; save it with that encoding")
  if any("\n" in name for name in found[separator]):
    raise problems.BadTable("its line of names has a line break in a cell")
  return separator, tuple(name.strip() for name in found[separator])


def _private_head(path: str, options: table_options.TableOptions) -> columns_lib.Head:
  """Returns the `Head` of a file whose rows are not looked at."""
  head = columns_lib.Head(
      path, 0, first_line=(), separator=options.separator or _SEPARATORS[-1],
      style=options.style, allows_any_cell=True,
  )
  if options.header == table_options.YES:
    separator, names = _names_of_private(path, options.separator)
    return dataclasses.replace(
        head, num_columns=len(names), first_line=names, separator=separator
    )
  named = (*(options.columns or ()), *options.exclude, *options.roles.values())
  places = [int(found[1]) for found in map(UNNAMED.fullmatch, named) if found]
  return dataclasses.replace(head, num_columns=max(places, default=0))


def read_head(path: str, options: table_options.TableOptions) -> columns_lib.Head:
  """Returns the `Head` of a file.

  Args:
    path: The file.
    options: `TableOptions`.

  Raises:
    BadTable: If it is empty or no text.
  """
  if options.allow_any_number and options.header != table_options.AUTO:
    return _private_head(path, options)
  separator, lines = _sniff(path, options.separator)
  if not lines:
    raise problems.BadTable("it is empty")
  number, first = lines[0]
  if any("\n" in cell for cell in first):
    raise problems.BadTable(f"line {number} has a line break in a cell")
  return columns_lib.Head(
      path, len(first), separator=separator, style=options.style, line=number,
      first_line=tuple(cell.strip() for cell in first),
  )


def _rows(head: columns_lib.Head) -> Iterator[tuple[int, list[str]]]:
  """Yields (line number, cells) of every row."""
  return itertools.islice(_lines(head.path, head.separator), int(head.has_header), None)


def where(head: columns_lib.Head, row: int) -> str:
  """Returns words for the place of a row, counted from 0."""
  number, _ = next(itertools.islice(_rows(head), row, None))
  return f"line {number}"


def _check_lines(head: columns_lib.Head) -> None:
  """Raises `BadTable` with the first line that has another number of cells, if there is one."""
  for number, line in _rows(head):
    if len(line) != head.num_columns:
      raise problems.BadTable(
          f"line {number} has {len(line)} cells, line {head.line} has {head.num_columns}, with "
          f"{head.separator!r} between cells", hints=("--separator names another one",),
      )


def _read_any(
    head: columns_lib.Head, numbers: Sequence[str], texts: Sequence[str]
) -> dict[str, Any]:
  """Returns the columns by name, as `read` does, whatever their cells hold.

  In a line with more or fewer cells than there are names, all of them count as missing; in a
  file without names, in one with too few for the last column that an option names.
  """
  places = {name: head.known_names.index(name) for name in (*numbers, *texts)}
  columns: dict[str, Any] = {
      name: array.array("d") if name in numbers else [] for name in places
  }
  lines = itertools.islice(_single_lines(head.path, head.separator), int(head.has_header), None)
  for line in lines:
    is_whole = len(line) == head.num_columns or (
        not head.has_header and len(line) > head.num_columns
    )
    for name, place in places.items():
      cell = line[place] if is_whole else ""
      columns[name].append(head.style.number_of(cell) if name in numbers else cell)
  return {
      name: pa.array(column, pa.float64() if name in numbers else pa.string())
      for name, column in columns.items()
  }


def _read_as(
    head: columns_lib.Head, types: Mapping[str, Any], decimal: str, limit: int | None = None
) -> dict[str, Any]:
  """Returns the columns by name as Arrow arrays of some types; an exception of Arrow if it can't.

  Args:
    head: The `Head`.
    types: Arrow's types by column.
    decimal: The decimal mark.
    limit: How many rows to read at least; None for all.
  """
  settings = {
      "read_options": arrow_csv.ReadOptions(
          column_names=head.names, skip_rows=head.line - 1 + head.has_header
      ),
      "parse_options": arrow_csv.ParseOptions(delimiter=head.separator, newlines_in_values=True),
      "convert_options": arrow_csv.ConvertOptions(
          column_types=types, include_columns=list(types), null_values=cells.MISSING,
          strings_can_be_null=True, decimal_point=decimal,
      ),
  }
  if limit is None:
    table = arrow_csv.read_csv(head.path, **settings)
  else:
    with arrow_csv.open_csv(head.path, **settings) as reader:
      table = reader.read_next_batch()
  return {name: table[name] for name in types}


def _read_plain(
    head: columns_lib.Head, numbers: Sequence[str], texts: Sequence[str]
) -> tuple[columns_lib.Head, dict[str, Any]] | None:
  """Returns what `read` does if all numbers are plain, with one decimal mark; else None."""
  types = {**dict.fromkeys(numbers, pa.float64()), **dict.fromkeys(texts, pa.string())}
  for decimal in head.style.decimals:
    try:
      found = _read_as(head, types, decimal)
      if decimal == "," and head.style.decimal is None:
        firsts = _read_as(head, dict.fromkeys(numbers, pa.string()), decimal, limit=1)
        if not written_numbers.proves_comma(firsts):
          return None
    except (pa.ArrowException, OSError):
      continue
    style = dataclasses.replace(head.style, decimal=decimal)
    return dataclasses.replace(head, style=style), found
  return None


def read(
    head: columns_lib.Head, numbers: Sequence[str], texts: Sequence[str]
) -> tuple[columns_lib.Head, dict[str, Any]]:
  """Returns the `Head`, and the columns by name as Arrow arrays.

  The head has the decimal mark that was found.  Columns of numbers are float64, or all of them
  text if one of them can't be read so.

  Args:
    head: The `Head`, with names.
    numbers: The names of the columns to read as numbers.
    texts: The names of the columns to read as text.

  Raises:
    BadTable: If a line can't be read.
  """
  if head.allows_any_cell:
    return head, _read_any(head, numbers, texts)
  if head.style.is_plain:
    found = _read_plain(head, numbers, texts)
    if found is not None:
      return found
  return head, read_texts(head, (*numbers, *texts))


def read_texts(head: columns_lib.Head, names: Sequence[str]) -> dict[str, Any]:
  """Returns columns by name as Arrow arrays of text; `BadTable` if a line can't be read."""
  try:
    return _read_as(head, dict.fromkeys(names, pa.string()), ".")
  except (pa.ArrowException, OSError) as e:
    _check_lines(head)
    raise problems.BadTable(f"it can't be read as a table ({str(e).splitlines()[0]})") from e
