"""Which files have a line of column names: found by comparing all of them."""

import dataclasses

from fl_clustering.tables import cells
from fl_clustering.tables import table_options

_SAY = ("--header=yes or --header=no says which",)


def _are_names(head):
  """Returns for every cell of line 1 whether it is text."""
  return [
      cell != "" and not cells.is_number(cell, head.decimal) for cell in head.first_line
  ]


def _counts_up(line):
  """Returns whether a line is 0,1,2... or the same after an empty cell, as pandas writes it."""
  numbers = line[1:] if line[0] == "" else line
  return list(numbers) == [str(i) for i in range(len(numbers))]


def _is_header_of_numbers(heads):
  """Returns whether first lines of numbers are names; `BadTable` where nobody can know."""
  first, lines = heads[0].first_line, {head.first_line for head in heads}
  is_row = len(lines) > 1 or len(set(first)) < len(first) or len(first) == 1
  if is_row or len(heads) == 1 and not _counts_up(first):
    return False
  if len(heads) > 1 and len(first) > 2 and _counts_up(first):
    return True
  raise cells.BadTable(
      f"line 1, {','.join(first)}, may be a row or the columns' names", heads[0].path, _SAY,
      header=table_options.YES,
  )


def _likely_header(heads):
  """Returns the likelier of `YES` and `NO` where first lines have numbers and text."""
  first = heads[0].first_line
  # Names stand once, and other files have most of them, too.
  shared = set(first).intersection(*(head.first_line for head in heads))
  return table_options.YES if 2 * len(shared) > len(first) else table_options.NO


def _have_header(heads, header):
  """Returns whether line 1 of all text files holds names.

  Args:
    heads: The `Head`s of all text files, at least one.
    header: One of `table_options.HEADERS`.

  Raises:
    BadTable: If some have names and others don't, or it can't be known.
  """
  if header != table_options.AUTO:
    return header == table_options.YES
  without = [head for head in heads if not any(_are_names(head))]
  if len(without) == len(heads):
    return _is_header_of_numbers(heads)
  if without:
    named = next(head for head in heads if head not in without)
    raise cells.BadTable(
        f"line 1 holds numbers, and that of {named.path!r} names; either all files have names "
        "or none", without[0].path,
    )
  # A row may hold text, but hardly the same one at all clients.
  if len(heads) > 1 and len({tuple(sorted(head.first_line)) for head in heads}) == 1:
    return True
  for head in heads:
    if sum(_are_names(head)) + head.first_line.count("") < head.num_columns:
      raise cells.BadTable(
          f"line 1, {','.join(head.first_line)}, has numbers and text; it may be a row or the "
          "columns' names", head.path, _SAY, header=_likely_header(heads),
      )
  return True


def _with_names(head, names):
  """Returns a head with these names, and made-up ones where they are empty."""
  named = tuple(name or f"column_{i}" for i, name in enumerate(names, start=1))
  for i, name in enumerate(named):
    if name in named[:i]:
      raise cells.BadTable(f"line 1 names the column {name!r} twice", head.path)
  return dataclasses.replace(head, names=named)


def with_names(heads, header):
  """Returns the heads with names, in the same order.

  Args:
    heads: The `Head`s of all files.
    header: One of `table_options.HEADERS`.

  Raises:
    BadTable: If files with names stand beside files without, or it can't be known.
  """
  texts = [head for head in heads if head.first_line is not None]
  has_header = bool(texts) and _have_header(texts, header)
  found = [
      head if head.first_line is None else dataclasses.replace(
          head, has_header=has_header, names=head.first_line if has_header else None
      )
      for head in heads
  ]
  named = [head for head in found if head.names is not None]
  empty = [head for head in named if not head.names]  # Empty files of private algorithms.
  if empty:
    names = next((head.names for head in named if head.names), None)
    if names is None:
      raise cells.BadTable("it is empty, and no file has the columns' names", empty[0].path)
    found = [
        dataclasses.replace(head, num_columns=len(names), names=names, first_line=names)
        if head in empty else head for head in found
    ]
  unnamed = [head for head in found if head.names is None]
  if named and unnamed:
    raise cells.BadTable(
        f"it has no column names, and {named[0].path!r} has; either all files have names or none",
        unnamed[0].path,
    )
  return [_with_names(head, head.names or [""] * head.num_columns) for head in found]
