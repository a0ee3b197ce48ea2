"""A table as plain text for a terminal."""

from typing import Iterable, Sequence


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
  """Returns a table with aligned columns, without a final newline.

  Args:
    rows: Each as long as `header`; the first text names the row.
  """
  lines = [header, *rows]
  widths = [max(map(len, column)) for column in zip(*lines)]

  def aligned(cells: Sequence[str]) -> str:
    first, *numbers = cells
    padded = [first.ljust(widths[0])]
    padded += [cell.rjust(width) for cell, width in zip(numbers, widths[1:])]
    return "  ".join(padded).rstrip()

  return "\n".join(map(aligned, lines))
