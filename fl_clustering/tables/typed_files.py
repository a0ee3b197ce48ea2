"""Files of rows whose cells have types: Parquet, and NumPy's .npz.

An .npz file holds numbers: `x`, whose columns are x0, x1, ..., or of images x0_0_0, ... pixel by
pixel, and perhaps `y`, which is another column.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
import reprlib
from typing import Any, Callable, Collection, Iterable, Iterator, Sequence, TYPE_CHECKING

import numpy as np

from fl_clustering.tables import bad_table
from fl_clustering.tables import schema as schema_lib

if TYPE_CHECKING:
  import pyarrow as pa

PARQUET, NPZ = ".parquet", ".npz"
ENDINGS = (PARQUET, NPZ)
# The array of an .npz file that is one column.
LABELS = "y"
# How names of Arrow's types begin whose cells are texts, or have one that everybody knows.
_TYPES = re.compile(
    r"(dictionary<values=)?"
    r"(null|bool|u?int\d|(half)?float|double|decimal|date|time|(large_)?string)"
)


def check_types(path: str, schema: pa.Schema) -> None:
  """Raises a BadTable unless the cells of all columns have a text that everybody knows."""
  shown = reprlib.Repr()
  shown.maxstring = 80
  for field in schema:
    # Where only the writer knew a type of its own, a reader has another one.
    own = (field.metadata or {}).get(b"ARROW:extension:name", b"").decode()
    if own or not _TYPES.match(str(field.type)):
      rule = f"holds {shown.repr(own or str(field.type))}, and no text, numbers or dates"
      raise bad_table.bad_header(path, field.name, f"{rule}: convert or exclude it")


def texts(
    path: str, column: str, cells: Iterable[pa.Scalar], first: int,
    missing: Collection[str] = ("",), private: bool = False,
) -> pa.Array:
  """Returns cells as text, null where one is missing.

  Args:
    first: The row of the first one.
    missing: Texts that are missing.
    private: Whether a cell that can't be read is missing, and no error.

  Raises:
    BadTable: If a cell can't be read.
  """
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  found = []
  for row, cell in enumerate(cells, first):
    try:
      found.append(text(cell.as_py()))
    # Text that is not UTF-8, a date after 9999, or a time zone that is not known.
    except (ValueError, OverflowError, KeyError) as e:
      if not private:
        raise bad_table.bad_cell(path, row, column, f"can't be read: {e}") from e
      found.append(None)
  return pa.array([None if one in missing else one for one in found], pa.string())


@contextlib.contextmanager
def errors(path: str) -> Iterator[None]:
  """Raises a BadTable where a file can't be read."""
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  try:
    yield
  except (OSError, pa.ArrowException, UnicodeDecodeError, OverflowError, KeyError) as e:
    raise bad_table.BadTable(path, None, None, "can't be read: " + f"{e}".partition("\n")[0]) from e


def opened(path: str) -> tuple[tuple[str, ...], Callable[[Sequence[str]], pa.Table]]:
  """Returns the names of a file's columns, and a function that reads some; BadTable otherwise."""
  from pyarrow import parquet  # pylint: disable=g-import-not-at-top

  if path.endswith(NPZ):
    table = _npz(path)
    return tuple(table.column_names), table.select
  with errors(path):
    file = parquet.ParquetFile(path)
    schema = file.schema_arrow
  bad_table.check_names(path, schema.names)
  index = (schema.pandas_metadata or {}).get("index_columns", ())
  names = tuple(name for name in schema.names if name and name not in index)
  return names, functools.partial(file.read, use_threads=False)


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
  names = schema_lib.array_names(x.shape[1:] if x.ndim != 3 else (*x.shape[1:], 1))
  columns = [*x.reshape(len(x), math.prod(x.shape[1:])).T]
  if y is not None:
    if y.shape != x.shape[:1]:
      raise bad(f"y must have the shape {x.shape[:1]}, and has {y.shape}")
    names, columns = (*names, LABELS), [*columns, y]
  for array in columns:
    if not np.can_cast(array.dtype, np.float64):
      raise bad(f"must hold numbers of up to 64 bits, not {array.dtype.name}")
  return pa.Table.from_arrays([_column(array) for array in columns], names)


def _column(values: np.ndarray) -> pa.Array:
  """Returns numbers in this machine's order of bytes; true and false are 1 and 0."""
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  return pa.array(values.astype(np.promote_types(values.dtype, np.uint8)), from_pandas=True)


def text(value: Any) -> str | None:
  """Returns the text of a cell of a typed file, None where there is none."""
  if value is None or value != value:  # NaN.
    return None
  if isinstance(value, bool):
    return "true" if value else "false"
  if isinstance(value, float) and value.is_integer():
    return f"{value:.0f}"
  return f"{value}"
