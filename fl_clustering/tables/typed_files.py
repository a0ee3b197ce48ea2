"""Files whose cells have types: arrays of NumPy, and tables that Arrow reads.

For private algorithms, only a column's type and not what it holds decides how it is read.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Sequence

import numpy as np
import pyarrow as pa

from fl_clustering.tables import cells
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import packed_files
from fl_clustering.tables import problems
from fl_clustering.tables import table_options

_TEXTS = (pa.string(), pa.large_string(), pa.string_view())
_BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())

ReadHead = Callable[[str, table_options.TableOptions], columns_lib.Head]
# From a `Head`, names of columns of numbers and names of columns of text to the `Head`, with what
# was found on the way, and Arrow arrays by name.  What can't be read as numbers is text.
Read = Callable[
    [columns_lib.Head, Sequence[str], Sequence[str]], tuple[columns_lib.Head, dict[str, Any]]
]


def _load(path: str, is_private: bool) -> np.ndarray | dict[str, np.ndarray]:
  """Returns a matrix, or a dict of columns, of an NPY or NPZ file.

  Messages of a private run say nothing that depends on rows.
  """
  try:
    loaded = np.load(packed_files.source(path), allow_pickle=False)
    is_archive = isinstance(loaded, np.lib.npyio.NpzFile)
    arrays: dict[str, np.ndarray] = (
        {cells.composed(name): array for name, array in loaded.items()} if is_archive
        else {"": loaded}
    )
  except (ValueError, OSError, *packed_files.DAMAGED) as e:
    reason = "" if is_private else f" ({e})"
    raise problems.BadTable(f"it can't be read as an array{reason}") from e
  if isinstance(loaded, np.lib.npyio.NpzFile) and len(arrays) < len(loaded.files):
    raise problems.BadTable("two of its arrays have the same name but for how accents are written")
  if not is_archive and arrays[""].ndim == 1:
    return arrays[""][:, np.newaxis]
  if len(arrays) == 1 and next(iter(arrays.values())).ndim == 2:
    return next(iter(arrays.values()))
  if not is_archive or {array.ndim for array in arrays.values()} != {1}:
    shapes = ", ".join(str(array.shape) for array in arrays.values())
    got = "others" if is_private else f"arrays of shapes {shapes}"
    raise problems.BadTable(
        f"it must hold one matrix or vector, or one vector for each column, got {got}"
    )
  if len({len(array) for array in arrays.values()}) > 1:
    raise problems.BadTable("its vectors, which are columns, must have the same length")
  return arrays


def array_head(path: str, options: table_options.TableOptions) -> columns_lib.Head:
  """Returns the `Head` of an NPY or NPZ file."""
  loaded = _load(path, options.allow_any_number)
  num_columns = len(loaded) if isinstance(loaded, dict) else loaded.shape[1]
  return columns_lib.Head(
      path, num_columns, tuple(loaded) if isinstance(loaded, dict) else None,
      style=options.style, allows_any_cell=options.allow_any_number,
  )


def _other_types(names: Sequence[str]) -> problems.BadTable:
  """Returns the error for columns whose type is not one of numbers, whatever they hold."""
  return problems.BadTable(
      f"column {names[0]!r} has a type other than numbers{problems.also(names[1:])}",
      hints=(problems.LEAVES_OUT,), exclude=tuple(names),
  )


def _any_array_texts(array: np.ndarray) -> list[str] | list[None]:
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


def _as_float64(array: np.ndarray) -> np.ndarray:
  # A warning of a wider type's large numbers would tell of them.
  with np.errstate(over="ignore", invalid="ignore"):
    return np.asarray(array, np.float64)


def read_array(
    head: columns_lib.Head, numbers: Sequence[str], texts: Sequence[str]
) -> tuple[columns_lib.Head, dict[str, Any]]:
  """Returns what `text_files.read` does of an NPY or NPZ file."""
  loaded = _load(head.path, head.allows_any_cell)
  if not isinstance(loaded, dict):
    loaded = dict(zip(head.known_names, loaded.T))
  others = [name for name in numbers if loaded[name].dtype.kind not in "biuf"]
  if others and head.allows_any_cell:
    raise _other_types(others)
  found = {}
  for name in numbers:
    is_text = name in others
    found[name] = pa.array(list(map(str, loaded[name].tolist())), pa.string()) if is_text else (
        pa.array(_as_float64(loaded[name]))
    )
  for name in texts:
    found[name] = pa.array(
        _any_array_texts(loaded[name]) if head.allows_any_cell else loaded[name].astype(str),
        pa.string(),
    )
  return head, found


def _plain(column: Any) -> Any:
  """Returns an Arrow column without categories."""
  return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _decoded(column: Any) -> list[str] | None:
  """Returns the cells of an Arrow column of text as a list; None for any other column."""
  if column.type not in _TEXTS:
    return None
  is_small = column.type == pa.string()
  # Arrow doesn't check that its text is UTF-8.
  contents = column.cast(pa.binary() if is_small else pa.large_binary()).to_pylist()
  return ["" if found is None else found.decode(errors="replace") for found in contents]


def _any_texts(column: Any) -> Any:
  """Returns an Arrow column as text; null for all by the column's type alone."""
  column = _plain(column)
  kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
  if any(is_kind(column.type) for is_kind in kinds):
    return column.cast(pa.string())
  texts = _decoded(column)
  return pa.nulls(len(column), pa.string()) if texts is None else pa.array(texts, pa.string())


def _has_numbers(column: Any) -> bool:
  """Returns whether an Arrow column's type, which is not text, is one of numbers."""
  if column.type in _BYTES or pa.types.is_duration(column.type):
    return False
  try:
    pa.array([], column.type).cast(pa.float64(), safe=False)
  except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
    return False
  return True


def _any_numbers(column: Any, style: cells.Style) -> Any:
  """Returns an Arrow column as float64, NaN for text that is no number; None by its type alone."""
  column = _plain(column)
  texts = _decoded(column)
  if texts is not None:
    return pa.array([style.number_of(text) for text in texts], pa.float64())
  return column.cast(pa.float64(), safe=False) if _has_numbers(column) else None


def _texts(column: Any) -> Any:
  """Returns an Arrow column as text."""
  if not pa.types.is_duration(column.type):  # Which would be integers, in a unit of the file.
    with contextlib.suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
      return column.cast(pa.string())
  texts = [None if value is None else str(value) for value in column.to_pylist()]
  return pa.array(texts, pa.string())


def _numbers_or_texts(column: Any) -> Any:
  """Returns an Arrow column as float64 if its type allows that, and else as text."""
  column = _plain(column)
  if column.type in _TEXTS or not _has_numbers(column):
    return _texts(column)
  return column.cast(pa.float64(), safe=False)  # As from text: integers become the nearest float64.


def of_arrow(
    what: str, read_names: Callable[[Any], Sequence[str]], read_table: Callable[..., Any]
) -> tuple[ReadHead, Read]:
  """Returns what reads a kind of file that Arrow reads: its `Head`, and its columns.

  Args:
    what: What messages call it.
    read_names: Takes a path or a file of bytes.
    read_table: Takes the same, and names as `columns`; returns an Arrow table.
  """

  def call(any_cell: bool, function: Callable[..., Any], path: str, **options: Any) -> Any:
    try:
      return function(packed_files.source(path), **options)
    except (pa.ArrowException, OSError, *packed_files.DAMAGED) as e:
      # Arrow's words may show bytes of the file, so a private run has none.
      words = "" if any_cell else f" ({str(e).splitlines()[0]})"
      raise problems.BadTable(f"it can't be read as {what}{words}") from e

  def read_head(path: str, options: table_options.TableOptions) -> columns_lib.Head:
    any_cell = options.allow_any_number
    names = tuple(call(any_cell, read_names, path))
    return columns_lib.Head(
        path, len(names), names, style=options.style, allows_any_cell=any_cell
    )

  def read(
      head: columns_lib.Head, numbers: Sequence[str], texts: Sequence[str]
  ) -> tuple[columns_lib.Head, dict[str, Any]]:
    names = [*numbers, *texts]
    # Others may be written in another way in the file.
    chosen = names if all(map(str.isascii, names)) else None
    table = call(head.allows_any_cell, read_table, head.path, columns=chosen)
    table = table.rename_columns(list(map(cells.composed, table.column_names)))
    if not head.allows_any_cell:
      found = {name: _numbers_or_texts(table[name]) for name in numbers}
      return head, found | {name: _texts(table[name]) for name in texts}
    found = {name: _any_numbers(table[name], head.style) for name in numbers}
    others = [name for name, column in found.items() if column is None]
    if others:
      raise _other_types(others)
    return head, found | {name: _any_texts(table[name]) for name in texts}

  return read_head, read
