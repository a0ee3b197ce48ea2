"""A first schema of a folder, for a person to read and edit: the only guesses about cells.

Every rule is one sentence.  The delimiter is the comma, semicolon, tab or bar by which the first
text file's first line has most cells, and the comma only if no other one gives as many.  The
decimal mark is the one with which more cells of text files are numbers; columns whose mark may be
one of thousands count only if the others do not decide, and never between commas.  A column of
which half of the different cells or more are numbers, with it or the other mark, is a number: runs
refuse its other cells, until a person mends them or says that they are missing.  A column of `true`
and `false` is boolean; a column with at most 20 different texts has levels, which must not look
alike; every other column is left out, as free text if a text has less than 10 rows on average.
Classes that look alike are not listed.  With an empty cell
in a feature, or one that is no number in a number, missing cells become the mean.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import reprlib
from typing import Any, Callable, Collection, Iterable, Mapping, NamedTuple, Sequence, TYPE_CHECKING

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
# Texts of fewer rows on average are free; so few levels may be, if most have one row.
_LEAST_ROWS = 10
_MANY_LEVELS = 10
# More names of files, and more odd cells of a column, are counted.
_MOST_FILES = 3
_MOST_ODD = 20
_BOOLEANS = set(schema_lib.BOOLEANS) - {"0", "1"}
# Numbers that may be meant otherwise: codes, and those with a mark of thousands as a point.
_CODE = "^0[0-9]+$"
_THOUSANDS = r"^[+-]?[1-9][0-9]{0,2}\.[0-9]{3}$"


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
  tables = _read(clients_lib.files(directory).values(), roles.values(), exclude)
  schema_lib.check_given({*tables.columns, *tables.others}, exclude=exclude)
  return _draft(tables, roles, exclude, is_public)


def draft_views(
    directory: str, *, key: str | None = None, exclude: Sequence[str] = (), is_public: bool = False
) -> tuple[dict[str, schema_lib.Schema], tuple[str, ...]]:
  """Returns the drafts of the schemas of a folder with views, and their lines; see `draft`."""
  by_view = views_lib.by_view(directory)
  tables = {view: _read(paths, {key}, exclude) for view, paths in by_view.items()}
  columns = {name for one in tables.values() for name in (*one.columns, *one.others)}
  schema_lib.check_given(columns, exclude=exclude)
  drafts = {}
  for view, one in tables.items():
    unused = views_lib.unused_columns(by_view[view][0], key, exclude)
    try:
      drafts[view] = _draft(one, {"key": key}, unused, is_public)
    except ValueError as e:
      raise ValueError(f"The view {view}: {e}") from e
  lines = (f"{view}: {line}" for view, one in drafts.items() for line in one.lines)
  return {view: one.schema for view, one in drafts.items()}, tuple(lines)


class _Tables(NamedTuple):
  """The cells of files, as text.

  Attributes:
    delimiter: What stands between the cells of text files.
    columns: By the names of the columns that all files have, and by path.
    others: A file without it by the name of each other column.
  """

  delimiter: str
  columns: Mapping[str, Mapping[str, pa.ChunkedArray]]
  others: Mapping[str, str]


def _read(
    paths: Collection[str], roles: Collection[str | None], exclude: Collection[str]
) -> _Tables:
  delimiter, named = _delimiter(paths), {*roles, *exclude}
  tables = {path: read_lib.texts(path, delimiter, named, exclude) for path in paths}
  names = dict.fromkeys(name for table in tables.values() for name in table)
  in_all = [name for name in names if all(name in table for table in tables.values())]
  others = {
      name: next(path for path, table in tables.items() if name not in table)
      for name in names if name not in in_all
  }
  for name, (path, table) in itertools.product(others, tables.items()):
    alike = bad_table.alike(set(table).intersection(others), name)
    if name not in table and alike:
      raise bad_table.bad_header(path, name, f"is not there{alike}")
  for path, table in tables.items():
    if not in_all and not set(table).intersection(next(iter(tables.values()))):
      rule, own = f"has no column that {next(iter(tables))} has", _delimiter([path, *tables])
      if own != delimiter:
        rule += f"; its delimiter may be {own!r}, and that of other files {delimiter!r}"
      raise bad_table.bad_header(path, None, rule)
  columns = {name: {path: table[name] for path, table in tables.items()} for name in in_all}
  return _Tables(delimiter, columns, others)


def _draft(
    tables: _Tables, roles: Mapping[str, Any], exclude: Collection[str], is_public: bool
) -> Draft:
  for name, path in tables.others.items():
    if name in roles.values():
      raise bad_table.bad_header(path, name, "is not there, but in other files")
  schema_lib.check_given(tables.columns, **roles)
  columns = {
      name: _Column(name, cells) for name, cells in tables.columns.items() if name not in exclude
  }
  decimal = min(".,", key=lambda mark: _num_others(columns.values(), mark, tables.delimiter))
  lines = [f"dialect: delimiter {tables.delimiter!r}, decimalChar {decimal!r}"]
  if schema_lib.are_numbers(tables.columns):
    lines.append("the names of all columns are numbers; if these are a row, write names above it")
  lines += [
      f"{name}: left out, since {path} lacks it" for name, path in tables.others.items()
      if name not in exclude
  ]
  role_of = {name: role for role, name in roles.items()}
  fields, missing = [], "error"
  _check_alike([one for name, one in columns.items() if name not in role_of], decimal)
  for name, column in columns.items():
    field, about = column.field(decimal, role_of.get(name), is_public)
    lines.append(f"{name}: {about}")
    if field is not None:
      fields.append(field)
      is_odd = field.is_numeric and len(column.others(decimal)) > 0
      if name not in role_of and (is_odd or column.has_empty):
        missing = "mean"
  if missing == "mean":
    lines.append("missing cells become the mean of their column over all clients")
  if all(field.name in role_of for field in fields):
    raise validate.error("data_dir", "hold a column that can be a feature", "; ".join(lines))
  options: dict[str, Any] = {**roles, "missing": missing, "decimal": decimal}
  schema = schema_lib.Schema(tuple(fields), delimiter=tables.delimiter, **options)
  return Draft(schema, tuple(lines))


def _num_others(columns: Collection[_Column], mark: str, delimiter: str) -> tuple[int, int]:
  """Returns how many cells are no numbers with a decimal mark, at first without unclear columns."""
  numbers = [(len(one.others(mark)), any(map(one.of_thousands, ".,"))) for one in columns]
  num_others = sum(n for n, is_unclear in numbers if not is_unclear)
  # Between commas, a quoted 1,234 is more often thousands.
  return num_others, 0 if delimiter == "," else sum(n for n, _ in numbers)


def _delimiter(paths: Iterable[str]) -> str:
  """Returns what stands between the cells of the first text file."""
  path = next((path for path in paths if path.endswith(bad_table.TEXT_FILES)), None)
  return "," if path is None else read_lib.likely_delimiter(path)


def _distinct(columns: Iterable[pa.ChunkedArray]) -> pa.Array:
  """Returns the different cells of columns, but for the empty ones."""
  import pyarrow as pa  # pylint: disable=g-import-not-at-top
  from pyarrow import compute  # pylint: disable=g-import-not-at-top

  cells = pa.chunked_array([chunk for one in columns for chunk in one.chunks], pa.string()).unique()
  return cells.filter(compute.not_equal(cells, ""))


def _matching(cells: pa.Array, pattern: str, of: pa.Array = None, wanted: bool = True) -> pa.Array:
  """Returns the cells that match a pattern or do not, themselves or in another form, `of`."""
  from pyarrow import compute  # pylint: disable=g-import-not-at-top

  return cells.filter(
      compute.equal(compute.match_substring_regex(cells if of is None else of, pattern), wanted)
  )


def _shown(levels: Sequence[str]) -> str:
  """Returns levels for a line: the first ones and the last of many."""
  most = _MOST_LEVELS
  return ", ".join(levels if len(levels) <= most else (*levels[: most - 1], "...", levels[-1]))


def _check_alike(columns: Iterable[_Column], decimal: str) -> None:
  """Raises a BadTable that names all levels that look alike, of all columns."""
  found = [(one, one.alike_levels(decimal)) for one in columns]
  shown = [
      f"{one.name}: {' and '.join(one.about(text, ascii) for text in texts)}"
      for one, alike in found for texts in alike
  ]
  if shown:
    column, ((*_, text), *_) = next((one, alike) for one, alike in found if alike)
    rule = f"levels look alike, {'; '.join(shown)}; mend them, or exclude the columns"
    raise bad_table.bad_cell(*column.first(text), column.name, rule)


class _Column:
  """The cells of a column, as text."""

  def __init__(self, name: str, cells: Mapping[str, pa.ChunkedArray]) -> None:
    self.name, self._columns = name, cells
    # Those of text files, and of others, which have decimal points.
    self._of_text, self._of_others = (
        _distinct(
            column for path, column in self._columns.items()
            if path.endswith(bad_table.TEXT_FILES) == is_text
        )
        for is_text in (True, False)
    )
    self.others = functools.cache(self._others)
    self.of_thousands = functools.cache(self._of_thousands)

  @property
  def has_empty(self) -> bool:
    """Whether a cell is empty."""
    from pyarrow import compute  # pylint: disable=g-import-not-at-top

    return any(
        column.null_count or compute.any(compute.equal(column, "")).as_py()
        for column in self._columns.values()
    )

  def _others(self, decimal: str) -> pa.Array:
    """Returns the different cells that are no numbers with a decimal mark, but for empty ones."""
    import pyarrow as pa  # pylint: disable=g-import-not-at-top

    return pa.concat_arrays([
        _matching(cells, read_lib.PATTERNS["number"], read_lib.plain(cells, mark), False)
        for cells, mark in ((self._of_text, decimal), (self._of_others, "."))
    ])

  def field(
      self, decimal: str, role: str | None, is_public: bool
  ) -> tuple[schema_lib.Field | None, str]:
    """Returns the column's field, None without one, and what it was taken for."""
    if role is not None:
      levels = self._levels() if role in ("label", "client") else ()
      alike, about, enum = bad_table.alike(levels), f"the {role}", None
      if role == "label":
        about += f", of {len(levels)} classes ({_shown([*map(self.about, levels)])})"
        enum = None if alike else levels
      return schema_lib.Field(self.name, "string", enum=enum), f"{about}{alike}"
    num_texts, others = len(self._of_text) + len(self._of_others), self.others(decimal)
    if not num_texts:
      return None, "left out, since it is empty"
    hints = self._key_hint(len(others) == num_texts)
    if num_texts == 1 and self.has_empty:
      hints = "; it is constant, as its empty cells become the mean: write what they mean into them"
    mark = "," if decimal == "." else "."
    if self._is_number(decimal):
      about = f"a number{self._odd_hint(others.to_pylist(), mark)}{self._number_hint(decimal)}"
      return self._number(decimal, is_public), f"{about}{hints}"
    levels = self._levels()
    num_rows = sum(self._rows_with("", wanted=False).values())
    if _BOOLEANS.issuperset(levels):
      return schema_lib.Field(self.name, "boolean"), f"true or false{hints}"
    if len(levels) <= _MOST_LEVELS:
      if len(levels) > _MANY_LEVELS and num_rows < 2 * len(levels):
        hints += "; these may be free text, of one row each: exclude it"
      return (
          schema_lib.Field(self.name, "string", enum=levels),
          f"levels ({_shown([*map(self.about, levels)])}){hints}",
      )
    kind = "levels" if num_rows >= _LEAST_ROWS * len(levels) else "free text"
    about = f"{kind}, of {len(levels):,} different texts in {num_rows:,} rows"
    return None, f"left out: {about}, such as {reprlib.repr(min(others.to_pylist()))}{hints}"

  def _is_number(self, decimal: str) -> bool:
    """Returns whether half of the different cells or more are numbers, with either mark."""
    num_others = min(len(self.others(mark)) for mark in (".", ","))
    return 2 * num_others <= len(self._of_text) + len(self._of_others)

  def _levels(self) -> tuple[str, ...]:
    return encode.in_order({*self._of_text.to_pylist(), *self._of_others.to_pylist()})

  def _rows_with(self, text: str, wanted: bool = True) -> dict[str, int]:
    """Returns how many rows of each file have a text, or have another one, if there are any."""
    from pyarrow import compute  # pylint: disable=g-import-not-at-top

    is_wanted = compute.equal if wanted else compute.not_equal
    found = {
        path: compute.sum(is_wanted(column, text)).as_py() or 0
        for path, column in self._columns.items()
    }
    return {path: count for path, count in found.items() if count}

  def about(self, text: str, show: Callable[[str], str] = repr) -> str:
    """Returns a cell's text, how many rows have it, and in which files if not in all."""
    counts = self._rows_with(text)
    num_rows = sum(counts.values())
    shown = f"{num_rows:,} rows" if num_rows > 1 else "1 row"
    if len(counts) < len(self._columns):
      folder = os.path.commonpath([*self._columns])
      names = [os.path.relpath(path, folder) for path in counts]
      rest = len(names) - _MOST_FILES
      shown += f", only in {', '.join(names[:_MOST_FILES])}" + (f" and {rest} more" * (rest > 0))
    return f"{show(text)} ({shown})"

  def first(self, text: str) -> tuple[str, int]:
    """Returns the file and the row, from 0, of the first cell with a text."""
    from pyarrow import compute  # pylint: disable=g-import-not-at-top

    path = next(iter(self._rows_with(text)))
    return path, compute.index(self._columns[path], text).as_py()

  def alike_levels(self, decimal: str) -> list[list[str]]:
    """Returns the levels that look alike, each group with the most frequent one first."""
    if self._is_number(decimal):
      return []
    levels = self._levels()
    if len(levels) > _MOST_LEVELS or _BOOLEANS.issuperset(levels):
      return []
    groups: dict[Any, list[str]] = {}
    for text in sorted(levels, key=lambda text: -sum(self._rows_with(text).values())):
      groups.setdefault(bad_table.spelling(text), []).append(text)
    return [group for group in groups.values() if len(group) > 1]

  def _of_thousands(self, mark: str) -> str | None:
    """Returns a cell of text files if in all that have a mark it may be one of thousands."""
    numbers = _matching(read_lib.plain(self._of_text, mark), read_lib.PATTERNS["number"])
    with_mark = _matching(numbers, r"\.")
    if not len(with_mark) or len(with_mark) > len(_matching(numbers, _THOUSANDS)):
      return None
    return with_mark[0].as_py().replace(".", mark)

  def _odd_hint(self, others: Sequence[str], mark: str) -> str:
    """Returns what is said of the cells of a number that are none; "" if there are none."""
    if not others:
      return ""
    shown = []
    for text in sorted(others)[:_MOST_ODD]:
      num_rows = sum(self._rows_with(text).values())
      more = f" and {num_rows - 1:,} more" if num_rows > 1 else ""
      shown.append(f"{reprlib.repr(text)} ({bad_table.place(*self.first(text))}{more})")
    if len(others) > _MOST_ODD:
      shown.append(f"{len(others) - _MOST_ODD:,} other texts")
    why = "mend them, name them in missingValues, list all texts in an enum, or exclude it"
    if self.of_thousands(mark):
      why += f"; {mark!r} may be a mark of thousands in it, to be removed"
    elif any(re.fullmatch(read_lib.PATTERNS["number"], one.replace(mark, ".")) for one in others):
      why += f"; some are numbers with {mark!r} as the decimal mark"
    return f", but for {', '.join(shown)}; a run refuses these: {why}"

  def _key_hint(self, is_text: bool) -> str:
    """Returns a hint if every file has different integers, or texts, in this column."""
    if not all(len(column.unique()) == len(column) > 1 for column in self._columns.values()):
      return ""
    integer = read_lib.PATTERNS["integer"]
    cells = (self._of_text, self._of_others)
    if not is_text and any(len(_matching(one, integer)) < len(one) for one in cells):
      return ""
    return "; no cell occurs twice in a file, so it may be a key (--row_key) and no feature"

  def _number_hint(self, decimal: str) -> str:
    """Returns a hint if numbers look like codes, or as if their mark were one of thousands."""
    for cells in (self._of_text, self._of_others):
      if codes := _matching(cells, _CODE).to_pylist():
        return f"; {codes[0]!r} may be a code, and no number"
    if text := self.of_thousands(decimal):
      why = f"as {decimal!r} is the decimal mark: remove it if it is one of thousands"
      return f"; {text!r} is no whole number, {why}"
    return ""

  def _number(self, decimal: str, is_public: bool) -> schema_lib.Field:
    left_out = {"", None, *self.others(decimal).to_pylist()}
    columns = self._columns.values() if is_public else ()
    values = np.array([
        float(cell.replace(decimal, "."))
        for cell in itertools.chain(*(c.to_pylist() for c in columns)) if cell not in left_out
    ])
    if not len(values):
      return schema_lib.Field(self.name)
    deviation = float(values.std())
    return schema_lib.Field(
        self.name, center=float(values.mean()),
        # What rounding leaves of a constant column.
        scale=deviation if deviation > 1e-12 * abs(values.mean()) else 1.0,
    )
