"""The kinds of files that hold a table, where a folder has them, and how they are read."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from typing import Any, Callable, Collection, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np
import psutil
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import feather
from pyarrow import parquet

from clustering_basics import validate
from fl_clustering.points import given_clients
from fl_clustering.tables import cells
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import packed_files
from fl_clustering.tables import problems
from fl_clustering.tables import table_options
from fl_clustering.tables import text_files
from fl_clustering.tables import totals
from fl_clustering.tables import typed_files
from fl_clustering.tables import written_numbers

# What reading a table takes at least: its text, or its numbers, and a copy.
_LEAST_BYTES_PER_BYTE = 2
_FILLS_IN = "--missing=mean or --missing=indicator fills in missing cells"


class Kind(NamedTuple):
  """A kind of file; `read_head` raises `BadTable` if a file can't be read."""

  read_head: typed_files.ReadHead
  read: typed_files.Read


_TEXT = Kind(text_files.read_head, text_files.read)
_ARRAY = Kind(typed_files.array_head, typed_files.read_array)
_PARQUET = Kind(*typed_files.of_arrow(
    "Parquet", lambda source: parquet.read_schema(source).names, parquet.read_table
))
_FEATHER = Kind(*typed_files.of_arrow(
    "Feather", lambda source: feather.read_table(source).column_names, feather.read_table
))

# To add a kind: one row, by the ending of its files.
KINDS = {
    ".csv": _TEXT,
    ".tsv": _TEXT,
    ".txt": _TEXT,
    ".csv.gz": _TEXT,
    ".tsv.gz": _TEXT,
    ".txt.gz": _TEXT,
    packed_files.WORKBOOK: _TEXT,
    ".parquet": _PARQUET,
    ".feather": _FEATHER,
    ".npy": _ARRAY,
    ".npz": _ARRAY,
}


# An archive may say itself what it holds, as in a.csv.zip.
_PACKED = {ending + packed_files.ZIP for ending in KINDS} | {packed_files.ZIP}
_ENDINGS = (*KINDS, packed_files.ZIP)
# Files that nobody sees: of Unix, of Windows, and of Office while a workbook is open.
_HIDDEN = re.compile(r"\.|~\$|(desktop\.ini|thumbs\.db)$", re.IGNORECASE)


def _ending(path: str) -> str | None:
  """Returns the longest ending that says that a file can be read, or None."""
  lower = path.lower()
  return max((e for e in (*KINDS, *_PACKED) if lower.endswith(e)), key=len, default=None)


def _kind(path: str) -> Kind:
  """Returns the kind of a file that `paths` found; `BadTable` if its archive has another one."""
  if os.path.exists(path) and not os.path.isfile(path):
    raise problems.BadTable("it is no regular file")
  name = packed_files.inner_name(path)
  ending = _ending(name)
  if ending not in KINDS or name != path and ending == packed_files.WORKBOOK:
    raise problems.BadTable(f"it holds {name!r}, which is of no kind that can be read")
  return KINDS[ending]


def check_folder(directory: str, argument: str) -> None:
  """Raises ValueError unless there is such a folder; messages call it `argument`."""
  if not os.path.isdir(directory):
    raise ValueError(f"`{argument}` must be a folder, got {directory!r}.")


def _files(directory: str) -> Iterator[tuple[str, str, str | None]]:
  """Yields (file name, path, ending or None) of a folder's files that are not hidden."""
  for name in sorted(os.listdir(directory)):
    path = os.path.join(directory, name)
    if not _HIDDEN.match(name) and not os.path.isdir(path):
      yield name, path, _ending(name)


def check_kinds(directories: Iterable[str], is_private: bool = False) -> None:
  """Raises `BadTable` if folders have files of other kinds.

  In a private run, no row may change how another one is read, as the rows of workbooks do.
  """
  known = [one for one in _ENDINGS if not is_private or one != packed_files.WORKBOOK]
  hints = (f"kinds are {', '.join(known)}",)
  found = [
      problems.Finding("it is of no kind that can be read", path, hints)
      for directory in directories for _, path, ending in _files(directory)
      if ending is None or ending == packed_files.WORKBOOK and is_private
  ]
  if found:
    raise problems.BadTable.of(found)


def paths(directory: str, argument: str, what: str) -> dict[str, str]:
  """Returns the paths of a folder's files by their names without endings.

  Folders in it, hidden files and those of other kinds are left alone.

  Args:
    argument: What messages call the folder.
    what: What a file is of, such as "client".

  Raises:
    ValueError: If it is no folder, or has none, or one name twice, or one that is not in UTF-8.
    OSError: If the folder can't be read.
  """
  check_folder(directory, argument)
  found: dict[str, str] = {}
  for file_name, path, ending in _files(directory):
    if ending is None:
      continue
    validate.utf_8(**{argument: path})
    name = cells.composed(file_name[: -len(ending)])
    if name in found:
      raise ValueError(
          f"`{argument}` must hold one file per {what}, got {found[name]!r} and {path!r}."
      )
    found[name] = path
  if not found:
    others = problems.listed([name for name, *_ in _files(directory)])
    got = f"only {others}" if others else "none"
    raise ValueError(
        f"`{argument}` must hold a file per {what} ({', '.join(_ENDINGS)}), got {got} in "
        f"{directory!r}."
    )
  return found


def have_text(directory: str) -> bool:
  """Returns whether a folder has text files, which don't say themselves how they are written."""
  for _, path, ending in _files(directory):
    if ending is not None:
      with contextlib.suppress(problems.BadTable):
        if _kind(path) is _TEXT:
          return True
  return False


def check_memory(
    paths_: Collection[str], options: table_options.TableOptions, argument: str
) -> None:
  """Raises a ValueError if the largest file, or with `client_column` all, can't fit into memory."""
  available = psutil.virtual_memory().available
  sizes = {path: _LEAST_BYTES_PER_BYTE * os.path.getsize(path) for path in paths_}
  if options.client_column is not None:
    sizes = {next(iter(sizes)): sum(sizes.values())}
  path = max(sizes, key=lambda path: sizes[path])
  if sizes[path] > available:
    raise ValueError(
        f"`{argument}` must hold tables that fit into memory, of which {available / 1e9:.1f} GB "
        f"are free, got {path!r}, which takes {sizes[path] / 1e9:.1f} GB at least."
    )


def _composed(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
  return None if names is None else tuple(map(cells.composed, names))


def read_head(path: str, options: table_options.TableOptions) -> columns_lib.Head:
  """Returns the `Head` of a file; `BadTable` if it holds no table."""
  head = _kind(path).read_head(path, options)
  head = dataclasses.replace(
      head, names=_composed(head.names), first_line=_composed(head.first_line)
  )
  # An empty file of a private algorithm has the columns of the others.
  may_be_empty = head.allows_any_cell and options.header == table_options.YES
  if not head.num_columns and not (may_be_empty and head.first_line == ()):
    raise problems.BadTable("it has no columns")
  return head


def _trimmed(column: Any) -> Any:
  """Returns an Arrow array of text, trimmed, null where missing."""
  if isinstance(column, pa.ChunkedArray):
    column = column.combine_chunks()
  texts = pc.utf8_trim_whitespace(column)
  says_nothing = pc.is_in(texts, value_set=pa.array(cells.MISSING))
  return pc.if_else(says_nothing, pa.scalar(None, texts.type), texts)


def unclear_point(head: columns_lib.Head, names: Sequence[str]) -> tuple[str, bool]:
  """Returns words for a number whose point may stand between thousands, as nothing in a file says.

  They are "" if there is none.  Also returns whether whole numbers stand beside it.

  Args:
    head: The file's `Head`, with the decimal mark that was found.
    names: The columns of numbers.
  """
  # Files with commas between cells have points in numbers.
  if head.first_line is None or head.separator == "," or head.style.decimal != ".":
    return "", False
  texts = text_files.read_texts(head, names)
  cell, has_whole = written_numbers.unclear_point({name: _trimmed(texts[name]) for name in names})
  if cell is None:
    return "", False
  place = f"{text_files.where(head, cell.row)}, column {cell.column!r}"
  return f"{place}: {cell.text!r}", has_whole


def _number_findings(
    reading: written_numbers.Reading, num_rows: int, where: Callable[[int], str],
    features: Collection[str],
) -> list[problems.Finding]:
  """Returns what is wrong with columns of numbers, the first cell first.

  Only features may hold levels, or be left out.
  """
  groups: dict[Any, list[written_numbers.Fault]] = {}
  for fault in sorted(reading.faults, key=lambda fault: fault.cell.row):
    groups.setdefault(fault.cell if fault.beside else fault.reason, []).append(fault)
  found = []
  for first, *others in groups.values():
    cell, reason = first.cell, first.reason
    if first.beside is not None:
      beside = first.beside
      place = f"{beside.text!r} in {where(beside.row)}, column {beside.column!r},"
      reason = reason.replace(written_numbers.BESIDE, place)
    names = problems.also([fault.cell.column for fault in others])
    found.append(problems.Finding(
        f"{where(cell.row)}, column {cell.column!r}: {cell.text!r} {reason}{names}",
        hints=() if first.hint is None else (first.hint,),
        fix=first.fix,
        texts=tuple(
            problems.TextColumn(fault.cell.column, fault.levels, num_rows)
            for fault in (first, *others)
            if fault.levels is not None and fault.cell.column in features
        ),
    ))
  return found


def _as_text(array: Any) -> np.ndarray:
  """Returns an Arrow array of text as an array of objects, trimmed and as `cells.composed`.

  It has None where a cell is missing.
  """
  texts = _trimmed(array)
  found = texts.to_pylist()
  if not pc.all(pc.string_is_ascii(texts)).as_py():
    found = [text and cells.composed(text) for text in found]
  return np.array(found, object)


def _num_words(array: Any) -> int:
  is_word = pc.is_in(pc.utf8_trim_whitespace(array), value_set=pa.array(cells.WORDS))
  return int(np.count_nonzero(is_word))


def is_missing(column: np.ndarray) -> np.ndarray:
  """Returns which cells of a column are missing, bool of shape (n,)."""
  return np.isnan(column) if column.dtype != object else column == np.array(None)


def _firsts(chosen: dict[str, np.ndarray]) -> dict[str, int]:
  """Returns the first of the chosen rows of every column that has some, the first row first."""
  found = {name: int(np.argmax(rows)) for name, rows in chosen.items() if rows.any()}
  return dict(sorted(found.items(), key=lambda item: item[1]))


def _cell_findings(
    values: Mapping[str, np.ndarray], columns: columns_lib.Columns, needed: Collection[str],
    allow_any_number: bool, where: Callable[[int], str],
) -> list[problems.Finding]:
  """Returns what is wrong with cells of columns, as far as these could be read."""
  found = []
  used = [name for name in (*columns.features, *columns.roles.values()) if name in values]
  missing = _firsts({name: is_missing(values[name]) for name in used if name in needed})
  names = [name for name in missing if name in columns.features]
  if names:
    found.append(problems.Finding(
        f"{where(missing[names[0]])}, column {names[0]!r} is empty{problems.also(names[1:])}",
        hints=(_FILLS_IN,), fix={"missing": table_options.MEAN},
    ))
  numbers = () if allow_any_number else [name for name in columns.numbers if name in values]
  bad = _firsts({name: np.abs(values[name]) > given_clients.LARGEST for name in numbers})
  if bad:
    (name, row), *_ = bad.items()
    value, largest = values[name][row], given_clients.LARGEST
    rule = (
        f"is not between {-largest:g} and {largest:g}" if np.isfinite(value)
        else "is not a finite number"
    )
    others = problems.also(list(bad)[1:])
    found.append(problems.Finding(f"{where(row)}, column {name!r}: {value:g} {rule}{others}"))
  return found + [
      problems.Finding(f"{where(row)}, column {name!r} is empty, and every row must have one")
      for name, row in missing.items() if name not in columns.features
  ]


@dataclasses.dataclass(frozen=True, eq=False)
class _Table:
  """Some rows of a file.

  Attributes:
    rows: Their numbers in the file, from 0.
    texts: The columns of numbers that are text in the file, trimmed: Arrow arrays.
    names: Likewise what rows may be called in a column that is not used, or nothing.
    reading: What was found in `texts`.
    values: All columns that could be read.
  """

  rows: np.ndarray
  texts: Mapping[str, Any]
  names: Mapping[str, Any]
  reading: written_numbers.Reading
  values: Mapping[str, np.ndarray]

  def cell(self, name: str, row: int) -> Any:
    """Returns a cell as it was read, or the text of one that could not be read."""
    if name in self.values:
      return self.values[name][row]
    return {**self.names, **self.texts}[name][row].as_py()

  def take(self, chosen: np.ndarray, style: cells.Style) -> _Table:
    """Returns the rows of a mask; without the others, more columns may be read in a style."""
    names, texts = (
        {name: column.filter(pa.array(chosen)) for name, column in group.items()}
        for group in (self.names, self.texts)
    )
    reading = written_numbers.read(texts, style)
    values = {name: column[chosen] for name, column in self.values.items()}
    return _Table(self.rows[chosen], texts, names, reading, {**values, **reading.numbers})


def _without_separators(
    head: columns_lib.Head, arrays: dict[str, Any], rows: np.ndarray
) -> tuple[columns_lib.Head, dict[str, Any], np.ndarray]:
  """Returns what it is given without the rows that hold nothing but separators.

  The head has the numbers of those between other rows.
  """
  is_empty = np.full(len(rows), head.first_line is not None and head.num_columns > 1)
  for array in arrays.values():
    if not is_empty.any():  # As in most files, which need no second look.
      return head, arrays, rows
    texts = array if array.type == pa.float64() else _trimmed(array)
    is_empty &= np.asarray(pc.is_null(texts, nan_is_null=True), bool)
  is_row = ~(is_empty & np.isin(rows, text_files.rows_of_separators(head)))
  num_rows = int(np.flatnonzero(is_row).max(initial=-1)) + 1
  between = rows[:num_rows][~is_row[:num_rows]]
  if not is_row.all():
    head = dataclasses.replace(head, separators=tuple(between.tolist()))
  return head, {n: array.filter(pa.array(is_row)) for n, array in arrays.items()}, rows[is_row]


def _with_words(
    head: columns_lib.Head, arrays: Mapping[str, Any], columns: columns_lib.Columns
) -> columns_lib.Head:
  words = {name: _num_words(arrays[name]) for name in columns.categories if name in columns.texts}
  found = tuple((name, count) for name, count in words.items() if count)
  return dataclasses.replace(head, words=found or head.words)


def _read_cells(
    head: columns_lib.Head, arrays: Mapping[str, Any], columns: columns_lib.Columns,
    rows: np.ndarray,
) -> _Table:
  """Returns the `_Table` of a file's columns, given as Arrow arrays."""
  texts = {
      name: _trimmed(arrays[name]) for name in columns.numbers if arrays[name].type != pa.float64()
  }
  used = {*columns.numbers, *columns.texts}
  reading = written_numbers.read(texts, head.style)
  values = {
      name: np.asarray(arrays[name].to_numpy(), np.float64)
      for name in columns.numbers if name not in texts
  }
  values.update(reading.numbers)
  values.update({name: _as_text(arrays[name]) for name in columns.texts})
  names = {name: _trimmed(array) for name, array in arrays.items() if name not in used}
  return _Table(rows, texts, names, reading, values)


def _add_facts(
    facts: problems.ColumnFacts, table: _Table, head: columns_lib.Head,
    columns: columns_lib.Columns,
) -> None:
  """Adds what a file's columns of numbers are like, and their units."""
  for name in columns.numbers:
    if name in columns.in_numbers:  # It need not stay a column of numbers.
      counts = 0, 0
    elif name in table.texts:
      counts = table.reading.counts[name]
    else:
      counts = int(np.sum(~np.isnan(table.values[name]))), 0
    facts.add(name, *counts)
    if not head.style.strips_units or name not in table.values:
      continue
    column = table.values[name]
    for unit, chosen in (table.reading.units.get(name) or {"": ~is_missing(column)}).items():
      sizes = np.abs(column[chosen])
      sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
      least, largest = sizes.min(initial=np.inf), sizes.max(initial=0)
      facts.add_unit(name, unit, head.path, float(least), float(largest))


def _without_bad_rows(
    table: _Table, bad_rows: dict[int, str], find: Callable[[_Table], Iterable[totals.BadCells]],
    style: cells.Style,
) -> _Table:
  """Returns a table without its bad rows, unless all are, and adds why they are bad."""
  while True:  # Without the bad cells of a column, its others can be read, and may be bad too.
    is_good = np.ones(len(table.rows), bool)
    for name, is_bad, why in find(table):
      for row in np.flatnonzero(is_bad & is_good):
        number = int(table.rows[row]) + 1
        bad_rows[number] = f"row {number}, column {name!r}{why.format(table.cell(name, row))}"
      is_good &= ~is_bad
    if is_good.all() or not is_good.any():
      return table
    table = table.take(is_good, style)


def _bad_cells(
    table: _Table, columns: columns_lib.Columns, needed: Collection[str], allow_any_number: bool
) -> Iterator[totals.BadCells]:
  """Yields which cells can't be used, by column."""
  for name, is_bad in table.reading.bad.items():
    yield name, is_bad, ": {!r} is not a number"
  for name, column in table.values.items():
    if name in needed:
      yield name, is_missing(column), " is empty"
    if name in columns.numbers and not allow_any_number:
      yield name, np.abs(column) > given_clients.LARGEST, ": {:g} is too large"


def read(
    head: columns_lib.Head, columns: columns_lib.Columns, needed: Collection[str],
    allow_any_number: bool = False, facts: problems.ColumnFacts | None = None,
    bad_rows: dict[int, str] | None = None,
) -> tuple[columns_lib.Head, dict[str, np.ndarray], np.ndarray]:
  """Returns the `Head`, the columns by name, and the rows' numbers in the file.

  The head has what was found out on the way, such as the decimal mark.  Columns are float64, NaN
  where missing, or text, None where missing.  Rows are counted from 1.  Lines with nothing but
  separators are no rows of a text file, but where no row may be looked at (`allow_any_number`).

  Args:
    needed: The names of the columns where no cell may be missing.
    allow_any_number: Whether a number may be infinite or too large to be squared.
    facts: Where to add what cells are like, or None.
    bad_rows: Where to say by their numbers which rows can't be used, and why; they are left out.
      None if that is an error.

  Raises:
    BadTable: If a cell can't be used.
  """
  if bad_rows is not None:
    head = dataclasses.replace(head, skips_bad_lines=True)
  # A text table says in its first column which row has totals, even if that is not used.
  has_names = head.first_line is not None and not allow_any_number
  names = {*head.known_names[:1]} - {*columns.numbers, *columns.texts} if has_names else ()
  head, arrays = _kind(head.path).read(head, columns.numbers, (*columns.texts, *names))
  num_lines = len(next(iter(arrays.values()))) + len(head.bad_lines)
  rows = np.delete(np.arange(num_lines), head.bad_lines)
  if not allow_any_number:
    head, arrays, rows = _without_separators(head, arrays, rows)
    head = _with_words(head, arrays, columns)
  table = _read_cells(head, arrays, columns, rows)
  if facts is not None:
    _add_facts(facts, table, head, columns)

  def of_totals(table: _Table) -> list[totals.BadCells]:
    if allow_any_number or len(table.rows) < 2:
      return []
    levels = {*columns.texts} - {columns.roles.get("id_column")}
    return totals.find(head.known_names, {**table.names, **table.texts}, table.values, levels)

  def bad_cells(table: _Table) -> Iterator[totals.BadCells]:
    yield from of_totals(table)
    yield from _bad_cells(table, columns, needed, allow_any_number)

  if bad_rows is not None:
    bad_rows.update({
        row + 1: f"row {row + 1} has too few or too many cells" for row in head.bad_lines
    })
    table = _without_bad_rows(table, bad_rows, bad_cells, head.style)

  def where(row: int) -> str:
    number = int(table.rows[row])
    return f"row {number + 1}" if head.first_line is None else text_files.where(head, number)

  found = [
      problems.Finding(f"{where(row)}, column {name!r}{why.format(table.cell(name, row))}")
      for name, is_total, why in of_totals(table) for row in np.flatnonzero(is_total)[:1]
  ]
  found += _number_findings(table.reading, len(table.rows), where, columns.features)
  found += _cell_findings(table.values, columns, needed, allow_any_number, where)
  if found:
    if not allow_any_number:
      text_files.check_no_second_header(head)
      text_files.check_separator(head)
    raise problems.BadTable.of(found)
  if table.texts:
    head = dataclasses.replace(head, style=table.reading.style)
  return head, dict(table.values), table.rows + 1
