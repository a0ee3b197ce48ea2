"""What is known of a table's file before all of it is read."""

import dataclasses
from typing import Optional


@dataclasses.dataclass(frozen=True)
class Head:
  """The columns of a file; for text files also how it is written.

  Attributes:
    path: The file.
    num_columns: Its number of columns.
    names: The columns' names; None where the file has none, or until `headers.with_names`
      has found out.
    first_line: The cells of a text file's first line that is not empty; None for arrays.
    line: The number of that line.
    has_header: Whether that line holds the names.
    separator: What stands between a text file's cells.
    decimal: Its decimal mark.
    allows_any_cell: Whether a cell may hold anything, and what is no number counts as missing.
      Every line of a text file is then a row, which is read on its own.
  """

  path: str
  num_columns: int
  names: Optional[tuple[str, ...]] = None
  first_line: Optional[tuple[str, ...]] = None
  line: int = 1
  has_header: bool = False
  separator: str = ","
  decimal: str = "."
  allows_any_cell: bool = False
