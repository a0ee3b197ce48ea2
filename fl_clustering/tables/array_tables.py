"""Tables in files of arrays: Parquet, NPY and NPZ."""

import zipfile

import numpy as np

from fl_clustering.tables import cells
from fl_clustering.tables import table_head


def where(unused_head, row):
  """Returns words for the place of a row, counted from 0."""
  return f"row {row + 1}"


def _load(path, is_private):
  """Returns a matrix, or a dict of columns, of an NPY or NPZ file.

  Args:
    is_private: Whether messages say nothing that depends on rows.
  """
  try:
    loaded = np.load(path, allow_pickle=False)
    arrays = dict(loaded) if isinstance(loaded, np.lib.npyio.NpzFile) else {None: loaded}
  except (ValueError, EOFError, OSError, zipfile.BadZipFile) as e:
    reason = "" if is_private else f" ({e})"
    raise cells.BadTable(f"it can't be read as an array{reason}") from e
  if None in arrays and arrays[None].ndim == 1:
    return arrays[None][:, np.newaxis]
  if len(arrays) == 1 and next(iter(arrays.values())).ndim == 2:
    return next(iter(arrays.values()))
  if None in arrays or {array.ndim for array in arrays.values()} != {1}:
    shapes = ", ".join(str(array.shape) for array in arrays.values())
    got = "others" if is_private else f"arrays of shapes {shapes}"
    raise cells.BadTable(
        f"it must hold one matrix or vector, or one vector for each column, got {got}"
    )
  if len({len(array) for array in arrays.values()}) > 1:
    raise cells.BadTable("its vectors, which are columns, must have the same length")
  return arrays


def read_array_head(path, options):
  """Returns the `Head` of an NPY or NPZ file; `BadTable` if it has no table."""
  any_cell = options.allow_any_number
  loaded = _load(path, any_cell)
  if isinstance(loaded, dict):
    return table_head.Head(path, len(loaded), tuple(loaded), allows_any_cell=any_cell)
  return table_head.Head(path, loaded.shape[1], allows_any_cell=any_cell)


def _other_types(names):
  """Returns the `BadTable` for columns whose type is not one of numbers, whatever they hold."""
  return cells.BadTable(
      f"column {names[0]!r} has a type other than numbers{cells.also(names[1:])}",
      hints=(cells.LEAVES_OUT,), exclude=tuple(names),
  )


def _no_numbers(columns, num_columns):
  """Returns the `BadTable` for columns, lists by name, that can't be read as numbers."""
  found = {}
  for name, values in columns.items():
    texts = ["" if value is None else str(value) for value in values]
    is_text = [not cells.is_missing(text) and not cells.is_number(text) for text in texts]
    row = is_text.index(True) if any(is_text) else 0
    levels = {text.strip() for text in texts if not cells.is_missing(text)}
    found[name] = (row, cells.TextColumn(where(None, row), texts[row], levels))
  found = sorted(found.items(), key=lambda item: item[1][0])
  num_rows = max(map(len, columns.values()))
  return cells.no_numbers({name: text for name, (_, text) in found}, num_rows, num_columns)


def _any_array_texts(array):
  """Returns the cells of an array as a list of texts; None for all by the array's type alone."""
  if array.dtype.kind in "biuf":
    return array.astype(str).tolist()
  encoding = {"U": "utf-32-le", "S": "utf-8"}.get(array.dtype.kind)
  if encoding is None:
    return [None] * len(array)
  # NumPy refuses some of the texts that a file may hold.
  array = array.astype(array.dtype.newbyteorder("<"))
  content, width = array.tobytes(), array.dtype.itemsize
  cells_of_array = (content[i * width : (i + 1) * width] for i in range(len(array)))
  return [cell.decode(encoding, errors="replace").rstrip("\0") for cell in cells_of_array]


def read_array(head, numbers, texts):
  """Returns the columns by name, as Arrow arrays of float64 and of text.

  Args:
    head: The `Head`, with names.
    numbers: The names of the columns to read as numbers.
    texts: The names of the columns to read as text.

  Raises:
    BadTable: If a column can't be read so.
  """
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  loaded = _load(head.path, head.allows_any_cell)
  if not isinstance(loaded, dict):
    loaded = dict(zip(head.names, loaded.T))
  no_numbers = {
      name: loaded[name] for name in numbers
      if loaded[name].dtype.kind not in "biuf"
      and (head.allows_any_cell or len(loaded[name]))
  }
  if no_numbers and head.allows_any_cell:
    raise _other_types(list(no_numbers))
  if no_numbers:
    raise _no_numbers(
        {name: column.tolist() for name, column in no_numbers.items()}, len(numbers)
    )
  columns = {name: pa.array(np.asarray(loaded[name], np.float64)) for name in numbers}
  if head.allows_any_cell:
    return columns | {name: pa.array(_any_array_texts(loaded[name]), pa.string()) for name in texts}
  return columns | {name: pa.array(loaded[name].astype(str)) for name in texts}


def read_parquet_head(path, options):
  """Returns the `Head` of a Parquet file; `BadTable` if it is none."""
  from pyarrow import parquet  # pylint: disable=g-import-not-at-top

  any_cell = options.allow_any_number
  names = tuple(_parquet(any_cell, parquet.read_schema, path).names)
  return table_head.Head(path, len(names), names, allows_any_cell=any_cell)


def _parquet(any_cell, function, *arguments, **options):
  """Calls a function of Arrow; its words may show bytes of the file, so a private run has none."""
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  try:
    return function(*arguments, **options)
  except (pa.ArrowException, OSError) as e:
    words = "" if any_cell else f" ({str(e).splitlines()[0]})"
    raise cells.BadTable(f"it can't be read as Parquet{words}") from e


def _without_missing(column):
  """Returns an Arrow column, its text as cells of text files: trimmed, null where missing."""
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
    return column
  texts = ["" if text is None else text.strip() for text in column.to_pylist()]
  found = pa.array([None if cells.is_missing(text) else text for text in texts], pa.string())
  return pa.chunked_array([found])


def _plain(column):
  """Returns an Arrow column without categories."""
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _decoded(column):
  """Returns the cells of an Arrow column of text as a list; None for any other column."""
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  is_large = pa.types.is_large_string(column.type)
  if not is_large and not pa.types.is_string(column.type):
    return None
  # Arrow doesn't check that its text is UTF-8.
  contents = column.cast(pa.large_binary() if is_large else pa.binary()).to_pylist()
  return ["" if found is None else found.decode(errors="replace") for found in contents]


def _any_texts(column):
  """Returns an Arrow column as text; null for all by the column's type alone."""
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  column = _plain(column)
  kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
  if any(is_kind(column.type) for is_kind in kinds):
    return column.cast(pa.string())
  texts = _decoded(column)
  return pa.nulls(len(column), pa.string()) if texts is None else pa.array(texts, pa.string())


def _any_numbers(column):
  """Returns an Arrow column as float64, NaN for text that is no number; None by its type alone."""
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  column = _plain(column)
  texts = _decoded(column)
  if texts is not None:
    return pa.array([cells.number_of(text, ".") for text in texts], pa.float64())
  if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
    return None
  try:
    pa.array([], column.type).cast(pa.float64(), safe=False)
  except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
    return None
  return column.cast(pa.float64(), safe=False)


def read_parquet(head, numbers, texts):
  """Returns the columns by name, as `read_array` does."""
  # pylint: disable=g-import-not-at-top
  import pyarrow as pa
  from pyarrow import parquet
  # pylint: enable=g-import-not-at-top

  table = _parquet(
      head.allows_any_cell, parquet.read_table, head.path, columns=[*numbers, *texts]
  )
  if head.allows_any_cell:
    found = {name: _any_numbers(table[name]) for name in numbers}
    others = [name for name, column in found.items() if column is None]
    if others:
      raise _other_types(others)
    return found | {name: _any_texts(table[name]) for name in texts}
  columns, others = {}, {}
  for name in (*numbers, *texts):
    try:
      # As from text: integers become the nearest float64.
      columns[name] = (
          _without_missing(table[name]).cast(pa.float64(), safe=False) if name in numbers
          else table[name].cast(pa.string())
      )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
      others[name] = table[name].to_pylist()
  if others:
    raise _no_numbers(others, len(numbers))
  return columns
