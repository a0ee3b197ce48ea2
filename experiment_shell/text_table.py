"""A table as plain text for a terminal."""

from typing import Iterable, Sequence


def text_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    header_groups: Sequence[tuple[str, int]] = (),
) -> str:
  """Returns a table with aligned columns, without a final newline.

  Args:
    rows: Each as long as `header`; the first text names the row.
    header_groups: Pairs (heading, number of columns) for a line above the header, as for
      `html_page.table`.  Together they span all columns.  A heading starts where that of
      its first column does.  Where it is long, the next heading's columns stand further to the
      right.
  """
  lines = [header, *rows]
  widths = [max(map(len, column)) for column in zip(*lines)]
  text = [_group_line(header, header_groups, widths)] if header_groups else []

  def aligned(cells: Sequence[str]) -> str:
    first, *numbers = cells
    padded = [first.ljust(widths[0])]
    padded += [cell.rjust(width) for cell, width in zip(numbers, widths[1:])]
    return "  ".join(padded).rstrip()

  return "\n".join([*text, *map(aligned, lines)])


def _group_line(
    header: Sequence[str], header_groups: Sequence[tuple[str, int]], widths: list[int]
) -> str:
  """Returns the line of headings of groups, and widens columns that these don't fit above."""
  line = ""
  column = 0
  for heading, span in header_groups:
    if heading:
      before = sum(widths[:column]) + 2 * column
      # The first column is aligned to the left, the others to the right.
      indent = widths[column] - len(header[column]) if column else 0
      missing = len(line) + 2 - before - indent if line else 0
      if missing > 0:
        widths[column] += missing
        indent += missing
      line = line.ljust(before + indent) + heading
    column += span
  return line
