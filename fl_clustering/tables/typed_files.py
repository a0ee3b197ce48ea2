"""Files of rows whose cells have types: Parquet, and NumPy's .npz.

An .npz file holds `x`, whose columns are x0, x1, ..., or of images x0_0_0, ... pixel by pixel, and
perhaps `y`, which is another column.
"""

from __future__ import annotations

import contextlib
import functools
import math
import reprlib
from typing import Any, Callable, Collection, Iterator, Sequence, TYPE_CHECKING

import numpy as np

from fl_clustering.tables import bad_table
from fl_clustering.tables import schema as schema_lib

if TYPE_CHECKING:
  import pyarrow as pa

PARQUET, NPZ = ".parquet", ".npz"
ENDINGS = (PARQUET, NPZ)
# The array of an .npz file that is one column.
LABELS = "y"


def header(path: str, named: Collection[str | None] = ()) -> tuple[str, ...]:
  """Returns the names of a file's columns; the index of a pandas frame counts if it is named."""
  schema, _ = opened(path)
  index = (schema.pandas_metadata or {}).get("index_columns", ())
  return tuple(n for n in schema.names if n and (n in named or n not in index))


def texts(path: str, named: Collection[str | None] = ()) -> dict[str, pa.ChunkedArray]:
  """Returns the cells of the columns in `header` as text; null where there is none."""
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  names, (_, read) = header(path, named), opened(path)
  with errors(path):
    table = read(names)
    return {
        name: pa.chunked_array(
            [pa.array(map(text, chunk.to_pylist()), pa.string()) for chunk in table[name].chunks],
            pa.string(),
        ) for name in names
    }


@contextlib.contextmanager
def errors(path: str) -> Iterator[None]:
  """Raises a BadTable where a file can't be read."""
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  try:
    yield
  except (OSError, pa.ArrowException, UnicodeDecodeError, OverflowError, KeyError) as e:
    raise bad_table.BadTable(path, None, None, "can't be read: " + f"{e}".partition("\n")[0]) from e


def opened(path: str) -> tuple[pa.Schema, Callable[[Sequence[str]], pa.Table]]:
  """Returns what a file holds, and a function that reads some columns; BadTable otherwise."""
  from pyarrow import parquet  # pylint: disable=g-import-not-at-top

  if path.endswith(NPZ):
    table = _npz(path)
    return table.schema, table.select
  with errors(path):
    file = parquet.ParquetFile(path)
  bad_table.check_names(path, file.schema_arrow.names)
  return file.schema_arrow, functools.partial(file.read, use_threads=False)


def _npz(path: str) -> pa.Table:
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  def bad(rule: str) -> bad_table.BadTable:
    return bad_table.BadTable(path, None, None, rule)

  archive: Any = path  # NumPy's types have no paths here.
  try:
    with np.lib.npyio.NpzFile(archive, allow_pickle=False) as file:
      arrays = {name: np.asarray(array) for name, array in file.items()}
  except Exception as e:  # pylint: disable=broad-exception-caught
    # A file may hold any bytes, which NumPy meets with any exception.
    raise bad("can't be read: " + f"{e}".partition("\n")[0]) from e
  if set(arrays) | {LABELS} != {"x", LABELS}:
    raise bad(f"must hold x, perhaps y, and not {reprlib.repr([*arrays])}")
  x, y = arrays["x"], arrays.get(LABELS)
  if x.ndim not in (2, 3, 4) or not all(x.shape[1:]):
    rule = "x must have the shape (n, d), or of images (n, height, width) or (n, height, width, c)"
    raise bad(f"{rule}, and has {x.shape}")
  if not np.can_cast(x.dtype, np.float64):
    raise bad(f"x must hold numbers of up to 64 bits, not {x.dtype.name}")
  names = schema_lib.array_names(x.shape[1:] if x.ndim != 3 else (*x.shape[1:], 1))
  columns = [_column(column) for column in x.reshape(len(x), math.prod(x.shape[1:])).T]
  if y is not None:
    if y.shape != x.shape[:1]:
      raise bad(f"y must have the shape {x.shape[:1]}, and has {y.shape}")
    if not np.can_cast(y.dtype, np.float64) and y.dtype.kind != "U":
      raise bad(f"y must hold numbers or text, not {y.dtype.name}")
    names, columns = (*names, LABELS), [*columns, _column(y)]
  return pa.Table.from_arrays(columns, names)


def _column(values: np.ndarray) -> pa.Array:
  """Returns numbers, true and false being 1 and 0, or text, which need not be in Unicode yet."""
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  if values.dtype.kind != "U":
    # In this machine's order of bytes.
    return pa.array(values.astype(np.promote_types(values.dtype, np.uint8)), from_pandas=True)
  values = values.astype(values.dtype.newbyteorder("<"))
  cells = [_utf_8(values[row : row + 1].tobytes()) for row in range(len(values))]
  return pa.array(cells, pa.binary()).view(pa.string())


def _utf_8(cell: bytes) -> bytes:
  """Returns a text of UTF-32 in UTF-8; bytes that are none where it is none."""
  try:
    return cell.decode("utf-32-le").rstrip("\0").encode()
  except UnicodeDecodeError:
    return b"\xff"


def text(value: Any) -> str | None:
  """Returns the text of a cell of a typed file, None where there is none."""
  if value is None or value != value:  # NaN.
    return None
  if isinstance(value, bool):
    return "true" if value else "false"
  if isinstance(value, float) and value.is_integer():
    return f"{value:.0f}"
  return f"{value}"
