"""The columns of files: their names, and what they are for, agreed on by all files.

Text files don't say whether line 1 has names: that is found by comparing all of them.
"""

from __future__ import annotations

import collections
import dataclasses
import re
import shlex
from typing import Sequence

from fl_clustering.tables import cells
from fl_clustering.tables import problems
from fl_clustering.tables import table_options

_MOST_SHOWN = 60
_SAY = ("--header=yes or --header=no says which",)

# Names of columns that number rows or people.
_LIKE_AN_ID = re.compile(
    r"(.*[_ .-])?(id|index|uuid|row|rownum|nr|mrn|unnamed: 0)|__index_level_\d+__|.*[a-z](Id|ID)|"
    r"(row|record|case|sample|person|people|patient|subject|participant|user|customer|client|visit)"
    r"[_ .-]?(id|no|nr|num|number|key|code|name)"
)
# Those that do so if the numbers in them all differ.
_MAY_BE_AN_ID = re.compile(
    r"(row|record|case|sample|person|patient|subject|participant|user|customer|visit|member|pupil|"
    r"student|employee|account|order|invoice|ticket|contract|policy)s?|"
    r".*(nr|no|num|nummer|number|key|code)\.?"
)
# Names of columns that say whose row it is.
_LIKE_A_CLIENT = re.compile(
    r"(client|site|hospital|clinic|center|centre|institution|school|branch)"
    r"([_ .-]?(id|no|nr|num|number|key|code|name))?"
)
# What stands in brackets at the end of a name, such as a unit.
_IN_BRACKETS = re.compile(r"\s*[(\[][^)\]]*[)\]]\s*$")
# What may be wrong if there is one client only.
SEVERAL_CLIENTS = (
    "--client_column says whose row it is, where a table holds the rows of several clients"
)


@dataclasses.dataclass(frozen=True)
class Head:
  """The columns of a file; for text files also how it is written.

  Attributes:
    names: The columns' names; None where the file has none, or until `with_names` has found out.
    first_line: The cells of a text file's first line that is not empty; None for arrays.
    line: The number of that line.
    has_header: Whether that line holds the names.
    is_even: Whether all first lines of a text file have as many cells, two or more.
    encoding: How its characters are written; None for UTF-8 as long as nothing else was found.
    other_encoding: How they are if they are no UTF-8.
    skip_lines: How many of its lines stand above the table.
    comment: What lines begin with that are left out, or None.
    allows_any_cell: Whether a cell may hold anything, and what is no number counts as missing.
      Every line of a text file is then a row, which is read on its own.
    skips_bad_lines: Whether lines with too few or too many cells are left out.
    bad_lines: The rows, counted from 0, that are such lines, as far as they were looked for.
    separators: The rows, counted from 0, of separators only that others follow, as far as they were
      read.
    words: How many of `cells.WORDS` columns of levels have, if any, likewise.
  """

  path: str
  num_columns: int
  names: tuple[str, ...] | None = None
  first_line: tuple[str, ...] | None = None
  line: int = 1
  has_header: bool = False
  is_even: bool = True
  separator: str = ","
  encoding: str | None = None
  other_encoding: str = "cp1252"
  skip_lines: int = 0
  comment: str | None = None
  style: cells.Style = cells.Style()
  allows_any_cell: bool = False
  skips_bad_lines: bool = False
  bad_lines: tuple[int, ...] = ()
  separators: tuple[int, ...] = ()
  words: tuple[tuple[str, int], ...] = ()

  @property
  def known_names(self) -> tuple[str, ...]:
    """The names, which have been found."""
    assert self.names is not None
    return self.names

  @property
  def known_line(self) -> tuple[str, ...]:
    """The first line of a text file."""
    assert self.first_line is not None
    return self.first_line


def _are_names(head: Head) -> list[bool]:
  """Returns for every cell of line 1 whether it is text."""
  return [
      cell != "" and not any(cells.is_number(cell, mark) for mark in head.style.decimals)
      for cell in head.known_line
  ]


def _has_numbers(head: Head) -> bool:
  """Returns whether a cell of line 1 is a number."""
  return sum(_are_names(head)) + head.known_line.count("") < head.num_columns


def _rows_among_names(heads: Sequence[Head]) -> list[Head]:
  """Returns the files whose line 1 has a number and no name, where several others share names."""
  with_numbers, lines = [], []
  for head in heads:
    if _has_numbers(head):
      with_numbers.append(head)
    else:
      lines.append(set(head.known_line))
  if len(lines) < 2 or any(line != lines[0] for line in lines):
    return []
  return [head for head in with_numbers if lines[0].isdisjoint(head.known_line)]


def _counts_up(line: Sequence[str]) -> bool:
  """Returns whether a line is 0,1,2... or the same after an empty cell, as pandas writes it."""
  numbers = line[1:] if line[0] == "" else line
  return list(numbers) == [str(i) for i in range(len(numbers))]


def _rise(line: Sequence[str]) -> bool:
  """Returns whether a line has three numbers or more, each larger than the one before it."""
  numbers = [float(cell.replace(",", ".")) for cell in line if cell]
  is_whole = len(numbers) == len(line) > 2
  return is_whole and all(one < other for one, other in zip(numbers, numbers[1:]))


def _is_header_of_numbers(heads: Sequence[Head]) -> bool:
  """Returns whether first lines of numbers are names; `BadTable` where nobody can know."""
  first, lines = heads[0].known_line, {head.known_line for head in heads}
  shared, count = collections.Counter(head.known_line for head in heads).most_common(1)[0]
  if len(lines) > 1 and 2 <= count >= len(heads) / 2 and _rise(shared):
    having, lacking = (
        next(head for head in heads if (head.known_line == shared) == has) for has in (True, False)
    )
    raise problems.BadTable(
        f"line {having.line}, {having.separator.join(shared)}, may be a row, or the columns' "
        f"names, which {lacking.path!r} lacks", having.path, _SAY,
    )
  is_row = len(lines) > 1 or len(set(first)) < len(first) or len(first) == 1
  if is_row or len(heads) == 1 and not _counts_up(first):
    return False
  if len(heads) > 1 and len(first) > 2 and _counts_up(first):
    return True
  raise problems.BadTable(
      f"line {heads[0].line}, {','.join(first)}, may be a row or the columns' names",
      heads[0].path, _SAY, header=table_options.YES,
  )


def _likely_header(heads: Sequence[Head]) -> str:
  """Returns the likelier of `YES` and `NO` where first lines have numbers and text."""
  first = heads[0].known_line
  # Names stand once, and other files have most of them, too.
  shared = set(first).intersection(*(head.known_line for head in heads))
  return table_options.YES if 2 * len(shared) > len(first) else table_options.NO


def _have_header(heads: Sequence[Head], header: str) -> bool:
  """Returns whether line 1 of all text files holds names.

  Raises:
    BadTable: If some have names and others don't, or it can't be known.
  """
  if header != table_options.AUTO:
    return header == table_options.YES
  rows = {head.path for head in _rows_among_names(heads)}
  without = [head for head in heads if head.path in rows or not any(_are_names(head))]
  if len(without) == len(heads):
    return _is_header_of_numbers(heads)
  if without:
    named = next(head for head in heads if head not in without)
    raise problems.BadTable(
        f"line {without[0].line} holds numbers, and that of {named.path!r} names; either all files "
        "have names or none", without[0].path,
    )
  # A row may hold text, but hardly the same one at all clients.
  if len(heads) > 1 and len({tuple(sorted(head.known_line)) for head in heads}) == 1:
    return True
  for head in heads:
    if _has_numbers(head):
      raise problems.BadTable(
          f"line {head.line}, {','.join(head.known_line)}, has numbers and text; it may be a row "
          "or the columns' names", head.path, _SAY, header=_likely_header(heads),
      )
  return True


def _check_all_are_tables(heads: Sequence[Head]) -> None:
  """Raises `BadTable` if a text file is like none of the others, such as a note for readers."""
  tables = [head for head in heads if head.is_even]
  known = {cell for head in tables for cell in head.names or head.first_line or ()}
  found = [
      problems.Finding(
          f"it looks like no table: line {head.line} is "
          f"{head.separator.join(head.known_line)[:_MOST_SHOWN]!r}, and no table has such columns",
          head.path, ("a folder must hold nothing but tables",),
      )
      for head in heads
      if not head.is_even and all(_are_names(head)) and known.isdisjoint(head.known_line)
  ]
  if tables and found:
    raise problems.BadTable.of(found)


def _with_names(head: Head, names: Sequence[str]) -> Head:
  """Returns a head with these names, and made-up ones where they are empty."""
  named = tuple(name or f"column_{i}" for i, name in enumerate(names, start=1))
  for i, name in enumerate(named):
    if name in named[:i]:
      raise problems.BadTable(f"line {head.line} names the column {name!r} twice", head.path)
  return dataclasses.replace(head, names=named)


def with_names(heads: Sequence[Head], header: str) -> list[Head]:
  """Returns the heads with names, in the same order.

  Raises:
    BadTable: If files with names stand beside files without, or it can't be known.
  """
  _check_all_are_tables(heads)
  texts = [head for head in heads if head.first_line is not None]
  has_header = bool(texts) and _have_header(texts, header)
  found = [
      head if head.first_line is None else dataclasses.replace(
          head, has_header=has_header, names=head.known_line if has_header else None
      )
      for head in heads
  ]
  named = [head for head in found if head.names is not None]
  empty = [head for head in named if not head.names]  # Empty files of private algorithms.
  if empty:
    names = next((head.names for head in named if head.names), None)
    if names is None:
      raise problems.BadTable("it is empty, and no file has the columns' names", empty[0].path)
    found = [
        dataclasses.replace(head, num_columns=len(names), names=names, first_line=names)
        if head in empty else head for head in found
    ]
  unnamed = [head for head in found if head.names is None]
  if named and unnamed:
    raise problems.BadTable(
        f"it has no column names, and {named[0].path!r} has; either all files have names or none",
        unnamed[0].path,
    )
  return [_with_names(head, head.names or [""] * head.num_columns) for head in found]


@dataclasses.dataclass(frozen=True)
class Columns:
  """The names of the columns that are used.

  Attributes:
    features: In the order of the first file.
    categories: Those of them that hold levels.
    roles: The other columns, by role; see `TableOptions.roles`.
    in_numbers: Those of levels or classes that are read as numbers all the same.
  """

  features: tuple[str, ...]
  categories: tuple[str, ...]
  roles: dict[str, str]
  in_numbers: tuple[str, ...] = ()

  @property
  def numbers(self) -> tuple[str, ...]:
    """The columns that hold numbers: features, and `in_numbers`."""
    known = (*self.categories, *self.roles.values())
    return (
        *(name for name in self.features if name not in self.categories),
        *(name for name in self.in_numbers if name in known),
    )

  @property
  def texts(self) -> tuple[str, ...]:
    """All other columns that are used."""
    numbers = self.numbers
    return tuple(
        name for name in (*self.categories, *self.roles.values()) if name not in numbers
    )


def check_known(heads: Sequence[Head], options: table_options.TableOptions) -> None:
  """Raises a ValueError if an option names a column that no file has."""
  known = {name for head in heads for name in head.known_names}
  asked = {
      "columns": options.columns or (), "exclude": options.exclude,
      "categories": options.categories, **{role: (name,) for role, name in options.roles.items()},
  }
  for argument, names in asked.items():
    for name in names:
      if name not in known:
        raise ValueError(
            f"`{argument}` must name columns of the tables, got {name!r}; {heads[0].path!r} has "
            f"{problems.listed(heads[0].known_names)}."
        )


def _alike(name: str) -> str:
  """Returns what names have in common that differ in case, punctuation or a unit in brackets."""
  return re.sub(r"[\W_]", "", _IN_BRACKETS.sub("", name.lower()) or name.lower())


def _check_same(
    heads: Sequence[Head], options: table_options.TableOptions, names: Sequence[str], owner: str,
    may_have_others: bool = False,
) -> None:
  """Raises `BadTable` unless every file has these columns, and no others if all are used.

  Args:
    owner: Who has these columns, in words.
    may_have_others: Whether others are no fault, but may be these by another name.
  """
  lacked: list[tuple[str, str]] = []
  further: list[tuple[str, str]] = []
  for head in heads:
    lacked += [(name, head.path) for name in names if name not in head.known_names]
    if options.columns is None:
      others = {*names, *options.exclude}
      further += [(name, head.path) for name in head.known_names if name not in others]
  alike = [
      (f"it has a column {other!r}, and {owner} has {name!r}", path)
      for name, path in lacked for other, of_path in further
      if path == of_path and _alike(name) == _alike(other)
  ]
  if alike:
    problem, path = alike[0]
    alike[0] = f"{problem}; all files must have the same names", path
    raise problems.BadTable.of([problems.Finding(*one) for one in alike])
  for name, path in lacked:
    if name in options.roles.values():
      having = (repr(head.path) for head in heads if name in head.known_names)
      raise problems.BadTable(f"it has no column {name!r}, and {next(having, owner)} has", path)
  found = [(f"it has no column {name!r}, and {owner} has", path) for name, path in lacked]
  if not may_have_others:
    found += [(f"it has a column {name!r}, and {owner} has none", path) for name, path in further]
  if found:
    left_out = tuple(dict.fromkeys(name for name, _ in (*lacked, *further)))
    texts = [text for text, path in found if path == found[0][1]]
    raise problems.BadTable(problems.first_of(texts), found[0][1], exclude=left_out)


def is_like_an_id(name: str) -> bool:
  """Returns whether a column of this name seems to number rows or people."""
  return any(_LIKE_AN_ID.fullmatch(one) for one in (name, name.lower()))


def may_be_an_id(name: str) -> bool:
  """Returns whether a column of this name numbers rows or people if its numbers all differ."""
  return is_like_an_id(name) or _MAY_BE_AN_ID.fullmatch(name.lower()) is not None


def _check_no_id(head: Head, features: Sequence[str]) -> None:
  """Raises `BadTable` if rows would be clustered by their numbers."""
  found = []
  for position, name in enumerate(head.known_names):
    # Where the other columns have names, one without holds what R and pandas number rows by.
    is_unnamed = head.has_header and not head.known_line[position]
    if name in features and (is_unnamed or is_like_an_id(name)):
      found.append((position + 1, name))
  if found:
    names = tuple(name for _, name in found)
    raise problems.BadTable(
        f"column {found[0][0]}, {names[0]!r}, looks like the rows' ids{problems.also(names[1:])}",
        head.path, (
            f"--id_column={shlex.quote(names[0])} names the rows by it instead",
            problems.LEAVES_OUT,
            "--columns, if there are no views, takes it as a feature",
        ), exclude=names,
    )


def check_no_clients(head: Head, options: table_options.TableOptions) -> None:
  """Raises `BadTable` if one table seems to say whose row it is, and no option is about that."""
  if options.client_column is not None or options.columns is not None:
    return
  others = {*options.roles.values(), *options.exclude, *options.categories}
  for position, name in enumerate(head.known_names):
    if name not in others and _LIKE_A_CLIENT.fullmatch(name.lower()):
      problem = f"column {position + 1}, {name!r}, looks like the clients' names"
      if options.allow_any_number:  # A row would say which clients there are.
        raise problems.BadTable(problem, head.path, (problems.LEAVES_OUT,), exclude=(name,))
      raise problems.BadTable(
          problem, head.path, (SEVERAL_CLIENTS, problems.LEAVES_OUT), client_column=name
      )


def agree(heads: Sequence[Head], options: table_options.TableOptions) -> Columns:
  """Returns the `Columns` that are used of all files.

  Raises:
    BadTable: If a file lacks a column, has one too many, or would give ids as a feature.
  """
  others = {*options.roles.values(), *options.exclude}
  features = options.columns
  if features is None:
    features = tuple(name for name in heads[0].known_names if name not in others)
  categories = tuple(name for name in features if name in options.categories)
  columns = Columns(features, categories, options.roles)
  used = (*features, *options.roles.values())
  _check_same(heads, options, used, repr(heads[0].path))
  if not features:
    raise problems.BadTable("no column is left for the features", heads[0].path)
  if options.columns is None:
    _check_no_id(heads[0], features)
  return columns


def check_later(
    heads: Sequence[Head], columns: Columns, options: table_options.TableOptions
) -> tuple[str, ...]:
  """Returns the columns of files that a model does not use, and was not told to leave out.

  Raises:
    BadTable: If a file lacks one that is a feature of the model.
  """
  needed = [*columns.features, *(options.client_column and [options.client_column] or ())]
  lacked = [head for head in heads if not set(needed) <= set(head.known_names)]
  _check_same(lacked, options, needed, "the model", may_have_others=True)
  if options.columns is not None:
    return ()
  used = {*columns.features, *columns.roles.values(), *options.exclude}
  return tuple(dict.fromkeys(
      name for head in heads for name in head.known_names if name not in used
  ))
