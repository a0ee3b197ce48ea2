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
import contextlib
import csv
import gzip
import io
import itertools
import re
import reprlib
from typing import Collection, Iterable, Iterator, Mapping, Sequence, TYPE_CHECKING
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
# Those that files may have, most often the first.
_DELIMITERS = ",;\t|"
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
    strict reading allows for features alone, if the schema does, and for labels of later rows.

  Raises:
    BadTable: If the file can't be used; in private reading, whatever the rows are, only for the
      file as a whole or the names of its columns.
  """
  reader = _Reader(path, schema, private)
  if path.endswith(bad_table.TEXT_FILES):
    table = _joined(reader.text_file(), schema)
  else:
    columns, read_columns = typed_files.opened(path)
    reader.check_header(columns.names)
    with typed_files.errors(path):
      typed = read_columns([field.name for field in schema.fields])
      table = _joined(reader.batches(typed.to_batches()), schema)
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
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  if not isinstance(frame, pd.DataFrame):
    raise TypeError(f"`frame` must be a pandas frame, got {type(frame).__name__}.")
  reader = _Reader("frame", schema, private=False)
  reader.check_header(list(frame.columns))
  columns = frame[[field.name for field in schema.fields]]
  try:
    table = pa.Table.from_pandas(columns, preserve_index=False)
  except pa.ArrowException as e:
    raise bad_table.BadTable("frame", None, None, f"holds cells of several types: {e}") from e
  return _joined(reader.batches(table.to_batches()), schema)


def _joined(blocks: Iterable[Mapping[str, np.ndarray]], schema: schema_lib.Schema) -> pd.DataFrame:
  import pandas as pd  # pylint: disable=g-import-not-at-top

  blocks = list(blocks)
  dtypes = {True: object, False: np.float64}
  return pd.DataFrame({
      field.name: np.concatenate(
          [np.zeros(0, dtypes[field.type == "string"]), *(block[field.name] for block in blocks)]
      ) for field in schema.fields
  })


def no_rows(schema: schema_lib.Schema) -> pd.DataFrame:
  """Returns what `read` returns of a file without rows."""
  return _joined([], schema)


def likely_delimiter(path: str) -> str:
  """Returns the delimiter by which the first line of a text file has most cells.

  The comma is it only if no other one gives as many: names may have commas.

  Raises:
    BadTable: If it can't be read.
  """
  with _opened(path) as file:
    line = _first_line(path, file)

  def order(delimiter: str) -> tuple[int, bool]:
    with contextlib.suppress(ValueError):
      num_cells = len(_cells(line, delimiter))
      return num_cells, num_cells > 1 and delimiter != ","
    return 0, False

  return max(_DELIMITERS, key=order)


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
    are_empty = _are_empty(names)
    chunks: dict[str, list[pa.Array]] = {name: [] for name in names}
    first = 0
    while lines := _lines(path, file, _BLOCK):
      rows, problem = _rows(lines, delimiter, are_empty)
      if problem is not None:
        raise bad_table.bad_cell(path, first + len(rows), None, f"{problem}")
      first += len(rows)
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


def _first_line(path: str, file: io.BufferedIOBase) -> bytes:
  return b"".join(_lines(path, file, 1)).removeprefix(codecs.BOM_UTF8)


def _header(path: str, file: io.BufferedIOBase, delimiter: str) -> tuple[str, ...]:
  """Returns the names in a file's first line."""
  line = _first_line(path, file)
  if not line:
    raise bad_table.bad_header(path, None, "is empty")
  try:
    names = tuple(_cells(line, delimiter))
  except ValueError as e:
    own = likely_delimiter(path)
    rule = f"{e}" if own == delimiter else f"{e}; its delimiter may be {own!r}, not {delimiter!r}"
    raise bad_table.bad_header(path, None, rule, by_schema=own != delimiter) from e
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
    rule = "holds a quoted cell that does not end on it, text after a closing quote, or a very long"
    raise ValueError(f"{rule} cell") from None


def _are_empty(names: Sequence[str]) -> tuple[bool, ...]:
  """Returns which cells of a row must be empty: those without a name, but for an index.

  A delimiter at the end of every line makes such cells.  Where one of them is not empty, another
  cell may have had a delimiter too many, which moved those behind it.
  """
  return tuple(not name and any(names[:place]) for place, name in enumerate(names))


def _cells_of_row(line: bytes, delimiter: str, are_empty: Sequence[bool]) -> list[str]:
  """Returns a line's cells; ValueError if it is no row of such ones."""
  if not line.strip(b"\r\n"):
    raise ValueError("is empty")
  cells = _cells(line, delimiter)
  if len(cells) != len(are_empty):
    raise ValueError(f"has {len(cells)} cells, and line 1 has {len(are_empty)}")
  if any(itertools.compress(cells, are_empty)):
    raise ValueError("has a cell in a column without a name")
  return cells


def _rows(
    lines: Iterable[bytes], delimiter: str, are_empty: Sequence[bool], private: bool = False
) -> tuple[list[Sequence[str | None]], ValueError | None]:
  """Returns lines' cells, and what ends them too early; in private, a bad line's are missing."""
  rows: list[Sequence[str | None]] = []
  for line in lines:
    try:
      rows.append(_cells_of_row(line, delimiter, are_empty))
    except ValueError as e:
      if not private:
        return rows, e
      rows.append([None] * len(are_empty))
  return rows, None


def _is_plain(lines: Sequence[bytes], data: bytes, delimiter: str) -> bool:
  """Returns whether no line, of these bytes in all, can be taken otherwise than by `_cells`."""
  if b"\0" in data or max(map(len, lines)) > csv.field_size_limit():
    return False
  if b"\n" in lines or b"\r\n" in lines:  # For others, these are no rows.
    return False
  # For others, a carriage return alone ends a line, and a mark at the start is no text.
  if b"\r" in data and data.count(b"\r") > data.count(b"\r\n"):
    return False
  if data.startswith(codecs.BOM_UTF8):
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


def _end_empty(lines: Iterable[bytes], names: Sequence[str], delimiter: str) -> bool:
  """Returns whether the cells that must be empty are the last ones of plain lines, and are."""
  are_empty = _are_empty(names)
  if not any(are_empty):
    return True
  end = delimiter.encode() * sum(are_empty)
  is_last = are_empty == tuple(sorted(are_empty))
  return is_last and all(line.rstrip(b"\r\n").endswith(end) for line in lines)


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

  def check_header(self, names: Sequence[str]) -> None:
    """Raises a BadTable unless a schema's columns are there, and all of an array if it has one."""
    found, wanted = set(names), [field.name for field in self._schema.fields]
    for name in wanted:
      if name not in found:
        rule = f"is not among the columns {bad_table.listed(names, name)}"
        raise bad_table.bad_header(self._path, name, rule, by_schema=True)
    shape = self._schema.feature_shape
    is_array = self._schema.feature_names == schema_lib.array_names(shape)
    if not self._path.endswith(typed_files.NPZ) or not is_array:
      return
    for name in names:
      if name not in (typed_files.LABELS, *wanted):
        rule = f"is not in the schema, whose features are an array of shape {shape}, as x must be"
        raise bad_table.bad_header(self._path, name, rule)

  def text_file(self) -> Iterator[dict[str, np.ndarray]]:
    """Yields the columns of blocks of a text file."""
    first = 0
    with _opened(self._path) as file:
      names = _header(self._path, file, self._schema.delimiter)
      self.check_header(names)
      while lines := _lines(self._path, file, _BLOCK):
        columns, problem = self._at_once(names, lines), None
        if columns is None:
          columns, problem = self._by_line(names, lines)
        yield self._values(columns, first)
        if problem is not None:
          row = first + len(next(iter(columns.values())))
          is_other = likely_delimiter(self._path) != self._schema.delimiter
          raise bad_table.bad_cell(self._path, row, None, f"{problem}", by_schema=is_other)
        first += len(lines)

  def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, np.ndarray]]:
    """Yields the columns of parts of a typed file; texts are what its other cells would write."""
    import pyarrow as pa  # pylint: disable=g-import-not-at-top

    first = 0
    for batch in batches:
      columns = {field.name: batch[field.name] for field in self._schema.fields}
      for field in self._schema.fields:
        dtype = columns[field.name].type
        is_whole = pa.types.is_integer(dtype) and field.is_numeric
        if not is_whole and not (pa.types.is_floating(dtype) and field.type == "number"):
          columns[field.name] = self._texts(field.name, columns[field.name], first)
      yield self._values(columns, first)
      first += len(batch)

  def _texts(self, name: str, column: pa.Array, first: int) -> pa.Array:
    """Returns the text of cells, of which the first one is of row `first`."""
    import pyarrow as pa  # pylint: disable=g-import-not-at-top

    texts = []
    for row, cell in enumerate(column):
      try:
        text = typed_files.text(cell.as_py())
      # Text that is not UTF-8, a date after 9999, or a time zone that is not known.
      except (ValueError, OverflowError, KeyError) as e:
        if not self._private:
          raise bad_table.bad_cell(self._path, first + row, name, f"can't be read: {e}") from e
        text = None
      texts.append(None if text in self._missing else text)
    return pa.array(texts, pa.string())

  def _at_once(
      self, names: Sequence[str], lines: Sequence[bytes]
  ) -> dict[str, pa.Array] | None:
    """Returns what `_by_line` does, faster; None if a line is not as most are."""
    import pyarrow as pa  # pylint: disable=g-import-not-at-top
    from pyarrow import csv as arrow_csv  # pylint: disable=g-import-not-at-top

    data = b"".join(lines)
    delimiter = self._schema.delimiter
    if not _is_plain(lines, data, delimiter) or not _end_empty(lines, names, delimiter):
      return None
    words = pa.dictionary(pa.int32(), pa.string())
    types = {f.name: pa.string() if f.is_numeric else words for f in self._schema.fields}
    numbered = [name or f"\0{place}" for place, name in enumerate(names)]
    try:
      table = arrow_csv.read_csv(
          pa.BufferReader(data),
          arrow_csv.ReadOptions(
              column_names=numbered, block_size=2 * len(data) + 1, use_threads=False
          ),
          arrow_csv.ParseOptions(delimiter=delimiter),
          arrow_csv.ConvertOptions(
              column_types=types, include_columns=list(types), strings_can_be_null=True,
              null_values=list(self._schema.missing_values),
          ),
      ).combine_chunks()
    except pa.ArrowException:
      return None
    return {name: table[name].chunk(0) for name in types} if len(table) == len(lines) else None

  def _by_line(
      self, names: Sequence[str], lines: Sequence[bytes]
  ) -> tuple[dict[str, pa.Array], ValueError | None]:
    """Returns the text of lines' cells, null where one is missing, and what ends them too early."""
    import pyarrow as pa  # pylint: disable=g-import-not-at-top

    rows, problem = _rows(lines, self._schema.delimiter, _are_empty(names), self._private)
    places = {field.name: names.index(field.name) for field in self._schema.fields}
    return {
        name: pa.array([None if row[i] in self._missing else row[i] for row in rows], pa.string())
        for name, i in places.items()
    }, problem

  # Cells.

  def _levels(self, field: schema_lib.Field) -> Collection[str] | None:
    if field.type == "boolean":
      return schema_lib.BOOLEANS
    return schema_lib.SPLIT if field.name == self._schema.split else field.enum

  def _may_lack(self, field: schema_lib.Field) -> bool:
    """Returns whether cells of a column may be missing."""
    if self._private or self._schema.is_later and field.name == self._schema.label:
      return True
    return self._schema.missing != "error" and field.name in self._features

  def _values(self, columns: Mapping[str, pa.Array], first: int) -> dict[str, np.ndarray]:
    """Returns the values of columns, of which the first cells are of row `first`."""
    found, problems = {}, []
    for field in self._schema.fields:
      convert = self._numbers if field.is_numeric else self._words
      found[field.name], are_bad = convert(field, columns[field.name])
      if not self._private and are_bad.any():
        problems.append((int(are_bad.argmax()), field))
    if problems:
      row, field = min(problems, key=lambda problem: problem[0])
      cell = typed_files.text(columns[field.name][row].as_py())
      raise bad_table.bad_cell(
          self._path, first + row, field.name, self._rule(field, cell),
          by_schema=field.name in self._features, cell=cell,
      )
    return found

  def _numbers(
      self, field: schema_lib.Field, cells: pa.Array
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns numbers, NaN where a cell holds none, and which cells can't be used."""
    import pyarrow as pa  # pylint: disable=g-import-not-at-top

    if pa.types.is_string(cells.type):
      values = _parsed(cells, field.type, self._decimal)
      are_missing = cells.is_null().to_numpy(zero_copy_only=False)
    else:
      values = cells.to_numpy(zero_copy_only=False).astype(np.float64)
      # As texts, infinities are no numbers.
      infinities = [float(text) for text in ("inf", "-inf") if text in self._missing]
      are_missing = np.isnan(values) | np.isin(values, infinities)
      values[np.isinf(values)] = np.nan
    if self._missing_numbers:
      are_missing = are_missing | np.isin(values, self._missing_numbers)
      values = np.where(are_missing, np.nan, values)
    low, high = field.bounds
    if self._private or self._schema.clips:
      values = np.clip(values, low, high)
    are_within = (values >= low) & (values <= high)
    are_bad = ~are_within & ~(are_missing & self._may_lack(field))
    return values, are_bad

  def _words(self, field: schema_lib.Field, cells: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Returns texts, or true and false, and which cells can't be used; they become missing."""
    encoded, levels = cells.dictionary_encode(), self._levels(field)
    words = encoded.dictionary.to_pylist()
    are_bad = [levels is not None and word not in levels for word in words]
    words = [None if bad else word for word, bad in zip(words, are_bad)] + [None]
    if field.type == "boolean":
      values = np.array([np.nan if word is None else schema_lib.BOOLEANS[word] for word in words])
    else:
      values = np.array(words, object)
    places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return values[places], np.array([*are_bad, not self._may_lack(field)])[places]

  def _rule(self, field: schema_lib.Field, cell: str | None) -> str:
    """Returns why a cell can't be used."""
    import pyarrow as pa  # pylint: disable=g-import-not-at-top

    if cell is None or cell in self._missing:
      return "a cell is missing"
    shown, levels = reprlib.repr(cell), self._levels(field)
    if levels is not None:
      return f"{shown} is not one of {', '.join(levels)}"
    kind, (low, high) = "an integer" if field.type == "integer" else "a number", field.bounds
    (text,) = plain(pa.array([cell]), self._decimal).to_pylist()
    if not re.match(PATTERNS[field.type], text):
      return f"{shown} is not {kind}, nor in missingValues"
    if float(text) in self._missing_numbers:
      return "a cell is missing"
    return f"{shown} is not {kind} between {low:g} and {high:g}"


def _parsed(cells: pa.Array, kind: str, decimal: str) -> np.ndarray:
  """Returns the numbers of texts, NaN where one is none of this type."""
  from pyarrow import compute  # pylint: disable=g-import-not-at-top

  values = _all_parsed(cells, kind) if decimal == "." else None  # Few have blanks around them.
  if values is None:
    texts = plain(cells, decimal)
    values = _all_parsed(texts, kind)
  if values is None:
    is_number = compute.match_substring_regex(texts, PATTERNS[kind]).fill_null(False)
    values = np.full(len(texts), np.nan)
    values[is_number.to_numpy(zero_copy_only=False)] = [
        float(text) for text in texts.filter(is_number).to_pylist()
    ]
  return values


def _all_parsed(texts: pa.Array, kind: str) -> np.ndarray | None:
  """Returns the numbers of texts with decimal points and without blanks; None if one is none."""
  import pyarrow as pa  # pylint: disable=g-import-not-at-top
  from pyarrow import compute  # pylint: disable=g-import-not-at-top

  try:
    if kind == "integer":
      compute.cast(texts, pa.int64())  # It takes 0x10, which the other one does not.
    values = compute.cast(texts, pa.float64()).to_numpy(zero_copy_only=False)
  except pa.ArrowInvalid:
    return None
  # It takes nan and inf.
  return values if np.isfinite(values).sum() == len(texts) - texts.null_count else None
