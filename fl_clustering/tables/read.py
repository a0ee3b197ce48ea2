"""Reads a client's file by a schema: nothing is guessed, and the first problem is named.

A text file (`.csv`, or `.csv.gz`) is UTF-8, with or without a byte order mark.  Line 1 has the
columns' names.  Every other line is a row, and no quoted cell goes on in the next line.  A cell of
numbers holds one of ASCII digits, such as -1.5e3, and nothing else.  Texts are taken as they are.
Files whose cells have types (`typed_files.py`) are read likewise.  A null is a missing cell there,
and so is a number that is equal to one of the schema's missing values.

In private reading no row is an error, and none changes how another row is read: what can't be read
is missing, a number outside of the schema's bounds is moved to the nearest, and a bad line is a row
of missing cells.

There, a record is one row even if a quoted cell goes on in the next line.  Neighbouring files
differ in one record, and their rows in exactly that one, whatever is in its cells, if all records
are written as CSV writers do (RFC 4180): a cell with a quote, a delimiter or a line's end in it is
in quotes, and its own quotes are doubled.  Lines of any other bytes may stand among them, each a
row, as long as they leave no quoted cell open.  One that does is a bad line, too, unless a later
line closes the cell: if both are a record by those rules, nobody can tell them from one.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import dataclasses
import gzip
import io
import itertools
import re
import reprlib
from typing import Any, Collection, Iterable, Iterator, Mapping, Sequence, TYPE_CHECKING
import zlib

import numpy as np

from fl_clustering.tables import bad_table
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import typed_files

if TYPE_CHECKING:
  from narwhals.typing import IntoDataFrame
  import pandas as pd
  import pyarrow as pa

_PATTERNS = {"number": bad_table.NUMBER, "integer": "^[+-]?[0-9]+$"}
# Bytes of lines that are read at a time, times the number of columns / 256, up to 65: a block costs
# time for each column.
_BLOCK = 2**20
# Bytes that a digest gets at a time.
_BUFFER = 2**18


def header(path: str, delimiter: str = ",") -> tuple[str, ...]:
  """Returns the names of a file's columns, of which the index of a pandas frame is none.

  Raises:
    BadTable: If they can't be read or are not unique.
  """
  if path.endswith(typed_files.ENDINGS):
    return typed_files.opened(path)[0]
  with _opened(path) as file:
    return tuple(filter(None, _header(path, file, delimiter)))


@dataclasses.dataclass
class Counts:
  """What private reading has made of a file so far, for its owner alone.

  Attributes:
    missing: How many cells of the schema's columns are missing in rows that are no bad lines.
  """

  rows: int = 0
  bad_lines: int = 0
  missing: int = 0

  def __str__(self) -> str:
    return (
        f"rows: {self.rows:,}, bad lines: {self.bad_lines:,}, missing cells: {self.missing:,}"
    )


def blocks(
    path: str, schema: schema_lib.Schema, *, private: bool = False, digest: Any = None,
    counts: Counts | None = None,
) -> Iterator[dict[str, np.ndarray]]:
  """Yields the columns of a file that a schema names, some rows at a time.

  Args:
    private: Whether no row may be an error, or change how another one is read.
    digest: An object of `hashlib` that gets the file's bytes as they are read; None for none.
    counts: In private reading, counts what is yielded; None for none.

  Yields:
    Numbers, and true and false, as float64; texts as objects.  NaN and None are missing, which
    strict reading allows for features alone, if the schema does, and for labels of later rows.

  Raises:
    BadTable: If the file can't be used; in private reading, whatever the rows are, only for the
      file as a whole or the names of its columns.
  """
  reader = _Reader(path, schema, private, digest, counts)
  num_rows, keys = 0, list[np.ndarray]()
  for columns in itertools.starmap(reader.values, reader.columns()):
    num_rows += len(next(iter(columns.values())))
    if schema.key is not None:
      keys.append(columns[schema.key])
    yield columns
  if private:
    return
  if not num_rows:
    raise bad_table.BadTable(path, None, None, "has no rows")
  seen: set[str] = set()
  for row, key in enumerate(itertools.chain(*keys)):
    if key in seen:
      raise bad_table.bad_cell(path, row, schema.key, f"{key!r} is there before")
    seen.add(key)


def joined(
    parts: Iterable[Mapping[str, np.ndarray]], schema: schema_lib.Schema
) -> dict[str, np.ndarray]:
  """Returns the columns of all rows that `blocks` yields, if any."""
  parts, dtypes = list(parts), {True: object, False: np.float64}
  return {
      field.name: np.concatenate(
          [np.zeros(0, dtypes[field.type == "string"]), *(part[field.name] for part in parts)]
      ) for field in schema.fields
  }


def from_frame(frame: IntoDataFrame, schema: schema_lib.Schema) -> dict[str, np.ndarray]:
  """Returns the columns that `blocks` yields of a Parquet file with a frame's cells.

  Args:
    frame: Of pandas, polars or another library that narwhals knows.

  Raises:
    TypeError: If it is no frame.
    BadTable: If it lacks a column, or a cell can't be used.
  """
  import narwhals  # pylint: disable=g-import-not-at-top
  import pandas as pd  # pylint: disable=g-import-not-at-top
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  if not narwhals.dependencies.is_into_dataframe(frame):
    raise TypeError(f"`frame` must be a data frame, got {type(frame).__name__}.")
  is_pandas = isinstance(frame, pd.DataFrame)
  frame = frame if is_pandas else narwhals.from_native(frame)
  reader = _Reader("frame", schema, private=False)
  reader.check_header(list(frame.columns))
  columns = frame[[field.name for field in schema.fields]]
  try:
    # Of pandas, columns may have any types, and an index goes.
    table = pa.Table.from_pandas(columns, preserve_index=False) if is_pandas else columns.to_arrow()
  except pa.ArrowException as e:
    raise bad_table.BadTable("frame", None, None, f"holds cells of several types: {e}") from e
  return joined(itertools.starmap(reader.values, reader.of_typed(table)), schema)


def likely_delimiter(path: str) -> str:
  """Returns the delimiter by which the first line of a text file has most cells.

  Raises:
    BadTable: If it can't be read.
  """
  with _opened(path) as file:
    line = re.sub(rb'"[^"]*"', b"", _first_line(path, file))
  counts = {one: line.count(one.encode()) for one in schema_lib.DELIMITERS}
  return max(counts, key=counts.__getitem__) if any(counts.values()) else ","


def texts(
    path: str, delimiter: str, names: Sequence[str], digest: Any = None
) -> pd.DataFrame:
  """Returns the cells of columns as text, missing where one is empty.

  Args:
    digest: As of `blocks`.

  Raises:
    BadTable: If the file can't be used.
  """
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  chunks: dict[str, list[pa.Array]] = {name: [] for name in names}
  # What is a number is a text at first.
  schema = schema_lib.Schema(tuple(map(schema_lib.Field, names)), delimiter=delimiter)
  for first, columns in _Reader(path, schema, private=False, digest=digest).columns():
    for name, cells in columns.items():
      is_text = pa.types.is_string(cells.type)
      chunks[name].append(cells if is_text else typed_files.texts(path, name, cells, first))
  return pa.table({n: pa.chunked_array(own, pa.string()) for n, own in chunks.items()}).to_pandas()


def numbers(cells: pa.Array | pa.ChunkedArray, decimal: str, kind: str = "number") -> np.ndarray:
  """Returns the numbers of texts, NaN where one is none of this type, by a decimal mark."""
  from pyarrow import compute  # pylint: disable=g-import-not-at-top

  values = _all_numbers(cells, kind) if decimal == "." else None  # Few have blanks around them.
  if values is None:
    plain = _plain(cells, decimal)
    values = _all_numbers(plain, kind)
  if values is None:
    is_number = compute.match_substring_regex(plain, _PATTERNS[kind]).fill_null(False)
    values = np.full(len(plain), np.nan)
    are_numbers = is_number.to_numpy(zero_copy_only=False)
    values[are_numbers] = [float(text) for text in plain.filter(is_number).to_pylist()]
  return values


def _plain(cells: pa.Array, decimal: str) -> pa.Array:
  """Returns cells without blanks around them, and with a point as the decimal mark."""
  from pyarrow import compute  # pylint: disable=g-import-not-at-top

  cells = compute.ascii_trim(cells, " \t")
  if decimal == ".":
    return cells
  return compute.replace_substring(compute.replace_substring(cells, ".", "x"), decimal, ".")


def _all_numbers(texts: pa.Array, kind: str) -> np.ndarray | None:
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


# Files.


class _HashedFile(io.FileIO):
  """A file whose bytes go into a digest as they are read."""

  def __init__(self, path: str, digest: Any) -> None:
    super().__init__(path)
    self._digest = digest

  def readinto(self, buffer: Any) -> int:
    num_bytes = super().readinto(buffer)
    self._digest.update(memoryview(buffer)[:num_bytes])
    return num_bytes


@contextlib.contextmanager
def _opened(path: str, digest: Any = None) -> Iterator[io.BufferedIOBase]:
  try:
    raw = io.FileIO(path) if digest is None else _HashedFile(path, digest)
  except OSError as e:
    raise bad_table.BadTable(path, None, None, f"can't be read: {e.strerror}") from e
  with io.BufferedReader(raw, _BUFFER) as file:
    if path.endswith(".gz"):
      with gzip.GzipFile(fileobj=file) as text:
        yield text
    else:
      yield file


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
    raise bad_table.bad_header(path, None, f"{e}") from e
  if names[0].startswith("sep="):
    raise bad_table.bad_header(path, None, "says `sep=` for Excel, and must have the columns' names")
  bad_table.check_names(path, names)
  return names


def _cells(line: bytes, delimiter: str) -> list[str]:
  """Returns a line's cells; ValueError if it is not one of text."""
  try:
    text = _without_end(line).decode()
  except UnicodeDecodeError:
    raise ValueError("is not UTF-8") from None
  if "\0" in text or "\r" in text and b"\r" in b"".join(_unquoted(line, delimiter) or [line]):
    raise ValueError("holds a NUL byte or a carriage return")
  try:
    return next(csv.reader([text], delimiter=delimiter, strict=True)) if text else [""]
  except csv.Error:
    rule = "holds a quoted cell that does not end on it, text after a closing quote, or a very long"
    raise ValueError(f"{rule} cell") from None


def _without_end(data: bytes) -> bytes:
  return data.removesuffix(b"\n").removesuffix(b"\r")


def _unquoted(data: bytes, delimiter: str) -> list[bytes] | None:
  """Returns what is outside of quotes; None unless they are around whole cells."""
  between = delimiter.encode()
  parts = _without_end(data).split(b'"')[::2]
  # A part is empty between two quotes that mean one.
  begin = all(part.startswith((between, b"\n", b"\r\n")) for part in parts[1:] if part)
  end = all(part.endswith((between, b"\n")) for part in parts[:-1] if part)
  return parts if begin and end else None


def _records(lines: Sequence[bytes], delimiter: str) -> tuple[list[bytes], list[bytes]]:
  """Returns the records of lines, and the last lines if they may be the beginning of one.

  A quoted cell goes on in the next line if an odd number of quotes is before that.  So a record of
  several lines begins and ends with a line that has an odd number of quotes, and none in between
  has.  Such lines are a record if their quotes are around whole cells; else each is one, as all
  others are.  No line is looked at more than twice.

  So what CSV writers write of a row is one record: its first line with an odd number of quotes is
  joined with its own last one, since none before it leaves a quoted cell open.
  """
  odd = [place for place, line in enumerate(lines) if line.count(b'"') % 2]
  records: list[bytes] = []
  begin = 0  # Of the lines that are in no record yet.
  for first, last in zip(odd, odd[1:]):
    record = b"".join(lines[first : last + 1])
    if first >= begin and _unquoted(record, delimiter) is not None:
      records += [*lines[begin:first], record]
      begin = last + 1
  end = odd[-1] if odd and odd[-1] >= begin else len(lines)
  return [*records, *lines[begin:end]], [*lines[end:]]


def _blocks(
    path: str, file: io.BufferedIOBase, names: Sequence[str], delimiter: str | None = None
) -> Iterator[list[bytes]]:
  """Yields the lines of a file with these columns, some at a time; the records by a delimiter."""
  num_bytes = _BLOCK * (1 + min(len(names), 2**14) // 2**8)
  left: list[bytes] = []
  # At least as many as are left, so that those are not looked at again and again.
  while lines := _lines(path, file, max(num_bytes, sum(map(len, left)))):
    if delimiter is not None:
      lines, left = _records([*left, *lines], delimiter)
    if lines:
      yield lines
  # A quote that never closes ends with its line.  They may be the rest of a large file.
  num_lines = max(1, num_bytes * len(left) // max(1, sum(map(len, left))))
  for start in range(0, len(left), num_lines):
    yield left[start : start + num_lines]


def _cells_of_row(line: bytes, delimiter: str, num_cells: int) -> list[str]:
  """Returns a line's cells; ValueError if it is no row of so many."""
  if not line.strip(b"\r\n"):
    raise ValueError("is empty")
  cells = _cells(line, delimiter)
  if len(cells) != num_cells:
    raise ValueError(f"has {len(cells)} cells, and line 1 has {num_cells}")
  return cells


def _is_plain(lines: Sequence[bytes], data: bytes, delimiter: str) -> bool:
  """Returns whether no line, of these bytes in all, can be taken otherwise than by `_cells`."""
  if b"\0" in data or b"\n" in lines or b"\r\n" in lines:  # For others, these are no rows.
    return False
  # For others, a carriage return alone ends a line, and a mark at the start is no text.
  num_returns = data.count(b"\r")
  if num_returns and num_returns > data.count(b"\r\n") or data.startswith(codecs.BOM_UTF8):
    return False
  try:
    data.decode()
  except UnicodeDecodeError:
    return False
  parts = _unquoted(data, delimiter) if b'"' in data else [data]
  if data.count(b'"') % 2 or parts is None:
    return False
  if max(map(len, lines)) > csv.field_size_limit():  # A cell may be too long.
    between = delimiter.encode()
    cells = between.join(parts).replace(b"\n", between).split(between)
    if b'""' in data or max(map(len, (*cells, *data.split(b'"')[1::2]))) > csv.field_size_limit():
      return False
  if len(parts) == 1:
    return True
  return sum(part.count(b"\n") for part in parts) == _without_end(data).count(b"\n")


class _Reader:
  """Reads a file; the arguments are those of `blocks`."""

  def __init__(
      self, path: str, schema: schema_lib.Schema, private: bool, digest: Any = None,
      counts: Counts | None = None,
  ) -> None:
    self._path, self._schema, self._private, self._digest = path, schema, private, digest
    self._counts = Counts() if counts is None else counts
    self._decimal = schema.decimal if path.endswith(bad_table.TEXT_FILES) else "."
    self._features = {field.name for field in schema.features}
    self._missing = set(schema.missing_values)
    # Numbers that are missing however they are written.
    self._missing_numbers = [
        float(text) for text in schema.missing_values if re.match(_PATTERNS["number"], text)
    ]

  def columns(self) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """Yields parts of the file: the row that is their first one, and the schema's columns."""
    if self._path.endswith(bad_table.TEXT_FILES):
      yield from self._of_text_file()
      return
    names, read_columns = typed_files.opened(self._path)
    self.check_header(names)
    with typed_files.errors(self._path):
      if self._digest is not None:
        with open(self._path, "rb") as file:
          while block := file.read(_BUFFER):
            self._digest.update(block)
      yield from self.of_typed(read_columns([field.name for field in self._schema.fields]))

  def check_header(self, names: Sequence[str]) -> None:
    """Raises a BadTable unless a schema's columns are there, and all of an array if it has one."""
    wanted = [field.name for field in self._schema.fields]
    found = {*names}
    for name in wanted:
      if name not in found:
        rule = f"is not among the columns {bad_table.listed(names)}"
        raise bad_table.bad_header(self._path, name, rule)
    others = found.difference(wanted, [typed_files.LABELS])
    shape = self._schema.feature_shape
    is_array = self._schema.feature_names == schema_lib.array_names(shape)
    if self._path.endswith(typed_files.NPZ) and is_array and others:
      rule = f"is not in the schema, whose features are an array of shape {shape}, as x must be"
      raise bad_table.bad_header(self._path, min(others), rule)

  def _of_text_file(self) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    first, delimiter = 0, self._schema.delimiter
    with _opened(self._path, self._digest) as file:
      names = _header(self._path, file, delimiter)
      self.check_header(names)
      for lines in _blocks(self._path, file, names, delimiter if self._private else None):
        columns, problem = self._at_once(names, lines), None
        if columns is None:
          columns, problem = self._by_line(names, lines)
        yield first, columns
        if problem is not None:
          row = first + len(next(iter(columns.values())))
          raise bad_table.bad_cell(self._path, row, None, f"{problem}")
        first += len(lines)

  def of_typed(self, table: pa.Table) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """Yields parts of a typed file; texts are what its other cells would write."""
    import pyarrow as pa  # pylint: disable=g-import-not-at-top

    typed_files.check_types(self._path, table.schema)
    first = 0
    for batch in table.to_batches():
      columns = {field.name: batch[field.name] for field in self._schema.fields}
      for field in self._schema.fields:
        cells = columns[field.name]
        is_whole = pa.types.is_integer(cells.type) and field.is_numeric
        if not is_whole and not (pa.types.is_floating(cells.type) and field.type == "number"):
          columns[field.name] = typed_files.texts(
              self._path, field.name, cells, first, self._missing, self._private
          )
      yield first, columns
      first += len(batch)

  def _at_once(
      self, names: Sequence[str], lines: Sequence[bytes]
  ) -> dict[str, pa.Array] | None:
    """Returns what `_by_line` does, faster; None if a line is not as most are."""
    import pyarrow as pa  # pylint: disable=g-import-not-at-top
    from pyarrow import csv as arrow_csv  # pylint: disable=g-import-not-at-top

    data = b"".join(lines)
    delimiter = self._schema.delimiter
    if not _is_plain(lines, data, delimiter):
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

    rows: list[Sequence[str | None]] = []
    problem = None
    for line in lines:
      try:
        rows.append(_cells_of_row(line, self._schema.delimiter, len(names)))
      except ValueError as e:
        if not self._private:
          problem = e
          break
        rows.append([None] * len(names))
        self._counts.bad_lines += 1
        self._counts.missing -= len(self._schema.fields)
    places = {name: place for place, name in enumerate(names)}
    columns = {field.name: places[field.name] for field in self._schema.fields}
    return {
        name: pa.array([None if row[i] in self._missing else row[i] for row in rows], pa.string())
        for name, i in columns.items()
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

  def values(self, first: int, columns: Mapping[str, pa.Array]) -> dict[str, np.ndarray]:
    """Returns the values of columns, of which the first cells are of row `first`."""
    import pandas as pd  # pylint: disable=g-import-not-at-top

    found = self._numbers(columns)
    for field in self._schema.fields:
      if not field.is_numeric:
        found[field.name] = self._words(field, columns[field.name])
    problems = [
        (int(found[field.name][1].argmax()), field) for field in self._schema.fields
        if not self._private and found[field.name][1].any()
    ]
    if problems:
      row, field = min(problems, key=lambda problem: problem[0])
      cell = typed_files.text(columns[field.name][row].as_py())
      raise bad_table.bad_cell(self._path, first + row, field.name, self._rule(field, cell))
    if self._private:
      self._counts.rows += len(next(iter(columns.values())))
      self._counts.missing += sum(int(pd.isna(values).sum()) for values, _ in found.values())
    return {name: values for name, (values, _) in found.items()}

  def _numbers(
      self, columns: Mapping[str, pa.Array]
  ) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns numeric columns' numbers, NaN where a cell holds none, and which can't be used."""
    import pyarrow as pa  # pylint: disable=g-import-not-at-top

    fields = [field for field in self._schema.fields if field.is_numeric]
    if not fields:
      return {}
    # Of all columns at once, of which there may be thousands.
    num_rows = len(columns[fields[0].name])
    values = np.empty((len(fields), num_rows))
    are_missing = np.empty(values.shape, bool)
    are_text = np.array([pa.types.is_string(columns[field.name].type) for field in fields])
    for kind in _PATTERNS:
      own = are_text & [field.type == kind for field in fields]
      cells = pa.chunked_array(
          [columns[field.name] for field in itertools.compress(fields, own)], pa.string()
      )
      values[own] = numbers(cells, self._decimal, kind).reshape(own.sum(), num_rows)
      are_missing[own] = cells.is_null().to_numpy().reshape(own.sum(), num_rows)
    if not are_text.all():
      typed = np.stack([
          columns[field.name].to_numpy(zero_copy_only=False).astype(np.float64)
          for field in itertools.compress(fields, ~are_text)
      ])
      # As texts, infinities are no numbers.
      infinities = [float(text) for text in ("inf", "-inf") if text in self._missing]
      are_missing[~are_text] = np.isnan(typed) | np.isin(typed, infinities)
      values[~are_text] = np.where(np.isinf(typed), np.nan, typed)
    if self._missing_numbers:
      are_missing |= np.isin(values, self._missing_numbers)
      values[are_missing] = np.nan
    bounds = np.array([field.bounds for field in fields]).T[..., np.newaxis]
    low, high = np.clip(bounds, -schema_lib.LARGEST, schema_lib.LARGEST)
    if self._private or self._schema.clips:
      values = np.clip(values, low, high)
    are_within = (values >= low) & (values <= high)
    may_lack = np.array([self._may_lack(field) for field in fields])[:, np.newaxis]
    are_bad = ~are_within & ~(are_missing & may_lack)
    return {field.name: (own, bad) for field, own, bad in zip(fields, values, are_bad)}

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
    kind = "an integer" if field.type == "integer" else "a number"
    (number,) = numbers(pa.array([cell]), self._decimal, field.type)
    if np.isnan(number):
      return f"{shown} is not {kind}, nor in missingValues"
    if number in self._missing_numbers:
      return "a cell is missing"
    low, high = np.clip(field.bounds, -schema_lib.LARGEST, schema_lib.LARGEST)
    return f"{shown} is not {kind} between {low:g} and {high:g}"
