"""The lines of text tables, as cells, and what quotes among them swallow."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import re
from typing import Any, Iterable, Iterator, Sequence

from fl_clustering.tables import cells
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import packed_files
from fl_clustering.tables import problems
from fl_clustering.tables import written_numbers

# Tried in this order: a comma may also stand in a number or a text of the other kinds.
SEPARATORS = ("\t", ";", "|", ",")
# Spreadsheets begin a file with a byte order mark.
_UTF_8 = "utf-8-sig"
# They may also say in line 1 what stands between cells.
_SAYS_SEPARATOR = re.compile(r'"?sep=([\t ,;:|^~])"?\s*')
# What Windows writes without being asked for UTF-8.
ANSI = "cp1252"
# Old programs end a file with it.
_END_OF_FILE = "\x1a"
# Of a file's last bytes.
_MOST_AT_END = 64


class Undecodable(problems.BadTable):
  """A file's bytes are no text as it was read."""


class Bytes:
  """A file of bytes that Arrow reads, of which it says how many lines there are.

  It leaves out an `_END_OF_FILE`, but not of UTF-16, where that is half a character.
  """

  closed = False

  def __init__(self, file: Any, encoding: str | None):
    self.has_quotes = False
    self._is_wide = encoding is not None and codecs.lookup(encoding).name.startswith("utf-16")
    self._file = file
    self._held = b""
    self._num_ends = 0
    self._end = b""

  def read(self, size: int) -> bytes:
    """Returns the next bytes."""
    content = self._held + self._file.read(size - len(self._held))
    is_end = content.endswith(_END_OF_FILE.encode()) and not self._is_wide
    self._held = content[-1:] if is_end else b""
    content = content.removesuffix(self._held)
    self.has_quotes = self.has_quotes or b'"' in content
    self._num_ends += content.count(b"\n")
    self._end = (self._end + content)[-_MOST_AT_END:]
    return content

  def close(self) -> None:
    """Closes the file."""
    self._file.close()

  @property
  def num_lines(self) -> int:
    """How many lines the file has, without empty ones at its end, as far as they end in LF."""
    return self._num_ends - self._end[len(self._end.rstrip(b"\r\n")) :].count(b"\n") + 1


class _Lines:
  """The lines of a text file that may be of a table; the last one that came has `number`.

  A line that says what stands between cells is left out, unless any line may be a row.
  """

  def __init__(self, file: Iterable[str], head: columns_lib.Head):
    self.number = 0
    self._lines = iter(file)
    self._head = head

  def __iter__(self) -> _Lines:
    return self

  def __next__(self) -> str:
    while True:
      line = next(self._lines)
      self.number += 1
      is_comment = self._head.comment is not None and line.startswith(self._head.comment)
      if line.endswith(_END_OF_FILE) and not self._head.allows_any_cell:
        line = line.removesuffix(_END_OF_FILE)
        if not line:
          raise StopIteration
      if self.number == 1 and _SAYS_SEPARATOR.fullmatch(line) and not self._head.allows_any_cell:
        continue
      if self.number > self._head.skip_lines and not is_comment:
        return line


def open_text(head: columns_lib.Head, **options: Any) -> Any:
  content = packed_files.open_binary(head.path)
  is_utf_8 = head.encoding is None or codecs.lookup(head.encoding).name == "utf-8"
  return io.TextIOWrapper(content, encoding=_UTF_8 if is_utf_8 else head.encoding, **options)


def said_separator(head: columns_lib.Head) -> str | None:
  """Returns the separator that line 1 of a file names; None if it names none."""
  with (
      contextlib.suppress(UnicodeError, *packed_files.DAMAGED),
      open_text(head, errors="replace", newline="") as file,
  ):
    found = _SAYS_SEPARATOR.fullmatch(next(file, ""))
    return None if found is None else found[1]
  return None


def lines_of(head: columns_lib.Head) -> Iterator[tuple[int, list[str]]]:
  """Yields (line number, cells) of all lines that are not empty."""
  try:
    with open_text(head, newline="") as file:
      lines = _Lines(file, head)
      for line in csv.reader(lines, delimiter=head.separator):
        if line:
          yield lines.number, line
  except UnicodeError as e:
    if head.encoding in (None, ANSI):
      raise Undecodable(
          "it is no text in UTF-8, nor in cp1252", hints=("--encoding names another one",)
      ) from e
    raise Undecodable(f"it is no text in {head.encoding}, the encoding") from e
  except csv.Error as e:
    check_quotes(head)
    raise problems.BadTable(f"it can't be read as a table ({e})") from e
  except packed_files.DAMAGED as e:
    raise problems.BadTable(f"it can't be read as a table ({e})") from e


class _QuotedLines:
  """The lines that a quoted cell reaches over.

  Attributes:
    first: The number of the line where it begins.
  """

  def __init__(self, first: int, text: str, head: columns_lib.Head):
    """`text` is the first line, without the quote."""
    self.first = first
    self._head = head
    line = _cut(text, head.separator)
    self._numbers = [place for place, cell in enumerate(line) if is_like_a_number(cell)]
    self._num_lines = 1
    self._are_rows = len(line) == head.num_columns
    self._has_spaces = _has_spaces(line)
    self._is_any_whole = False

  def add(self, text: str) -> None:
    """Adds a further line, the last one without the quote that closes the cell."""
    self._num_lines += 1
    if self._are_rows:
      line = _cut(text, self._head.separator)
      is_text = _has_spaces(line) and not self._has_spaces
      is_wide = len(line) == self._head.num_columns
      self._are_rows = is_wide and not is_text and self._has_numbers(line)

  def _has_numbers(self, line: Sequence[str]) -> bool:
    filled = [line[place] for place in self._numbers if not cells.is_missing(line[place])]
    self._is_any_whole = self._is_any_whole or len(filled) == len(self._numbers)
    return all(map(is_like_a_number, filled))

  @property
  def are_rows(self) -> bool:
    """Whether all of them are like rows: with as many cells, and numbers in the same ones."""
    # In few lines, text may have as many separators by chance.
    is_sure = bool(self._numbers) or min(self._num_lines, self._head.num_columns) > 2
    return self._are_rows and self._is_any_whole and is_sure


def _has_spaces(line: Sequence[str]) -> bool:
  """Returns whether a space follows a separator, as in text."""
  return any(cell.startswith(" ") for cell in line[1:])


def is_like_a_number(cell: str) -> bool:
  return re.fullmatch(written_numbers.LIKE_A_NUMBER, cell.strip(' "')) is not None


def check_quotes(head: columns_lib.Head) -> None:
  """Raises `BadTable` if a quote opens a cell that seems to swallow rows, as no quote closes it.

  Cells with line breaks are like no rows, and a separator or the end of a line follows them.
  """
  separators = "".join(map(re.escape, head.separator if head.num_columns else SEPARATORS))
  inside = '[^"]*(?:""[^"]*)*'
  closing = re.compile(f'{inside}"(?!")')
  cell = f'"{inside}"(?!")[^{separators}]*|[^"{separators}][^{separators}]*'
  opening = re.compile(rf'(?:(?:{cell})?[{separators}])*"(?={inside}\Z)')
  # What most lines are, which is found soon.
  cell = f'(?:"[^"]*"|[^"{separators}]*)'
  closed = re.compile(rf"(?:{cell}[{separators}])*{cell}[\r\n]*")
  end = re.compile(rf" *([{separators}\r\n]|$)")
  opened: _QuotedLines | None = None
  with (
      contextlib.suppress(*packed_files.DAMAGED),
      open_text(head, errors="replace", newline="") as file,
  ):
    lines = _Lines(file, head)
    for text in lines:
      if opened is not None:
        problem = f"line {opened.first}: a quote opens a cell, and "
        found = closing.match(text)
        if found is None:
          opened.add(text)
          continue
        opened.add(text[: found.end() - 1] + text[found.end() :])
        text = text[found.end() :]
        if not end.match(text):
          raise problems.BadTable(
              f"{problem}line {lines.number} goes on after the quote that closes it"
          )
        if opened.are_rows:
          raise problems.BadTable(f"{problem}the lines up to {lines.number} in it look like rows")
        opened = None
      may_open = '"' in text and not closed.fullmatch(text)
      found = opening.match(text) if may_open else None
      if found is not None:
        opened = _QuotedLines(lines.number, text[: found.end() - 1] + text[found.end() :], head)
    if opened is not None and opened.first < lines.number:
      raise problems.BadTable(f"line {opened.first}: a quote opens a cell, and no quote closes it")


def _cut(text: str, separator: str) -> list[str]:
  """Returns the cells of a line that is read on its own."""
  try:
    return next(csv.reader([text], delimiter=separator), [])
  except csv.Error:  # A cell is too long.
    return [""]


def single_lines(head: columns_lib.Head) -> Iterator[list[str]]:
  """Yields the cells of every line that is not empty, each of which is read on its own."""
  try:
    with open_text(head, errors="replace") as file:
      for text in _Lines(file, head):
        line = _cut(text, head.separator)
        if line:
          yield line
  except packed_files.DAMAGED:  # Their words may show bytes of the file.
    kind = "zip" if head.path.lower().endswith(packed_files.ZIP) else "gzip"
    raise problems.BadTable(f"it is no {kind} file, or not all of one") from None
