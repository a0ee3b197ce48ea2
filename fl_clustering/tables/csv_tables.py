"""Text tables: commas, semicolons, tabs or bars between the cells, plain or gzipped.

Arrow reads the numbers.  It refuses what it can't read, but does not say which line of the
file that is, so Python's `csv` then looks for it.

For private algorithms nothing is refused, and no line changes how another one is read: the
options and the line of names decide, and Python's `csv` reads every line on its own.
"""

import array
import csv
import dataclasses
import gzip
import itertools
import re
import zlib

from fl_clustering.tables import cells
from fl_clustering.tables import table_head
from fl_clustering.tables import table_options

# Tried in this order: a comma may also stand in a number or a text of the other kinds.
_SEPARATORS = ("\t", ";", "|", ",")
_LINES_TO_SNIFF = 20
# Spreadsheets begin a file with a byte order mark.
_ENCODING = "utf-8-sig"
# A column of a file without names, which has less than a million.
UNNAMED = re.compile(r"column_([1-9][0-9]{0,5})")


def _opener(path):
  return gzip.open if path.lower().endswith(".gz") else open


def _lines(path, separator):
  """Yields (line number, cells) of all lines that are not empty."""
  try:
    with _opener(path)(path, "rt", encoding=_ENCODING, newline="") as file:
      reader = csv.reader(file, delimiter=separator)
      for line in reader:
        if line:
          yield reader.line_num, line
  except UnicodeDecodeError as e:
    raise cells.BadTable("it is no text in UTF-8; save it with that encoding") from e
  except (csv.Error, EOFError, gzip.BadGzipFile, zlib.error) as e:
    raise cells.BadTable(f"it can't be read as a table ({e})") from e


def _single_lines(path, separator):
  """Yields the cells of every line that is not empty, each of which is read on its own."""
  try:
    with _opener(path)(path, "rt", encoding=_ENCODING, errors="replace") as file:
      for text in file:
        try:
          line = next(csv.reader([text], delimiter=separator), [])
        except csv.Error:  # A cell is too long.
          line = [""]
        if line:
          yield line
  except (EOFError, gzip.BadGzipFile, zlib.error):  # Their words may show bytes of the file.
    raise cells.BadTable("it is no gzip file, or not all of one") from None


def _first_lines(path, separator):
  return list(itertools.islice(_lines(path, separator), _LINES_TO_SNIFF))


def _find_separator(path):
  """Returns the first separator that cuts all of the first lines into as many cells."""
  for separator in _SEPARATORS:
    lengths = {len(line) for _, line in _first_lines(path, separator)}
    if len(lengths) == 1 and lengths != {1}:
      return separator
  # One column, or a file whose lines differ, which is found out later.
  widths = {
      separator: sum(len(line) for _, line in _first_lines(path, separator)[:1])
      for separator in _SEPARATORS
  }
  return max(reversed(_SEPARATORS), key=widths.get)


def _names_of_private(path, separator):
  """Returns the separator and the names in the first line of a file; no names if it is empty."""
  separators = (separator,) if separator else _SEPARATORS
  found = {one: next(_single_lines(path, one), []) for one in separators}
  separator = next((one for one, names in found.items() if len(names) > 1), separators[-1])
  if any("\ufffd" in name for name in found[separator]):
    raise cells.BadTable("its line of names is no text in UTF-8; save it with that encoding")
  if any("\n" in name for name in found[separator]):
    raise cells.BadTable("its line of names has a line break in a cell")
  return separator, tuple(name.strip() for name in found[separator])


def _private_head(path, options):
  """Returns the `Head` of a file whose rows are not looked at."""
  head = table_head.Head(
      path, 0, first_line=(), separator=options.separator or _SEPARATORS[-1],
      decimal=options.decimal, allows_any_cell=True,
  )
  if options.header == table_options.YES:
    separator, names = _names_of_private(path, options.separator)
    return dataclasses.replace(
        head, num_columns=len(names), first_line=names, separator=separator
    )
  named = (*(options.columns or ()), *options.exclude, *options.roles.values())
  places = [int(found[1]) for found in map(UNNAMED.fullmatch, named) if found]
  return dataclasses.replace(head, num_columns=max(places, default=0))


def read_head(path, options):
  """Returns the `Head` of a file.

  Args:
    path: The file.
    options: `TableOptions`.

  Raises:
    BadTable: If it is empty or no text.
  """
  if options.allow_any_number and options.header != table_options.AUTO:
    return _private_head(path, options)
  separator = options.separator or _find_separator(path)
  lines = _first_lines(path, separator)
  if not lines:
    raise cells.BadTable("it is empty")
  number, first = lines[0]
  if any("\n" in cell for cell in first):
    raise cells.BadTable(f"line {number} has a line break in a cell")
  return table_head.Head(
      path, len(first), separator=separator, decimal=options.decimal, line=number,
      first_line=tuple(cell.strip() for cell in first),
  )


def _rows(head):
  """Yields (line number, cells) of every row."""
  return itertools.islice(_lines(head.path, head.separator), int(head.has_header), None)


def where(head, row):
  """Returns words for the place of a row, counted from 0."""
  number, _ = next(itertools.islice(_rows(head), row, None))
  return f"line {number}"


def _check_lines(head, numbers):
  """Raises `BadTable` with the first line that can't be read, if there is one."""
  places = {name: head.names.index(name) for name in numbers}
  firsts, levels, num_rows, has_points = {}, {name: set() for name in numbers}, 0, False
  for num_rows, (number, line) in enumerate(_rows(head), start=1):
    if len(line) != head.num_columns:
      raise cells.BadTable(
          f"line {number} has {len(line)} cells, line {head.line} has {head.num_columns}, with "
          f"{head.separator!r} between cells", hints=("--separator names another one",),
      )
    for name, place in places.items():
      cell = line[place]
      if cells.is_missing(cell):
        continue
      if len(levels[name]) <= cells.MOST_LEVELS:
        levels[name].add(cell.strip())
      if not cells.is_number(cell, head.decimal):
        firsts.setdefault(name, (f"line {number}", cell))
      else:
        has_points = has_points or "." in cell
  if firsts:
    columns = {name: cells.TextColumn(*first, levels[name]) for name, first in firsts.items()}
    # Between commas, one in a number stands between thousands.
    may_have_commas = head.decimal == "." and head.separator != "," and not has_points
    raise cells.no_numbers(columns, num_rows, len(numbers), head.decimal, may_have_commas)


def _read_any(head, numbers, texts):
  """Returns the columns by name, as `read` does, whatever their cells hold.

  In a line with more or fewer cells than there are names, all of them count as missing; in a
  file without names, in one with too few for the last column that an option names.
  """
  places = {name: head.names.index(name) for name in (*numbers, *texts)}
  columns = {name: array.array("d") if name in numbers else [] for name in places}
  lines = itertools.islice(_single_lines(head.path, head.separator), int(head.has_header), None)
  for line in lines:
    is_whole = len(line) == head.num_columns or (
        not head.has_header and len(line) > head.num_columns
    )
    for name, place in places.items():
      cell = line[place] if is_whole else ""
      columns[name].append(cells.number_of(cell, head.decimal) if name in numbers else cell)
  return columns


def read(head, numbers, texts):
  """Returns the columns by name, as Arrow arrays of float64 and of text.

  Args:
    head: The `Head`, with names.
    numbers: The names of the columns to read as numbers.
    texts: The names of the columns to read as text.

  Raises:
    BadTable: If a line can't be read.
  """
  # pylint: disable=g-import-not-at-top
  import pyarrow as pa
  from pyarrow import csv as arrow_csv
  # pylint: enable=g-import-not-at-top

  if head.allows_any_cell:
    columns = _read_any(head, numbers, texts)
    return {
        name: pa.array(column, pa.float64() if name in numbers else pa.string())
        for name, column in columns.items()
    }
  types = {**dict.fromkeys(numbers, pa.float64()), **dict.fromkeys(texts, pa.string())}
  try:
    table = arrow_csv.read_csv(
        head.path,
        read_options=arrow_csv.ReadOptions(
            column_names=head.names, skip_rows=head.line - 1 + head.has_header
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=head.separator, newlines_in_values=True
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=types, include_columns=list(types), null_values=cells.MISSING,
            strings_can_be_null=True, decimal_point=head.decimal,
        ),
    )
  except (pa.ArrowException, OSError) as e:
    _check_lines(head, numbers)
    raise cells.BadTable(f"it can't be read as a table ({str(e).splitlines()[0]})") from e
  return {name: table[name] for name in types}

