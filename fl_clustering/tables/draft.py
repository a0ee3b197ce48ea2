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
from typing import Any, Collection, Mapping, Sequence, TYPE_CHECKING

import numpy as np

from clustering_basics import validate
from fl_clustering.tables import bad_table
from fl_clustering.tables import encode
from fl_clustering.tables import read as read_lib
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views as views_lib

if TYPE_CHECKING:
  import pandas as pd

_MOST_LEVELS = 20
_BOOLEANS = set(schema_lib.BOOLEANS) - {"0", "1"}
_SHOWN = reprlib.Repr()
_SHOWN.maxdict = _MOST_LEVELS

# The names of columns by the files' paths.
_Headers = Mapping[str, Collection[str]]


def draft(
    directory: str, *, exclude: Sequence[str] = (), is_public: bool = False, **roles: str
) -> tuple[schema_lib.Schemas, list[str]]:
  """Returns the drafts of a folder's schemas, and lines that say what columns were taken for.

  Args:
    exclude: Columns that are not used.
    is_public: Whether all rows may be known, so that the schema may have the means and standard
      deviations of numbers as `center` and `scale`, for private runs.
    **roles: The columns by their role, such as `label`; of views, `key` alone.

  Raises:
    ValueError: If the folder can't be used, does not have these columns, or has no feature.
    BadTable: If a file can't be used.
  """
  has_views = views_lib.are_in(directory)
  files = views_lib.files_by_view(directory, has_views)
  headers = {view: _headers(paths) for view, paths in files.items()}
  names = itertools.chain(*(names for one in headers.values() for names in one.values()))
  schema_lib.check_given({*names}, exclude=exclude)
  schemas, lines = {}, list[str]()
  for view, of_files in headers.items():
    first = files[view][0]
    own, unused = views_lib.without_y(first, of_files[first], roles, exclude, has_views)
    try:
      schemas[view], about = _draft(of_files, own, unused, is_public)
    except ValueError as e:
      if not has_views:
        raise
      raise ValueError(f"The view {view}: {e}") from e
    lines += [f"{view}: {line}" if has_views else line for line in about]
  return schemas, lines


def _delimiter(paths: Collection[str]) -> str:
  """Returns what stands between the cells of the first text file."""
  path = next((path for path in paths if path.endswith(bad_table.TEXT_FILES)), None)
  return "," if path is None else read_lib.likely_delimiter(path)


def _headers(paths: Collection[str]) -> _Headers:
  delimiter = _delimiter(paths)
  return {path: dict.fromkeys(read_lib.header(path, delimiter)) for path in paths}


def _draft(
    headers: _Headers, roles: Mapping[str, Any], exclude: Collection[str], is_public: bool
) -> tuple[schema_lib.Schema, list[str]]:
  import pandas as pd  # pylint: disable=g-import-not-at-top
  import pyarrow as pa  # pylint: disable=g-import-not-at-top

  names = [n for n in dict.fromkeys(itertools.chain(*headers.values())) if n not in exclude]
  lacking = {name: path for path, own in headers.items() for name in names if name not in own}
  schema_lib.check_given(names, **roles)
  for name in roles.values():
    if name in lacking:
      raise bad_table.bad_header(lacking[name], name, "is not there, but in other files")
  delimiter, names = _delimiter([*headers]), [name for name in names if name not in lacking]
  tables = {path: read_lib.texts(path, delimiter, names) for path in headers}

  def numbers(name: str, decimal: str) -> np.ndarray:
    """Returns a column's numbers, NaN for what is none; only texts have decimal commas."""
    return np.concatenate([
        read_lib.numbers(
            pa.array(table[name], pa.string()),
            decimal if path.endswith(bad_table.TEXT_FILES) else ".",
        ) for path, table in tables.items()
    ])

  def num_numbers(decimal: str) -> int:
    return sum(np.isfinite(numbers(name, decimal)).sum() for name in names)

  decimal = "." if delimiter == "," else max(".,", key=num_numbers)
  lines = [f"dialect: delimiter {delimiter!r}, decimalChar {decimal!r}"]
  if schema_lib.are_numbers(names):
    lines.append("the names of all columns are numbers; if these are a row, write names above it")
  lines += [f"{name}: left out, since {path} lacks it" for name, path in lacking.items()]
  role_of = {name: role for role, name in roles.items()}
  fields, missing = [], "error"
  for name in names:
    cells = pd.concat({path: table[name] for path, table in tables.items()})
    field, about = _field(name, cells, numbers(name, decimal), role_of.get(name), is_public)
    lines.append(f"{name}: {about}")
    if field is not None:
      fields.append(field)
      if name not in role_of and cells.isna().any():
        missing = "mean"
  if missing == "mean":
    lines.append("missing cells become the mean of their column over all clients")
  if all(field.name in role_of for field in fields):
    raise validate.error("data_dir", "hold a column that can be a feature", "; ".join(lines))
  options: dict[str, Any] = {**roles, "missing": missing, "decimal": decimal}
  return schema_lib.Schema(tuple(fields), delimiter=delimiter, **options), lines


def _field(
    name: str, cells: pd.Series, numbers: np.ndarray, role: str | None, is_public: bool
) -> tuple[schema_lib.Field | None, str]:
  """Returns a column's field, None without one, and what it was taken for.

  Args:
    cells: Its texts, which the files' paths are an index of.
    numbers: Those of the cells, NaN for what is none.
  """
  if role not in (None, "label"):
    return schema_lib.Field(name, "string"), f"the {role}"
  counts = cells.value_counts()
  if not len(counts):
    return None, "left out, since it is empty"
  others = encode.in_order(cells[np.isnan(numbers)].dropna().unique())
  # Numbers with fractions are different by nature.
  is_whole = (np.floor(numbers) == numbers).all()
  is_key = (is_whole or len(others) == len(counts)) and all(
      own.is_unique and len(own) > 1 for _, own in cells.groupby(level=0)
  )
  hint = ", or a key (--row_key), as no cell occurs twice in a file" if is_key else ""
  if role is None and 2 * len(others) <= len(counts):
    if others:
      hint += f", but for {bad_table.listed(others)}, which runs refuse"
    return _number(name, numbers if is_public else np.zeros(0)), f"a number{hint}"
  levels = encode.in_order(counts.index)
  shown = _SHOWN.repr({level: int(counts[level]) for level in levels})
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
