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
      its first column does, and may run over the next columns.
  """
  lines = [header, *rows]
  widths = [max(map(len, column)) for column in zip(*lines)]

  def aligned(cells: Sequence[str]) -> str:
    first, *numbers = cells
    padded = [first.ljust(widths[0])]
    padded += [cell.rjust(width) for cell, width in zip(numbers, widths[1:])]
    return "  ".join(padded).rstrip()

  text = list(map(aligned, lines))
  if header_groups:
    text.insert(0, _group_line(header, header_groups, widths))
  return "\n".join(text)


def _group_line(
    header: Sequence[str], header_groups: Sequence[tuple[str, int]], widths: Sequence[int]
) -> str:
  line = ""
  column = 0
  for heading, span in header_groups:
    if heading:
      before = sum(widths[:column]) + 2 * column
      # The first column is aligned to the left, the others to the right.
      indent = widths[column] - len(header[column]) if column else 0
      line = line.ljust(before + indent) + heading
    column += span
  return line
