"""Clients' rows as they stand in files, which are read when asked for."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import re
from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from fl_clustering.points import given_clients
from fl_clustering.tables import cells
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import number_columns
from fl_clustering.tables import problems
from fl_clustering.tables import reader
from fl_clustering.tables import table_format
from fl_clustering.tables import table_options
from fl_clustering.tables import text_files
from fl_clustering.tables import written_numbers


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
  """Some rows of a file: cells by column, and the rows' numbers, as `reader.read` returns them."""

  cells: Mapping[str, np.ndarray]
  numbers: np.ndarray

  def take(self, chosen: np.ndarray) -> Rows:
    """Returns the rows of a mask."""
    columns = {name: column[chosen] for name, column in self.cells.items()}
    return Rows(columns, self.numbers[chosen])

  def digest(self) -> bytes:
    """Returns a digest of the cells, whatever the order of the columns."""
    digest = hashlib.sha256()
    for name, column in sorted(self.cells.items()):
      digest.update(repr(name).encode())
      is_text = column.dtype == object
      digest.update(repr(column.tolist()).encode() if is_text else column.tobytes())
    return digest.digest()


def _thousandths(column: np.ndarray) -> np.ndarray:
  """Returns a column's numbers like 1.510, if it has no others but whole ones below 1,000."""
  if column.dtype == object:
    return np.zeros(0)
  values = column[np.isfinite(column)]
  parts = values[values % 1 != 0]
  has_others = np.any(np.abs(parts) < 1) or np.any(np.abs(values) >= 1000) or not np.allclose(
      1000 * parts, np.rint(1000 * parts), rtol=0, atol=1e-6
  )
  return np.zeros(0) if has_others else parts


def _depend_on_mark(labels: np.ndarray, head: columns_lib.Head) -> bool:
  """Returns whether all levels or labels are numbers, and some depend on a file's decimal mark."""
  if head.allows_any_cell or labels.dtype != object:
    return False
  found = set(labels) - {None}
  if head.first_line is None:
    # Where numbers have a type, a point in their text is a decimal one.
    is_open = any("," in label for label in found)
  else:
    is_open = not all(re.fullmatch(written_numbers.SURE, label) for label in found)
  return is_open and all(re.fullmatch(written_numbers.LIKE_A_NUMBER, label) for label in found)


def _names_of_numbers(labels: np.ndarray, head: columns_lib.Head) -> np.ndarray:
  """Returns levels or labels as text that says the same in all files, None where missing."""
  if labels.dtype != object:
    names = [None if np.isnan(label) else repr(label) for label in labels.tolist()]
    return np.array(names, object)
  is_text = head.first_line is not None and not head.allows_any_cell
  if not is_text or head.style.decimals[0] == "." and head.style.thousands is None:
    return labels
  # A comparison is a class of its own.
  style = dataclasses.replace(head.style, strips_units=False)
  numbers = {label: style.number_of(label) for label in set(labels) - {None}}
  return np.array([
      label if label is None or np.isnan(numbers[label]) else repr(numbers[label])
      for label in labels
  ], object)


class RowSources:
  """Every client's rows, which are read when asked for.

  Attributes:
    paths: The path of every client's file by client id, in the order of the clients.
    facts: What the cells that were read are like.
    bad_rows: Why rows can't be used, and so were left out, by their numbers, by file.
    doubts: By file, a number whose point is read as a decimal one, but may be another, in words.
  """

  def __init__(
      self, heads: Mapping[str, columns_lib.Head], columns: columns_lib.Columns,
      options: table_options.TableOptions, model: table_format.TableFormat | None = None,
      skip_bad_rows: bool = False,
      moments: Mapping[str, Sequence[table_options.Moments]] | None = None,
  ):
    """Reads the files that clients share.

    Args:
      heads: A mapping from client id to `Head`; with `client_column` from anything.
      model: That of the model that the files are for; what has a role in them may then be missing.
      skip_bad_rows: Whether rows that can't be used, or not by the model, are left out.
      moments: Those of the model's rows, by feature, as far as they are known.

    Raises:
      BadTable: If a file that clients share can't be used.
    """
    takes_split = options.label_column is not None and options.split_column is None
    self.facts = problems.ColumnFacts(takes_split and options.columns is None)
    self.bad_rows: dict[str, dict[int, str]] = {}
    self._model = model
    self._skips_bad_rows = skip_bad_rows
    self._moments = moments or {}
    self._heads = dict(heads)
    # In some files, levels and labels that are classes are read as numbers.
    self._columns = dict.fromkeys(heads, columns)
    self._options = options
    # Rows of private algorithms need no names.
    self._needed = {
        name for role, name in columns.roles.items()
        if role == "client_column"
        or model is None and (role != "id_column" or not options.allow_any_number)
    }
    if options.missing == table_options.ERROR and not options.allow_any_number:
      self._needed |= set(columns.features)
    # The files whose decimal points may stand between thousands, by their numbers.
    self._unclear: set[str] = set()
    self.doubts: dict[str, str] = {}
    self._shared: Rows | None = None
    if options.client_column is None:
      self.paths = {client_id: head.path for client_id, head in heads.items()}
    else:
      self.paths = self._share(options.client_column)

  def read(self, client_id: str) -> Rows:
    """Returns the `Rows` of a client; `BadTable` says what can't be used."""
    if self._shared is not None:
      owners = self._shared.cells[self._options.client_column or ""]
      return self._shared.take(owners == client_id)
    with problems.in_file(self.paths[client_id]):
      rows = self._known(self._read(client_id), self.paths[client_id])
      if not len(rows.numbers) and not self._options.allow_any_number:
        raise problems.BadTable("it has no rows")
    return rows

  def _read(self, key: str) -> Rows:
    head, table, numbers = self._read_columns(key)
    label = self._options.label_column or ""
    named = [name for name in (*self._columns[key].categories, label) if name in table]
    in_numbers = tuple(name for name in named if _depend_on_mark(table[name], head))
    if in_numbers:
      # Columns of numbers say together what a file's decimal mark is.
      self._columns[key] = dataclasses.replace(self._columns[key], in_numbers=in_numbers)
      self._heads[key] = dataclasses.replace(self._heads[key], words=head.words)
      head, table, numbers = self._read_columns(key)
    # What is found out of a file, such as its decimal mark, need not be found again.
    self._heads[key] = head
    if not head.allows_any_cell and head.first_line is not None and head.style.likely is None:
      # A model knows its levels and classes.
      known = () if self._model is None else self._columns[key].in_numbers
      names = [name for name in self._columns[key].numbers if name in table and name not in known]
      found = {name: _thousandths(table[name]) for name in names}
      # One column that can't have thousands says the file's decimal mark.
      if any(map(len, found.values())) and all(
          number_columns.may_be_thousands(parts, self._moments[name])
          for name, parts in found.items() if len(parts) and name in self._moments
      ):
        self._unclear.add(key)
    for name in named:
      table[name] = _names_of_numbers(table[name], head)
    absent = [name for name in self._columns[key].roles.values() if name not in table]
    return Rows({**table, **{name: np.full(len(numbers), None) for name in absent}}, numbers)

  def _read_columns(
      self, key: str
  ) -> tuple[columns_lib.Head, dict[str, np.ndarray], np.ndarray]:
    head, columns = self._heads[key], self._columns[key]
    kept = {role: name for role, name in columns.roles.items() if name in head.known_names}
    return reader.read(
        head, dataclasses.replace(columns, roles=kept), self._needed,
        self._options.allow_any_number, self.facts,
        self.bad_rows.setdefault(head.path, {}) if self._skips_bad_rows else None,
    )

  def _known(self, rows: Rows, path: str) -> Rows:
    """Returns rows without those that the model can't use, if they are to be left out."""
    if self._model is None or not self._skips_bad_rows:
      return rows
    bad = _unknown(rows, self._model)
    self.bad_rows[path].update(bad)
    known = rows.take(~np.isin(rows.numbers, list(bad)))
    if len(rows.numbers) and not len(known.numbers):
      raise problems.BadTable(f"it has no row that can be used: {next(iter(bad.values()))}")
    return known

  def _share(self, client_column: str) -> dict[str, str]:
    """Reads files with the rows of several clients, which stay in memory; returns `paths`."""
    files = {}
    with self.facts.settled(), problems.gathered() as part:
      for key, head in self._heads.items():
        with part(head.path), self.in_lines(head.path):
          files[head.path] = self._known(self._read(key), head.path)
          _check(files[head.path], self._options, self._model)
    names = next(iter(files.values())).cells
    joined = Rows(
        {name: np.concatenate([rows.cells[name] for rows in files.values()]) for name in names},
        np.concatenate([rows.numbers for rows in files.values()]),
    )
    if not len(joined.numbers):
      raise problems.BadTable("it has no rows", next(iter(files)))
    owners = joined.cells[client_column]
    files_of_rows = np.repeat(list(files), [len(rows.numbers) for rows in files.values()])
    self._shared = joined
    return given_clients.sorted_by_id({
        client_id: str(files_of_rows[owners == client_id][0]) for client_id in set(owners)
    })

  @contextlib.contextmanager
  def in_lines(self, path: str) -> Iterator[None]:
    """Names the line of a text file, where a `BadTable` begins with the number of a row."""
    head = next(head for head in self.heads if head.path == path)
    try:
      yield
    except problems.BadTable as e:
      if head.first_line is not None:
        e.findings = tuple(
            dataclasses.replace(one, problem=re.sub(
                "^row ([0-9]+)", lambda row: text_files.where(head, int(row[1]) - 1), one.problem
            )) for one in e.findings
        )
      raise

  @property
  def heads(self) -> tuple[columns_lib.Head, ...]:
    """The files' `Head`s, with what was found out by reading."""
    return tuple(self._heads.values())

  @property
  def decimal(self) -> str | None:
    """The decimal mark of all text files; None if they differ, or there are none."""
    found = {head.style.decimal for head in self.heads if head.style.decimal is not None}
    return found.pop() if len(found) == 1 else None

  def check_agreement(self) -> None:
    """Raises `BadTable` if files that can be read don't mean the same by their numbers."""
    if self._options.strip_units:
      self.facts.check_units()
    commas = [f"{head.path!r} has" for head in self.heads if head.style.decimal == ","]
    commas += ["the model's files have" for head in self.heads if head.style.likely == ","]
    if self._options.decimal is not None or self._options.thousands in cells.OTHER_DECIMAL:
      return
    why = f"as {commas[0]} decimal commas" if commas else "as whole numbers stand beside it"
    with problems.gathered() as part:
      for key, head in self._heads.items():
        if not commas and key not in self._unclear:
          continue
        with part(head.path):
          names = [n for n in self._columns[key].numbers if n in head.known_names]
          unclear, has_whole = reader.unclear_point(head, names)
          if unclear and not commas and (self._model is not None or not has_whole):
            self.doubts[head.path] = unclear
          elif unclear:
            raise problems.BadTable(
                f"{unclear} may have a decimal point or one between thousands, {why}",
                hints=(
                    "--decimal gives all files one decimal mark" if commas else
                    "--decimal=. or --thousands=. says which",
                ),
            )


def filled_rows(
    rows: Rows, columns: columns_lib.Columns, options: table_options.TableOptions
) -> list[int]:
  """Returns the numbers of a file's last rows that have no value in any feature and are filled in.

  They are none where a row has to name its client, or has one feature.
  """
  if (
      options.missing == table_options.ERROR or options.client_column is not None
      or len(columns.features) < 2
  ):
    return []
  is_empty = np.all([reader.is_missing(rows.cells[name]) for name in columns.features], axis=0)
  num_others = np.flatnonzero(~is_empty).max(initial=-1) + 1
  return rows.numbers[num_others:].tolist()


def of_filled_rows(places: Mapping[str, Sequence[int]]) -> tuple[str, ...]:
  """Returns a warning of `filled_rows`, by client, if there are some."""
  found = [
      f"{place} ({'row' if len(rows) == 1 else f'{len(rows):,} rows from'} {rows[0]})"
      for place, rows in places.items() if rows
  ]
  if not found:
    return ()
  return (
      "the last rows have no value in any feature, as a note below a table has none, and are filled "
      f"in: {problems.listed(found)}",
  )


def class_names(rows: Rows, options: table_options.TableOptions) -> list[Any]:
  """Returns the names of the classes of rows, None where a label is missing."""
  return [
      None if text is None else table_format.level_of(text)
      for text in rows.cells[options.label_column or ""]
  ]


def _unknown(rows: Rows, format_: table_format.TableFormat) -> dict[int, str]:
  """Returns what is wrong with rows that have an unknown level or class, by their numbers."""
  options, found = format_.options, {}
  known = {} if format_.encoding.ignores_unknown else dict(format_.encoding.levels)
  if options.label_column is not None:
    known[options.label_column] = format_.classes or ()
  for name, levels in known.items():
    for row, cell in zip(rows.numbers.tolist(), rows.cells[name]):
      if cell is not None and table_format.level_of(cell) not in levels:
        found[row] = table_format.no_level(name, row, cell, levels)
  return found


def _check(
    rows: Rows, options: table_options.TableOptions, model: table_format.TableFormat | None
) -> None:
  """Raises `BadTable` if a label or a split can't be used, or not by the model, or a level."""
  if model is not None:
    for problem in _unknown(rows, model).values():
      raise problems.BadTable(problem)
  if options.split_column is not None:
    is_test(rows, options.split_column)


def is_test(rows: Rows, split_column: str) -> np.ndarray:
  """Returns which rows are for testing; `BadTable` if one does not say."""
  splits = [(text or "").lower() for text in rows.cells[split_column]]
  for row, split in zip(rows.numbers, splits):
    if split not in table_options.TRAIN_OR_TEST:
      raise problems.BadTable(
          f"row {row}, column {split_column!r} must be train or test, got {split!r}"
      )
  return np.array([split == "test" for split in splits], bool)
