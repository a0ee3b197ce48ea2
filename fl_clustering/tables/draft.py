"""A first schema of a folder, for a person to read and edit: the only guesses about cells.

Every rule is one sentence.  The delimiter is the comma, semicolon, tab or bar of which the first
text file's first line has most.  The decimal mark is the one with which more cells of text files
are numbers, and not the delimiter.  A column whose every cell, but the empty ones, is a number is one; a column with at most 20 different
texts has levels; every other column is left out.  With an empty cell in a feature, missing cells
become the mean.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

import numpy as np

from clustering_basics import validate
from fl_clustering.tables import clients as clients_lib
from fl_clustering.tables import encode
from fl_clustering.tables import read as read_lib
from fl_clustering.tables import schema as schema_lib

_MOST_LEVELS = 20
_DELIMITERS = ",;\t|"


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
    ValueError: If the folder can't be used, or does not have these columns.
    BadTable: If a file can't be used.
  """
  paths = clients_lib.files(directory)
  delimiter = _delimiter(paths.values())
  tables = {path: read_lib.texts(path, delimiter) for path in paths.values()}
  first, *others = tables.values()
  names = [name for name in first if all(name in table for table in others)]
  roles: dict[str, Any] = {"label": label, "client": client, "split": split, "key": key}
  for argument, given in (*roles.items(), *(("exclude", name) for name in exclude)):
    if given is not None and given not in names:
      raise validate.error(argument, f"be a column of all files, {names}", given)
  lines = [
      f"{name}: left out, since a file lacks it" for table in tables.values() for name in table
      if name not in names
  ]
  columns = {name: _Column(name, tables) for name in names if name not in exclude}
  decimal = "."
  if delimiter != ",":
    decimal = max(".,", key=lambda mark: sum(one.num_numbers(mark) for one in columns.values()))
  fields, missing = [], False
  for name, column in columns.items():
    role = next((role for role, given in roles.items() if given == name), None)
    field, about = column.field(decimal, role, is_public)
    lines.append(f"{name}: {about}")
    if field is not None:
      fields.append(field)
      missing |= role is None and column.has_empty
  schema = schema_lib.Schema(
      tuple(fields), **roles, missing="mean" if missing else "error", delimiter=delimiter,
      decimal=decimal,
  )
  return Draft(schema, tuple(dict.fromkeys(lines)))


def _delimiter(paths: Iterable[str]) -> str:
  """Returns what stands between the cells of the first text file."""
  path = next((path for path in paths if not path.endswith(read_lib.PARQUET)), None)
  if path is None:
    return ","
  line = read_lib.first_line(path)
  return max(_DELIMITERS, key=line.count)


def _is_number(text: str, decimal: str) -> bool:
  if decimal != ".":
    text = text.replace(".", "x").replace(decimal, ".")
  return re.fullmatch(read_lib.PATTERNS["number"], text.strip(" \t")) is not None


class _Column:
  """The cells of a column, as text."""

  def __init__(
      self, name: str, tables: Mapping[str, Mapping[str, Sequence[str | None]]]
  ) -> None:
    self._name = name
    self._cells = {path: [cell or "" for cell in table[name]] for path, table in tables.items()}
    self._of_text, self._of_parquet = (
        {
            cell for path, cells in self._cells.items() for cell in cells
            if path.endswith(read_lib.PARQUET) == is_parquet
        }
        for is_parquet in (False, True)
    )
    self.has_empty = "" in self._of_text | self._of_parquet
    self._texts = (self._of_text | self._of_parquet) - {""}

  def num_numbers(self, decimal: str) -> int:
    """Returns how many different cells of text files are numbers with a decimal mark."""
    return sum(_is_number(text, decimal) for text in self._of_text)

  def _others(self, decimal: str) -> set[str]:
    """Returns the cells that are no numbers; Parquet files have decimal points."""
    return {
        text for texts, mark in ((self._of_text, decimal), (self._of_parquet, "."))
        for text in texts if text and not _is_number(text, mark)
    }

  def field(
      self, decimal: str, role: str | None, is_public: bool
  ) -> tuple[schema_lib.Field | None, str]:
    """Returns the column's field, None without one, and what it was taken for."""
    if role == "label":
      return self._with_levels(), f"the label, of {len(self._texts)} classes"
    if role is not None:
      return schema_lib.Field(self._name, "string"), f"the {role}"
    if not self._texts:
      return None, "left out, since it is empty"
    about, others = "", self._others(decimal)
    if self._may_be_key(others):
      about = "; no cell occurs twice in a file, so it may be a key (--row_key) and no feature"
    if not others:
      return self._number(decimal, is_public), f"a number{about}"
    if len(self._texts) <= _MOST_LEVELS:
      field = self._with_levels()
      return field, f"levels ({', '.join(field.enum or ())}){about}"
    return None, f"left out, since {min(others)!r} is not a number{about}"

  def _with_levels(self) -> schema_lib.Field:
    levels = encode.in_order(self._texts)
    return schema_lib.Field(self._name, "string", enum=levels)

  def _may_be_key(self, others: set[str]) -> bool:
    """Returns whether every file has different integers, or texts, in this column."""
    if not all(len(set(cells)) == len(cells) > 1 for cells in self._cells.values()):
      return False
    pattern = re.compile(read_lib.PATTERNS["integer"])
    return others == self._texts or all(map(pattern.fullmatch, self._texts))

  def _number(self, decimal: str, is_public: bool) -> schema_lib.Field:
    if not is_public:
      return schema_lib.Field(self._name)
    values = np.array([
        float(cell.replace(decimal, ".")) for cells in self._cells.values() for cell in cells if cell
    ])
    deviation = float(values.std())
    return schema_lib.Field(
        self._name, center=float(values.mean()),
        # What rounding leaves of a constant column.
        scale=deviation if deviation > 1e-12 * abs(values.mean()) else 1.0,
    )
