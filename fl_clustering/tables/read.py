"""Reads a client's file by a schema: nothing is guessed, and the first problem is named.

A text file (`.csv`, or `.csv.gz`) is UTF-8, with or without a byte order mark.  Line 1 has the
columns' names.  Every other line is a row, and no quoted cell goes on in the next line.  A cell of
numbers holds one of ASCII digits, such as -1.5e3, and nothing else.  Texts are taken as they are.
Files whose cells have types (`typed_files.py`) are read likewise.  A null is a missing cell there,
and so is a number that is equal to one of the schema's missing values.

In private reading no row is an error, and none changes how another row is read: what can't be read
is missing, a number outside of the schema's bounds is moved to the nearest, and a bad line is a row
of missing cells.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import reprlib
from typing import Collection, Iterable, Iterator, Mapping, NamedTuple, Sequence, TYPE_CHECKING
import zlib

import numpy as np

from fl_clustering.tables import bad_table
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import typed_files

if TYPE_CHECKING:
  import pandas as pd
  import pyarrow as pa

PATTERNS = {
    "number": r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$", "integer": "^[+-]?[0-9]+$",
}
# Bytes of lines that are read at a time.
_BLOCK = 2**20


def header(path: str, delimiter: str = ",", named: Collection[str | None] = ()) -> tuple[str, ...]:
  """Returns the names of a file's columns, of which those without a name are none.

  Args:
    named: Those that count even if they are the index of a pandas frame, which is none else.

  Raises:
    BadTable: If they can't be read or are not unique.
  """
  if path.endswith(typed_files.ENDINGS):
    return typed_files.header(path, named)
  with _opened(path) as file:
    return tuple(filter(None, _header(path, file, delimiter)))


def read(path: str, schema: schema_lib.Schema, *, private: bool = False) -> pd.DataFrame:
  """Returns the columns of a file that a schema names.

  Args:
    private: Whether no row may be an error, or change how another one is read.

  Returns:
    Numbers, and true and false, as float64; texts as objects.  NaN and None are missing, which
    strict reading allows for features alone, if the schema does.

  Raises:
    BadTable: If the file can't be used; in private reading, whatever the rows are, only for the
      file as a whole or the names of its columns.
  """
  reader = _Reader(path, schema, private)
  is_text = path.endswith(bad_table.TEXT_FILES)
  table = _joined(reader.text_file() if is_text else reader.typed_file(), schema)
  if not private and table.empty:
    raise bad_table.BadTable(path, None, None, "has no rows")
  if not private and schema.key is not None and table[schema.key].duplicated().any():
    row = int(table[schema.key].duplicated().to_numpy().argmax())
    raise bad_table.bad_cell(path, row, schema.key, f"{table[schema.key][row]!r} is there before")
  return table


def from_frame(frame: pd.DataFrame, schema: schema_lib.Schema) -> pd.DataFrame:
  """Returns what `read` returns of a Parquet file with a frame's cells.

  Raises:
    TypeError: If it is no frame.
    BadTable: If it lacks a column, or a cell can't be used.
  """
  import pandas as pd  # pylint: disable=g-import-not-at-top

  if not isinstance(frame, pd.DataFrame):
    raise TypeError(f"`frame` must be a pandas frame, got {type(frame).__name__}.")
  return _joined(_Reader("frame", schema, private=False).frame(frame), schema)


def _joined(blocks: Iterable[Mapping[str, np.ndarray]], schema: schema_lib.Schema) -> pd.DataFrame:
  import pandas as pd  # pylint: disable=g-import-not-at-top

  blocks = list(blocks)
  if not blocks:
    return no_rows(schema)
  return pd.DataFrame({
      field.name: np.concatenate([block[field.name] for block in blocks]) for field in schema.fields
  })


def first_line(path: str) -> str:
  """Returns the first line of a text file; BadTable if it can't be read."""
  with _opened(path) as file:
    return b"".join(_lines(path, file, 1)).decode(errors="replace")


def texts(
    path: str, delimiter: str, named: Collection[str | None] = ()
) -> dict[str, pa.ChunkedArray]:
  """Returns the cells of the columns in `header` as text; null where a typed file has none.

  Raises:
    BadTable: If the file can't be used.
  """
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  if path.endswith(typed_files.ENDINGS):
    return typed_files.texts(path, named)
  with _opened(path) as file:
    names = _header(path, file, delimiter)
    chunks: dict[str, list[pa.Array]] = {name: [] for name in names}
    number = 2
    while lines := _lines(path, file, _BLOCK):
      rows = []
      for number, line in enumerate(lines, start=number):
        try:
          rows.append(_cells_of_row(line, delimiter, len(names)))
        except ValueError as e:
          raise bad_table.BadTable(path, number, None, f"{e}") from e
      number += 1
      for name, cells in zip(names, zip(*rows)):
        chunks[name].append(pa.array(cells, pa.string()))
  return {name: pa.chunked_array(chunks[name], pa.string()) for name in names if name}


def plain(cells: pa.Array, decimal: str) -> pa.Array:
  """Returns cells without blanks around them, and with a point as the decimal mark."""
  from pyarrow import compute  # pylint: disable=g-import-not-at-top

  cells = compute.ascii_trim(cells, " \t")
  if decimal == ".":
    return cells
  return compute.replace_substring(compute.replace_substring(cells, ".", "x"), decimal, ".")


def no_rows(schema: schema_lib.Schema) -> pd.DataFrame:
  """Returns what `read` returns of a file without rows."""
  import pandas as pd  # pylint: disable=g-import-not-at-top

  dtypes = {True: object, False: np.float64}
  return pd.DataFrame(
      {field.name: np.zeros(0, dtypes[field.type == "string"]) for field in schema.fields}
  )


# Files.


def _opened(path: str) -> io.BufferedIOBase:
  try:
    return gzip.open(path) if path.endswith(".gz") else open(path, "rb")
  except OSError as e:
    raise bad_table.BadTable(path, None, None, f"can't be read: {e.strerror}") from e


def _lines(path: str, file: io.BufferedIOBase, num_bytes: int) -> list[bytes]:
  """Returns the next lines, of so many bytes together or a few more."""
  try:
    return file.readlines(num_bytes)
  except (OSError, EOFError, zlib.error) as e:
    raise bad_table.BadTable(path, None, None, f"can't be read: {e}") from e


def _header(path: str, file: io.BufferedIOBase, delimiter: str) -> tuple[str, ...]:
  """Returns the names in a file's first line."""
  line = b"".join(_lines(path, file, 1)).removeprefix(codecs.BOM_UTF8)
  if not line:
    raise bad_table.bad_header(path, None, "is empty")
  try:
    names = tuple(_cells(line, delimiter))
  except ValueError as e:
    raise bad_table.bad_header(path, None, f"{e}") from e
  bad_table.check_names(path, names)
  return names


def _cells(line: bytes, delimiter: str) -> list[str]:
  """Returns a line's cells; ValueError if it is not one of text."""
  try:
    text = line.removesuffix(b"\n").removesuffix(b"\r").decode()
  except UnicodeDecodeError:
    raise ValueError("is not UTF-8") from None
  if "\0" in text or "\r" in text:
    raise ValueError("holds a NUL byte or a carriage return")
  try:
    return next(csv.reader([text], delimiter=delimiter, strict=True)) if text else [""]
  except csv.Error:
    raise ValueError("holds a quoted cell that does not end on it, or a very long one") from None


def _cells_of_row(line: bytes, delimiter: str, width: int) -> list[str]:
  """Returns a line's cells; ValueError if it is no row of so many."""
  cells = _cells(line, delimiter)
  if cells == [""] and width > 1:
    raise ValueError("is empty")
  if len(cells) != width:
    raise ValueError(f"has {len(cells)} cells, and line 1 has {width}")
  return cells


def _numbered(names: Sequence[str]) -> list[str]:
  """Returns the names of columns; those without one get some that no column has."""
  return [name or f"\0{place}" for place, name in enumerate(names)]


def _is_plain(lines: Sequence[bytes], data: bytes, delimiter: str) -> bool:
  """Returns whether no line, of these bytes in all, can be taken otherwise than by `_cells`."""
  if b"\0" in data or max(map(len, lines)) > csv.field_size_limit():
    return False
  if b"\n" in lines or b"\r\n" in lines:  # For others, these are no rows.
    return False
  # For others, a carriage return alone ends a line, and a mark at the start is no text.
  if data.count(b"\r") > data.count(b"\r\n") or data.startswith(codecs.BOM_UTF8):
    return False
  try:
    if not data.isascii():
      data.decode()
  except UnicodeDecodeError:
    return False
  if b'"' not in data:
    return True
  between = re.escape(delimiter).encode()
  ended = rb'(?:(?<=[%b\n])|\A)"(?:[^"\r\n]|"")*"(?=[%b\r\n]|\Z)' % (between, between)
  return b'"' not in re.sub(ended, b"", data)


class _Split(NamedTuple):
  """Lines that were split into cells.

  Attributes:
    columns: Texts by column, null where there is none.
    problem: What is wrong with the line after these; None if that is all.
  """

  columns: Mapping[str, pa.Array]
  problem: str | None = None


class _Reader:
  """Reads a file."""

  def __init__(self, path: str, schema: schema_lib.Schema, private: bool) -> None:
    self._path, self._schema, self._private = path, schema, private
    self._decimal = schema.decimal if path.endswith(bad_table.TEXT_FILES) else "."
    self._features = {field.name for field in schema.features}
    self._missing = set(schema.missing_values)
    # Numbers that are missing however they are written.
    self._missing_numbers = [
        float(text) for text in schema.missing_values if re.match(PATTERNS["number"], text)
    ]

  def text_file(self) -> Iterator[dict[str, np.ndarray]]:
    """Yields the columns of blocks of a text file."""
    first = 0
    with _opened(self._path) as file:
      names = _header(self._path, file, self._schema.delimiter)
      self._check_header(names)
      while lines := _lines(self._path, file, _BLOCK):
        data = b"".join(lines)
        is_plain = _is_plain(lines, data, self._schema.delimiter)
        yield (is_plain and self._at_once(names, data, len(lines))) or self._converted(
            (is_plain and self._split(names, data, len(lines))) or self._split_lines(names, lines),
            first,
        )
        first += len(lines)

  def typed_file(self) -> Iterator[dict[str, np.ndarray]]:
    """Yields the columns of parts of a typed file, whose cells are read as their text."""
    file = typed_files.opened(self._path)
    self._check_header(file.schema_arrow.names)
    if self._path.endswith(typed_files.NPZ):
      self._check_shape(file.schema_arrow.names)
    with typed_files.errors(self._path):
      yield from self._batches(
          file.iter_batches(columns=[field.name for field in self._schema.fields])
      )

  def frame(self, frame: pd.DataFrame) -> Iterator[dict[str, np.ndarray]]:
    """Yields the columns of a frame, whose cells are read as those of a Parquet file."""
    import pyarrow as pa  # pylint: disable=g-import-not-at-top

    self._check_header(list(frame.columns))
    names = [field.name for field in self._schema.fields]
    try:
      table = pa.Table.from_pandas(frame[names], preserve_index=False)
    except pa.ArrowException as e:
      raise bad_table.BadTable(self._path, None, None, f"holds cells of several types: {e}") from e
    return self._batches(table.to_batches())

  def _batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, np.ndarray]]:
    import pyarrow as pa  # pylint: disable=g-import-not-at-top

    first = 0
    for batch in batches:
      found, texts = {}, {}
      for field in self._schema.fields:
        column = batch[field.name]
        is_like_it = pa.types.is_integer(column.type) and field.is_numeric or (
            pa.types.is_floating(column.type) and field.type == "number"
        )
        if is_like_it:
          column = self._without_missing(column)
        values = self._usable(field, column) if is_like_it else None
        if values is None:
          texts[field.name] = self._texts(field.name, column, first)
        else:
          found[field.name] = values
      yield {**found, **self._converted(_Split(texts), first)}
      first += len(batch)

  def _without_missing(self, column: pa.Array) -> pa.Array:
    """Returns numbers, null where one is among the values that are missing."""
    import pyarrow as pa  # pylint: disable=g-import-not-at-top
    from pyarrow import compute  # pylint: disable=g-import-not-at-top

    if not self._missing_numbers:
      return column
    values = pa.array(column.to_numpy(zero_copy_only=False).astype(np.float64))
    are_missing = compute.is_in(values, pa.array(self._missing_numbers, pa.float64()))
    return compute.if_else(are_missing, pa.scalar(None, column.type), column)

  def _texts(self, name: str, column: pa.Array, first: int) -> pa.Array:
    """Returns the text of cells, of which the first one is of row `first`."""
    import pyarrow as pa  # pylint: disable=g-import-not-at-top

    texts = []
    for row, cell in enumerate(column):
      try:
        text = typed_files.text(cell.as_py())
      except (ValueError, OverflowError) as e:  # Text that is not UTF-8, or a date after 9999.
        if not self._private:
          raise bad_table.bad_cell(self._path, first + row, name, f"can't be read: {e}") from e
        text = None
      texts.append(None if text in self._missing else text)
    return pa.array(texts, pa.string())

  def _check_header(self, names: Sequence[str]) -> None:
    found = set(names)
    for field in self._schema.fields:
      if field.name not in found:
        columns = schema_lib.listed(names)
        raise bad_table.bad_header(self._path, field.name, f"is not among the columns {columns}")

  def _check_shape(self, names: Sequence[str]) -> None:
    """Raises a BadTable if features that are a whole array would be a part of this one."""
    shape = self._schema.feature_shape
    if self._schema.feature_names != schema_lib.array_names(shape):
      return
    known = {typed_files.LABELS, *(field.name for field in self._schema.fields)}
    for name in names:
      if name not in known:
        rule = f"is not in the schema, whose features are an array of shape {shape}, as x must be"
        raise bad_table.bad_header(self._path, name, rule)

  # Lines.

  def _arrow_table(
      self, names: Sequence[str], data: bytes, num_lines: int, types: Mapping[str, pa.DataType]
  ) -> pa.Table | None:
    """Returns the columns of plain lines; None if a line, or a cell, is not as it must be."""
    import pyarrow as pa  # pylint: disable=g-import-not-at-top
    from pyarrow import csv as arrow_csv  # pylint: disable=g-import-not-at-top

    try:
      table = arrow_csv.read_csv(
          pa.BufferReader(data),
          arrow_csv.ReadOptions(
              column_names=_numbered(names), block_size=2 * len(data) + 1, use_threads=False
          ),
          arrow_csv.ParseOptions(delimiter=self._schema.delimiter),
          arrow_csv.ConvertOptions(
              column_types=types, include_columns=list(types), strings_can_be_null=True,
              null_values=list(self._schema.missing_values), decimal_point=self._decimal,
          ),
      )
    except pa.ArrowException:
      return None
    return table.combine_chunks() if len(table) == num_lines else None

  def _at_once(
      self, names: Sequence[str], data: bytes, num_lines: int
  ) -> dict[str, np.ndarray] | None:
    """Returns what `_converted` makes of plain lines, faster; None if a cell can't be used."""
    import pyarrow as pa  # pylint: disable=g-import-not-at-top

    if b"0x" in data or b"0X" in data:  # For others, 0x10 is an integer.
      return None
    of_type = {"number": pa.float64(), "integer": pa.int64()}
    words = pa.dictionary(pa.int32(), pa.string())
    types = {field.name: of_type.get(field.type, words) for field in self._schema.fields}
    table = self._arrow_table(names, data, num_lines, types)
    if table is None:
      return None
    found = {}
    for field in self._schema.fields:
      column = table[field.name].chunk(0)
      values = self._usable(field, self._without_missing(column) if field.is_numeric else column)
      if values is None:
        return None
      found[field.name] = values
    return found

  def _split(self, names: Sequence[str], data: bytes, num_lines: int) -> _Split | None:
    """Returns plain lines that have as many cells as the table; None if one has not."""
    import pyarrow as pa  # pylint: disable=g-import-not-at-top

    types = {field.name: pa.string() for field in self._schema.fields}
    table = self._arrow_table(names, data, num_lines, types)
    return table and _Split({name: table[name].chunk(0) for name in types})

  def _split_lines(self, names: Sequence[str], lines: Sequence[bytes]) -> _Split:
    """Returns lines of any kind."""
    import pyarrow as pa  # pylint: disable=g-import-not-at-top

    rows, problem = [], None
    for line in lines:
      try:
        cells: Sequence[str | None] = _cells_of_row(line, self._schema.delimiter, len(names))
      except ValueError as e:
        if not self._private:
          problem = f"{e}"
          break
        cells = [None] * len(names)
      rows.append(cells)
    places = {field.name: names.index(field.name) for field in self._schema.fields}
    return _Split({
        name: pa.array([None if row[i] in self._missing else row[i] for row in rows], pa.string())
        for name, i in places.items()
    }, problem)

  # Cells.

  def _levels(self, field: schema_lib.Field) -> Sequence[str] | None:
    if field.type == "boolean":
      return tuple(schema_lib.BOOLEANS)
    return schema_lib.SPLIT if field.name == self._schema.split else field.enum

  def _may_lack(self, field: schema_lib.Field) -> bool:
    """Returns whether cells of a column may be missing."""
    return self._private or self._schema.missing != "error" and field.name in self._features

  def _usable(self, field: schema_lib.Field, column: pa.Array) -> np.ndarray | None:
    """Returns the values of numbers, or of words in a dictionary; None if one can't be used."""
    if column.null_count and not self._may_lack(field):
      return None
    if field.is_numeric:
      values = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
      low, high = field.bounds
      num_within = np.count_nonzero((values >= low) & (values <= high))
      # Words such as nan are numbers for others.
      return values if num_within == len(values) - column.null_count else None
    words, levels = column.dictionary.to_pylist(), self._levels(field)
    if levels is not None and not set(words) <= set(levels):
      return None
    return _values(field, words)[column.indices.fill_null(-1).to_numpy(zero_copy_only=False)]

  def _converted(self, split: _Split, first: int) -> dict[str, np.ndarray]:
    """Returns the values of cells, of which the first ones are of row `first`."""
    found, problems = {}, []
    fields = {field.name: field for field in self._schema.fields}
    for place, (name, cells) in enumerate(split.columns.items()):
      field = fields[name]
      values, are_bad = (self._numbers if field.is_numeric else self._words)(field, cells)
      found[name] = values
      if not self._may_lack(field):
        are_bad = are_bad | cells.is_null().to_numpy(zero_copy_only=False)
      if not self._private and are_bad.any():
        row = int(are_bad.argmax())
        problems.append((row, place, name, cells[row].as_py()))
    if problems:
      row, _, name, cell = min(problems, key=lambda problem: problem[:2])
      raise bad_table.bad_cell(self._path, first + row, name, self._rule(fields[name], cell))
    if split.problem is not None:
      row = first + len(next(iter(found.values())))
      raise bad_table.bad_cell(self._path, row, None, split.problem)
    return found

  def _numbers(
      self, field: schema_lib.Field, cells: pa.Array
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns numbers, NaN where a cell holds none, and which cells can't be used."""
    from pyarrow import compute  # pylint: disable=g-import-not-at-top

    texts = plain(cells, self._decimal)
    is_number = compute.match_substring_regex(texts, PATTERNS[field.type])
    values = np.full(len(cells), np.nan)
    mask = is_number.fill_null(False).to_numpy(zero_copy_only=False)
    values[mask] = np.array(texts.filter(is_number).to_pylist(), object).astype(np.float64)
    are_missing = np.isin(values, self._missing_numbers)
    values[are_missing] = np.nan
    low, high = field.bounds
    are_within = (values >= low) & (values <= high)
    if self._may_lack(field):
      are_within |= are_missing
    are_bad = cells.is_valid().to_numpy(zero_copy_only=False) & ~are_within
    return (np.clip(values, low, high) if self._private else values), are_bad

  def _words(self, field: schema_lib.Field, cells: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Returns texts, or true and false, and which cells can't be used; they become missing."""
    encoded, levels = cells.dictionary_encode(), self._levels(field)
    words = encoded.dictionary.to_pylist()
    are_bad = np.array([levels is not None and word not in levels for word in words] + [False])
    places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    values = _values(field, [None if bad else word for word, bad in zip(words, are_bad)])
    return values[places], are_bad[places]

  def _rule(self, field: schema_lib.Field, cell: str | None) -> str:
    """Returns why a cell can't be used."""
    import pyarrow as pa  # pylint: disable=g-import-not-at-top

    if cell is None:
      return "a cell is missing"
    shown, levels = reprlib.repr(cell), self._levels(field)
    if levels is not None:
      return f"{shown} is not one of {', '.join(levels)}"
    kind, (low, high) = "an integer" if field.type == "integer" else "a number", field.bounds
    (text,) = plain(pa.array([cell]), self._decimal).to_pylist()
    if not re.match(PATTERNS[field.type], text):
      return f"{shown} is not {kind}"
    return f"{shown} is not {kind} between {low:g} and {high:g}"


def _values(field: schema_lib.Field, words: Sequence[str | None]) -> np.ndarray:
  """Returns the values of words, and at the end what is missing."""
  if field.type == "boolean":
    booleans = [np.nan if word is None else schema_lib.BOOLEANS[word] for word in words]
    return np.array([*booleans, np.nan])
  values = np.empty(len(words) + 1, object)
  values[:-1] = words
  return values
