"""Text tables: commas, semicolons, tabs or bars between the cells, plain or gzipped.

Arrow reads them.  It refuses what it can't read, but does not say which line of the file that
is, so Python's `csv` then looks for it.

For private algorithms nothing is refused, and no line changes how another one is read: the
options and the line of names decide, and Python's `csv` reads every line on its own.
"""

from __future__ import annotations

import array
import contextlib
import dataclasses
import io
import itertools
import re
from typing import Any, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from fl_clustering.tables import cells
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import packed_files
from fl_clustering.tables import problems
from fl_clustering.tables import table_options
from fl_clustering.tables import text_lines
from fl_clustering.tables import written_numbers

_LINES_TO_SNIFF = 20
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
# Two characters without a mark before them.
_UTF_16 = {"utf-16-le": rb"[^\0]\0[^\0]\0", "utf-16-be": rb"\0[^\0]\0[^\0]"}
# What comments begin with.
_COMMENTS = ("#", "//", "%")
# What a cell may have between letters and digits.
_IN_CELLS = ".,_+-/%()\"'"
_SKIPS_LINES = ("--skip_lines leaves out as many lines of every file", problems.REMOVE_TITLES)
_MOST_TITLES = 10
_MOST_SHOWN = 60
_CANT_READ = (pa.ArrowException, OSError, UnicodeError, *packed_files.DAMAGED)
# A column of a file without names, which has less than a million.
UNNAMED = re.compile(r"column_([1-9][0-9]{0,5})")


def _num_titles(
    lines: Sequence[tuple[int, list[str]]], are_padded: bool, above_names: bool
) -> int:
  """Returns how many of the first lines have titles instead of cells of the table below.

  Titles that are padded have as many cells as the table, all of them empty but one.  Where the
  table has a line of names, the line below the titles is no row of numbers.
  """
  cut = [line for _, line in lines]
  for count in range(1, min(_MOST_TITLES, len(cut) - 2) + 1):
    width, *others = {len(line) for line in cut[count:]}
    if others or width < (3 if are_padded else 2):
      continue
    if sum(cell.strip() != "" for cell in cut[count]) < 2:
      continue  # Another title.
    if above_names and any(
        cells.is_number(cell, mark) for cell in cut[count] for mark in cells.OTHER_DECIMAL
    ):
      continue
    if all(_is_title(line, width, are_padded) for line in cut[:count]):
      return count
  return 0


def _is_title(line: Sequence[str], width: int, are_padded: bool) -> bool:
  filled = [cell for cell in line if cell.strip()]
  if any(cells.is_number(cell, mark) for cell in filled for mark in cells.OTHER_DECIMAL):
    return False
  if are_padded:
    return len(line) == width and filled == list(line[: len(filled)]) and len(filled) < 2
  return 2 * len(filled) <= width and len(line) <= width


def _shown(line: Sequence[str], separator: str) -> str:
  text = separator.join(line).rstrip(separator)
  return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}...")


def _is_row_after(mark: str, line: Sequence[str], width: int) -> bool:
  """Returns whether a line below the names begins like a comment, but has the cells of a row."""
  return line[0].startswith(mark) and len(line) == width and (width > 1 or " " not in line[0])


def _check_no_comment(number: int, line: Sequence[str], head: columns_lib.Head) -> None:
  """Raises `BadTable` if a line begins like a comment."""
  mark = next((mark for mark in _COMMENTS if line[0].startswith(mark)), None)
  if mark is None:
    return
  problem = f"line {number}, {_shown(line, head.separator)}, looks like a comment"
  lines = text_lines.lines_of(head)
  first, names = next((one for one in lines if not one[1][0].startswith(mark)), (0, []))
  for other, row in lines:
    if _is_row_after(mark, row, len(names)):
      problem = (
          f"{problem}; line {other}, {_shown(row, head.separator)}, begins so too, but looks like "
          "a row"
      )
      if number < first:
        raise problems.BadTable(problem, hints=_SKIPS_LINES, skip_lines=first - 1)
      raise problems.BadTable(problem)
  raise problems.BadTable(
      problem, hints=("--comment leaves out lines that begin so",), comment=mark
  )


def check_no_row_skipped(head: columns_lib.Head, numbers: Iterable[str]) -> None:
  """Raises `BadTable` if a skipped line has a number in every one of the columns of numbers."""
  places = [head.known_names.index(name) for name in numbers if name in head.known_names]
  if head.first_line is None or not head.skip_lines or not places:
    return
  for number, line in text_lines.lines_of(dataclasses.replace(head, skip_lines=0)):
    if number > head.skip_lines:
      return
    are_numbers = len(line) == head.num_columns and all(
        text_lines.is_like_a_number(line[place]) for place in places
    )
    if are_numbers:
      raise problems.BadTable(
          f"line {number}, {_shown(line, head.separator)}, looks like a row, which "
          f"--skip_lines={head.skip_lines} of the run leaves out", head.path,
      )


def check_no_row_left_out(
    heads: Iterable[columns_lib.Head], options: table_options.TableOptions
) -> None:
  """Raises `BadTable` if heads leave out lines of a table, but options don't."""
  for head in heads:
    if head.first_line is None:
      continue
    before = dataclasses.replace(head, skip_lines=options.skip_lines, comment=options.comment)
    if before == head:
      continue
    mark = head.comment if head.comment != options.comment else None
    names_line = head.line if head.has_header else 0
    for number, line in text_lines.lines_of(before):
      name, looks = "", ""
      if mark and number > names_line and _is_row_after(mark, line, head.num_columns):
        name, looks = "comment", f"a row, though it begins with {mark!r}"
      elif number <= head.skip_lines and len(line) == head.num_columns > 1:
        if not _is_title(line, len(line), False):
          name, looks = "skip_lines", "part of the table"
      if name:
        raise problems.BadTable(
            f"line {number}, {_shown(line, head.separator)}, looks like {looks}", head.path,
            **{name: getattr(options, name)},
        )


def _widths(lines: Sequence[tuple[int, list[str]]]) -> set[int]:
  """Returns how many cells lines have that are no comments."""
  return {len(line) for _, line in lines if not line[0].startswith(_COMMENTS)}


def _check_no_comments(
    lines: Sequence[tuple[int, list[str]]], head: columns_lib.Head
) -> None:
  """Raises `BadTable` if some of the first lines are comments, and the others are a table."""
  comments = [(number, line) for number, line in lines if line[0].startswith(_COMMENTS)]
  widths = _widths(lines)
  # The name of a single column may begin so, too, but has hardly any spaces.
  if len(widths) == 1 and comments and (widths != {1} or " " in comments[0][1][0]):
    _check_no_comment(*comments[0], head)


def _check_no_titles(
    lines: Sequence[tuple[int, list[str]]], separator: str, are_padded: bool, above_names: bool
) -> None:
  """Raises `BadTable` if titles stand above the table."""
  count = _num_titles(lines, are_padded, above_names)
  if count:
    number, line = lines[0]
    raise problems.BadTable(
        f"line {number}, {_shown(line, separator)}, looks like a title above the table",
        hints=_SKIPS_LINES, skip_lines=lines[count][0] - 1,
    )


def _sniff(
    head: columns_lib.Head, options: table_options.TableOptions
) -> tuple[columns_lib.Head, list[tuple[int, list[str]]]]:
  """Returns the head with the first separator that cuts all first lines into as many cells."""
  found = {}
  said = options.separator or text_lines.said_separator(head)
  tried = (said,) if said else (options.likely_separator, *text_lines.SEPARATORS)
  for separator in filter(None, tried):
    of_separator = dataclasses.replace(head, separator=separator)
    found[separator] = list(itertools.islice(text_lines.lines_of(of_separator), _LINES_TO_SNIFF))
  for separator, lines in found.items():
    lengths = {len(line) for _, line in lines}
    if len(lengths) == 1 and lengths != {1}:
      if options.header == table_options.AUTO:
        _check_no_titles(lines, separator, are_padded=True, above_names=True)
      return dataclasses.replace(head, separator=separator), lines
  for separator, lines in sorted(found.items(), key=lambda item: -max(_widths(item[1]), default=0)):
    _check_no_comments(lines, dataclasses.replace(head, separator=separator))
  for separator, lines in found.items():
    _check_no_titles(
        lines, separator, are_padded=False, above_names=options.header != table_options.NO
    )
  # One column, or a file whose lines differ, which is found out later.
  separator, lines = max(
      reversed(found.items()), key=lambda item: sum(len(line) for _, line in item[1][:1])
  )
  return dataclasses.replace(head, separator=separator, is_even=False), lines


def _names_of_private(
    head: columns_lib.Head, separator: str | None
) -> tuple[str, tuple[str, ...]]:
  """Returns the separator and the names in the first line of a file; no names if it is empty."""
  separators = (separator,) if separator else text_lines.SEPARATORS
  found = {
      one: next(text_lines.single_lines(dataclasses.replace(head, separator=one)), [])
      for one in separators
  }
  separator = next((one for one, names in found.items() if len(names) > 1), separators[-1])
  if any("\ufffd" in name for name in found[separator]):
    raise problems.BadTable("its line of names is no text in UTF-8; save it with that encoding")
  if any("\n" in name for name in found[separator]):
    raise problems.BadTable("its line of names has a line break in a cell")
  return separator, tuple(name.strip() for name in found[separator])


def _private_head(
    head: columns_lib.Head, options: table_options.TableOptions
) -> columns_lib.Head:
  """Returns the `Head` of a file whose rows are not looked at."""
  head = dataclasses.replace(
      head, first_line=(), separator=options.separator or text_lines.SEPARATORS[-1],
      allows_any_cell=True,
  )
  if options.header == table_options.YES:
    separator, names = _names_of_private(head, options.separator)
    return dataclasses.replace(
        head, num_columns=len(names), first_line=names, separator=separator
    )
  named = (*(options.columns or ()), *options.exclude, *options.roles.values())
  places = [int(found[1]) for found in map(UNNAMED.fullmatch, named) if found]
  return dataclasses.replace(head, num_columns=max(places, default=0))


def _names(line: Sequence[str]) -> tuple[str, ...]:
  return tuple(cells.in_one_line(cell.strip()) for cell in line)


def _check_line_breaks(
    number: int, line: Sequence[str], head: columns_lib.Head, header: str
) -> None:
  """Raises `BadTable` if a file's first line has line breaks in cells, unless it surely has names.

  These are no numbers, nor are parts of them, and the lines in a cell look like no rows.
  """
  broken = [cell for cell in line if "\n" in cell]
  if not broken:
    return
  text_lines.check_quotes(dataclasses.replace(head, num_columns=len(line)))
  parts = [part for cell in line for part in cell.splitlines()]
  are_names = any(map(str.strip, parts)) and not any(
      cells.is_number(part, mark) for part in parts for mark in cells.OTHER_DECIMAL
  )
  have_cells = any(head.separator in cell for cell in broken)
  if header == table_options.NO or have_cells or not are_names:
    raise problems.BadTable(f"line {number} has a line break in a cell")


def read_head(path: str, options: table_options.TableOptions) -> columns_lib.Head:
  """Returns the `Head` of a file; `BadTable` if it is empty or no text."""
  is_workbook = path.lower().endswith(packed_files.WORKBOOK)
  if is_workbook:  # It is read as text that is no user's.
    options = dataclasses.replace(options, separator=",", encoding=None)
  head = columns_lib.Head(
      path, 0, encoding=options.encoding, other_encoding=options.likely_encoding or text_lines.ANSI,
      skip_lines=options.skip_lines, comment=options.comment, style=options.style,
  )
  if options.allow_any_number and options.header != table_options.AUTO:
    return _private_head(head, options)
  if head.encoding is None:
    start = b""
    with contextlib.suppress(*packed_files.DAMAGED), packed_files.open_binary(path) as file:
      start = file.read(4)
    found = "utf-16" if start[:2] in _UTF_16_MARKS else next(
        (name for name, pattern in _UTF_16.items() if re.match(pattern, start, re.DOTALL)), None
    )
    head = dataclasses.replace(head, encoding=found)
  try:
    head, lines = _sniff(head, options)
  except text_lines.Undecodable:
    if head.encoding is not None:
      raise
    head, lines = _sniff(dataclasses.replace(head, encoding=head.other_encoding), options)
  if not lines:
    raise problems.BadTable("it is empty")
  number, first = lines[0]
  _check_line_breaks(number, first, head, options.header)
  has_commas = is_workbook or head.separator == "," and len(first) > 1
  if has_commas and options.decimal is None and head.style.thousands in (".", ","):
    # Files with commas between cells have decimal points.
    thousands = None if head.style.thousands == "." else ","
    style = dataclasses.replace(head.style, decimal=".", thousands=thousands)
    head = dataclasses.replace(head, style=style)
  return dataclasses.replace(head, num_columns=len(first), line=number, first_line=_names(first))


def _rows(head: columns_lib.Head) -> Iterator[tuple[int, list[str]]]:
  """Yields (line number, cells) of every row."""
  return itertools.islice(text_lines.lines_of(head), int(head.has_header), None)


def rows_of_separators(head: columns_lib.Head) -> list[int]:
  """Returns the rows, counted from 0, of nothing but separators, as spreadsheets leave them."""
  return [row for row, (_, line) in enumerate(_rows(head)) if not "".join(line).strip()]


def where(head: columns_lib.Head, row: int) -> str:
  """Returns words for the place of a row, counted from 0."""
  number, _ = next(itertools.islice(_rows(head), row, None))
  return f"line {number}"


def check_no_second_header(head: columns_lib.Head) -> None:
  """Raises `BadTable` if lines of a text file repeat its line of names, as joined files do."""
  if not head.has_header:
    return
  found = [number for number, line in _rows(head) if _names(line) == head.known_line]
  if found:
    lines = "line {} repeats" if len(found) == 1 else "lines {} repeat"
    numbers = problems.listed([str(number) for number in found])
    raise problems.BadTable(f"{lines.format(numbers)} line {head.line}, the columns' names")


def check_separator(head: columns_lib.Head) -> None:
  """Raises `BadTable` if the only column of a text file looks like several."""
  if head.first_line is None or head.num_columns > 1:
    return
  first = itertools.islice(text_lines.lines_of(head), _LINES_TO_SNIFF)
  texts = [line[0].strip() for _, line in first]
  marks = [mark for mark in dict.fromkeys(texts[0]) if not mark.isalnum() and mark not in _IN_CELLS]
  for mark in sorted(marks, key=lambda mark: mark == " "):
    problem = (
        f"line {head.line}, {_shown(texts[:1], '')}, looks like several cells with {mark!r} "
        "between them"
    )
    for pattern in (re.escape(mark), f"{re.escape(mark)}+"):
      widths = {len(re.split(pattern, text)) for text in texts}
      if len(widths) > 1:
        continue
      if pattern.endswith("+"):
        raise problems.BadTable(f"{problem}, which must be a single one everywhere")
      raise problems.BadTable(problem, hints=("--separator names it",), separator=mark)


def _check_lines(head: columns_lib.Head) -> None:
  """Raises `BadTable` with the first line that has another number of cells, if there is one."""
  has_rows = False
  for number, line in _rows(head):
    if len(line) == head.num_columns:
      has_rows = True
      continue
    text_lines.check_quotes(head)
    _check_no_comment(number, line, head)
    found = "1 cell" if len(line) == 1 else f"{len(line)} cells"
    problem = (
        f"line {number} has {found}, line {head.line} has {head.num_columns}, with "
        f"{head.separator!r} between cells"
    )
    further = line[head.num_columns :]
    if further and not "".join(further).strip():
      raise problems.BadTable(f"{problem}; the further ones are empty")
    if has_rows:  # The separator is the right one.
      raise problems.BadTable(problem)
    firsts = [line for _, line in itertools.islice(_rows(head), _LINES_TO_SNIFF)]
    if {len(line) for line in firsts} == {head.num_columns + 1}:
      raise problems.BadTable(f"{problem}; line {head.line} lacks a name, as in files from R")
    if head.separator == "," and further and all(map(str.isdecimal, line)):
      raise problems.BadTable(
          f"{problem}; where numbers have decimal commas, cells must have another separator"
      )
    raise problems.BadTable(problem, hints=("--separator names another one",))


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
  lines = itertools.islice(text_lines.single_lines(head), int(head.has_header), None)
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


def _without_comments(head: columns_lib.Head) -> Any:
  """Returns what Arrow reads of a file as UTF-8, with empty lines in place of comments."""
  with text_lines.open_text(head, newline="") as file:
    texts = ["\n" if text.startswith(head.comment or "") else text for text in file]
  return io.BytesIO("".join(texts).encode())


def _read_as(
    head: columns_lib.Head, types: Mapping[str, Any], decimal: str, limit: int | None = None
) -> dict[str, Any]:
  """Returns the columns by name as Arrow arrays of some types; an exception of Arrow if it can't.

  A limit is the number of rows to read at least.
  """
  settings = {
      "read_options": arrow_csv.ReadOptions(
          column_names=head.names, skip_rows=head.line - 1 + head.has_header,
          encoding="utf8" if head.encoding is None or head.comment else head.encoding,
      ),
      "parse_options": arrow_csv.ParseOptions(
          delimiter=head.separator, newlines_in_values=True,
          invalid_row_handler=(lambda _: "skip") if head.bad_lines else None,
      ),
      "convert_options": arrow_csv.ConvertOptions(
          column_types=types, include_columns=list(types), null_values=cells.MISSING,
          decimal_point=decimal,
      ),
  }
  source = text_lines.Bytes(
      _without_comments(head) if head.comment else packed_files.open_binary(head.path),
      None if head.comment else head.encoding,
  )
  with contextlib.closing(source):
    if limit is not None:
      with arrow_csv.open_csv(source, **settings) as reader:
        table = reader.read_next_batch()
    else:
      table = arrow_csv.read_csv(source, **settings)
      num_above = head.line - 1 + head.has_header
      if source.has_quotes and source.num_lines != num_above + table.num_rows:
        text_lines.check_quotes(head)
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
    except _CANT_READ:
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

  Raises:
    BadTable: If a line can't be read.
  """
  if head.allows_any_cell:
    return head, _read_any(head, numbers, texts)
  if head.style.is_plain:
    found = _read_plain(head, numbers, texts)
    if found is not None:
      return found
  try:
    return head, read_texts(head, (*numbers, *texts))
  except text_lines.Undecodable:
    if head.encoding is not None:
      raise
    return read(dataclasses.replace(head, encoding=head.other_encoding), numbers, texts)
  except problems.BadTable:
    found = None
    if head.skips_bad_lines and not head.bad_lines:
      found = _without_bad_lines(head, numbers, texts)
    if found is None:
      raise
    return found


def _without_bad_lines(
    head: columns_lib.Head, numbers: Sequence[str], texts: Sequence[str]
) -> tuple[columns_lib.Head, dict[str, Any]] | None:
  """Returns what `read` does without lines of too few or too many cells; None if that fails."""
  widths = np.array([len(line) for _, line in _rows(head)])
  bad = np.flatnonzero(widths != head.num_columns)
  if not len(bad):
    return None
  head, found = read(dataclasses.replace(head, bad_lines=tuple(bad.tolist())), numbers, texts)
  # Or else the rows' numbers would be wrong.
  whole = {len(column) for column in found.values()} == {len(widths) - len(bad)}
  return (head, found) if whole else None


def read_texts(head: columns_lib.Head, names: Sequence[str]) -> dict[str, Any]:
  """Returns columns by name as Arrow arrays of text; `BadTable` if a line can't be read."""
  try:
    return _read_as(head, dict.fromkeys(names, pa.string()), ".")
  except _CANT_READ as e:
    _check_lines(head)
    raise problems.BadTable(f"it can't be read as a table ({str(e).splitlines()[0]})") from e
