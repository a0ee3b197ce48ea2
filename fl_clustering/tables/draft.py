"""A first schema of a folder, for a person to read and edit: the only guesses about cells.

The delimiter is that by which the first text file's first line has most cells.  Between commas the
decimal mark is a point, and else the mark with which more cells of text files are numbers.  A
column of whose different cells half or more are numbers is one, and runs refuse its other cells.  A
column of `true` and `false` is boolean, and one with at most 20 different texts has levels.  Every
other column is left out.  With an empty cell in a feature, missing cells become the mean.
"""

from __future__ import annotations

import itertools
import reprlib
from typing import Any, Collection, Iterable, Mapping, NamedTuple, Sequence, TYPE_CHECKING

import numpy as np

from clustering_basics import validate
from fl_clustering.tables import bad_table
from fl_clustering.tables import clients as clients_lib
from fl_clustering.tables import encode
from fl_clustering.tables import read as read_lib
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views as views_lib

if TYPE_CHECKING:
  import pyarrow as pa

_MOST_LEVELS = 20
_BOOLEANS = set(schema_lib.BOOLEANS) - {"0", "1"}
_SHOWN = reprlib.Repr()
_SHOWN.maxdict = _MOST_LEVELS

# By the files' paths: the names of columns, and a column's cells as text, null where one is empty.
_Headers = Mapping[str, Collection[str]]
_Files = Mapping[str, "pa.ChunkedArray"]


class Draft(NamedTuple):
  """A schema, and a line per column that says what it was taken for."""

  schema: schema_lib.Schema
  lines: tuple[str, ...]


def draft(
    directory: str, *, label: str | None = None, client: str | None = None,
    split: str | None = None, key: str | None = None, exclude: Sequence[str] = (),
    is_public: bool = False,
) -> Draft:
  """Returns the draft of a folder's schema.

  Args:
    label: The column of the classes; likewise `client`, `split` and `key`.
    exclude: Columns that are not used.
    is_public: Whether all rows may be known, so that the schema may have the means and standard
      deviations of numbers as `center` and `scale`, for private runs.

  Raises:
    ValueError: If the folder can't be used, does not have these columns, or has no feature.
    BadTable: If a file can't be used.
  """
  roles = {"label": label, "client": client, "split": split, "key": key}
  headers = _headers(clients_lib.files(directory).values())
  schema_lib.check_given({*itertools.chain(*headers.values())}, exclude=exclude)
  return _draft(headers, roles, exclude, is_public)


def draft_views(
    directory: str, *, key: str | None = None, exclude: Sequence[str] = (), is_public: bool = False
) -> tuple[dict[str, schema_lib.Schema], tuple[str, ...]]:
  """Returns the drafts of the schemas of a folder with views, and their lines; see `draft`."""
  by_view = views_lib.by_view(directory)
  headers = {view: _headers(paths) for view, paths in by_view.items()}
  names = {name for one in headers.values() for name in itertools.chain(*one.values())}
  schema_lib.check_given(names, exclude=exclude)
  drafts = {}
  for view, one in headers.items():
    unused = views_lib.unused_columns(by_view[view][0], key, exclude)
    try:
      drafts[view] = _draft(one, {"key": key}, unused, is_public)
    except ValueError as e:
      raise ValueError(f"The view {view}: {e}") from e
  lines = (f"{view}: {line}" for view, one in drafts.items() for line in one.lines)
  return {view: one.schema for view, one in drafts.items()}, tuple(lines)


def _delimiter(paths: Iterable[str]) -> str:
  """Returns what stands between the cells of the first text file."""
  path = next((path for path in paths if path.endswith(bad_table.TEXT_FILES)), None)
  return "," if path is None else read_lib.likely_delimiter(path)


def _headers(paths: Collection[str]) -> _Headers:
  delimiter = _delimiter(paths)
  return {path: dict.fromkeys(read_lib.header(path, delimiter)) for path in paths}


def _draft(
    headers: _Headers, roles: Mapping[str, Any], exclude: Collection[str], is_public: bool
) -> Draft:
  names = [n for n in dict.fromkeys(itertools.chain(*headers.values())) if n not in exclude]
  lacking = {name: path for path, own in headers.items() for name in names if name not in own}
  schema_lib.check_given(names, **roles)
  for name in roles.values():
    if name in lacking:
      raise bad_table.bad_header(lacking[name], name, "is not there, but in other files")
  delimiter, names = _delimiter(headers), [name for name in names if name not in lacking]
  tables = {path: read_lib.texts(path, delimiter, names) for path in headers}
  columns = {name: {path: table[name] for path, table in tables.items()} for name in names}

  def num_others(mark: str) -> int:
    return sum(len(_others(files, mark)) for files in columns.values())

  decimal = "." if delimiter == "," else min(".,", key=num_others)
  lines = [f"dialect: delimiter {delimiter!r}, decimalChar {decimal!r}"]
  if schema_lib.are_numbers(names):
    lines.append("the names of all columns are numbers; if these are a row, write names above it")
  lines += [f"{name}: left out, since {path} lacks it" for name, path in lacking.items()]
  role_of = {name: role for role, name in roles.items()}
  fields, missing = [], "error"
  for name, files in columns.items():
    field, about = _field(name, files, role_of.get(name), decimal, is_public)
    lines.append(f"{name}: {about}")
    if field is not None:
      fields.append(field)
      if name not in role_of and any(cells.null_count for cells in files.values()):
        missing = "mean"
  if missing == "mean":
    lines.append("missing cells become the mean of their column over all clients")
  if all(field.name in role_of for field in fields):
    raise validate.error("data_dir", "hold a column that can be a feature", "; ".join(lines))
  options: dict[str, Any] = {**roles, "missing": missing, "decimal": decimal}
  return Draft(schema_lib.Schema(tuple(fields), delimiter=delimiter, **options), tuple(lines))


def _joined(files: _Files) -> pa.ChunkedArray:
  """Returns the cells of all files, but for the missing ones."""
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  chunks = [chunk for cells in files.values() for chunk in cells.chunks]
  return pa.chunked_array(chunks, pa.string()).drop_null()


def _numbers(path: str, cells: pa.Array | pa.ChunkedArray, decimal: str) -> np.ndarray:
  """Returns the numbers of a file's cells, NaN for what is none; only texts have decimal commas."""
  return read_lib.numbers(cells, decimal if path.endswith(bad_table.TEXT_FILES) else ".")


def _others(files: _Files, decimal: str) -> pa.Array:
  """Returns the different cells that are no numbers."""
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  found = []
  for path, cells in files.items():
    different = cells.unique().drop_null()
    found.append(different.filter(pa.array(np.isnan(_numbers(path, different, decimal)))))
  return pa.chunked_array(found, pa.string()).unique()


def _field(
    name: str, files: _Files, role: str | None, decimal: str, is_public: bool
) -> tuple[schema_lib.Field | None, str]:
  """Returns a column's field, None without one, and what it was taken for."""
  if role not in (None, "label"):
    return schema_lib.Field(name, "string"), f"the {role}"
  cells = _joined(files)
  num_different, others = len(cells.unique()), _others(files, decimal)
  if not num_different:
    return None, "left out, since it is empty"
  numbers = np.concatenate([_numbers(path, own, decimal) for path, own in files.items()])
  # Numbers with fractions are different by nature.
  is_whole = (np.floor(numbers) == numbers).all()
  is_key = (is_whole or len(others) == num_different) and all(
      len(own.unique()) == len(own) > 1 for own in files.values()
  )
  hint = ", or a key (--row_key), as no cell occurs twice in a file" if is_key else ""
  if role is None and 2 * len(others) <= num_different:
    if len(others):
      hint += f", but for {bad_table.listed(others.to_pylist())}, which runs refuse"
    return _number(name, numbers if is_public else np.zeros(0)), f"a number{hint}"
  counts = dict(zip(*(part.to_pylist() for part in cells.value_counts().flatten())))
  levels = encode.in_order(counts)
  shown = _SHOWN.repr({level: counts[level] for level in levels})
  if role == "label":
    about = f"the label: {len(levels)} classes and their rows, {shown}"
    return schema_lib.Field(name, "string", enum=levels), about
  if _BOOLEANS.issuperset(levels):
    return schema_lib.Field(name, "boolean"), f"true or false{hint}"
  if len(levels) <= _MOST_LEVELS:
    return schema_lib.Field(name, "string", enum=levels), f"levels and their rows, {shown}{hint}"
  text = reprlib.repr(levels[-1])
  return None, f"left out, as text of {len(levels):,} different cells such as {text}{hint}"


def _number(name: str, numbers: np.ndarray) -> schema_lib.Field:
  """Returns the field of a number, with the mean and deviation of public ones."""
  numbers = numbers[np.isfinite(numbers)]
  if not len(numbers):
    return schema_lib.Field(name)
  center, scale = float(numbers.mean()), float(numbers.std())
  # What rounding leaves of a constant column is no deviation.
  return schema_lib.Field(name, center=center, scale=scale if scale > 1e-12 * abs(center) else 1.0)
