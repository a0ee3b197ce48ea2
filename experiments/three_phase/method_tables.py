"""Tables whose rows are methods: rows and columns, as text for a terminal and as HTML."""

import dataclasses
from typing import Any, Callable, Mapping, Sequence

from experiment_shell import html_page
from experiment_shell import scores
from experiment_shell import text_table


@dataclasses.dataclass(frozen=True)
class Column:
  """One column of a table whose rows are methods.

  Attributes:
    path: Keys that lead to the value within a method's part of the summary.
    text: From the value to its text.
    is_bold: From the value to whether it is bold; None if none is.
  """

  path: tuple[str, ...]
  heading: str
  text: Callable[[Any], str]
  is_bold: Callable[[Any], bool] | None = None


Group = tuple[str, Sequence[Column]]  # A heading, and the columns below it.


@dataclasses.dataclass(frozen=True)
class Row:
  """One method, or phase 1, with its part of the summary."""

  method: str
  label: str
  part: Mapping[str, Any]

  def value(self, column: Column) -> Any:
    """Returns the value in a column; None if it does not apply."""
    value: Any = self.part
    for key in column.path:
      if not isinstance(value, dict) or key not in value:
        return None
      value = value[key]
    return value

  def text(self, column: Column, absent: str = scores.ABSENT) -> str:
    """Returns the value in a column as text; `absent` if it does not apply."""
    value = self.value(column)
    return absent if value is None else column.text(value)


def applies(column: Column, rows: Sequence[Row]) -> bool:
  """Returns whether a row has a value in a column."""
  return any(row.value(column) is not None for row in rows)


def text_of(rows: Sequence[Row], text_groups: Sequence[Group]) -> str:
  """Returns a table for a terminal; columns without any value are left out."""
  groups = [
      (heading, [column for column in columns if applies(column, rows)])
      for heading, columns in text_groups
  ]
  columns = [column for _, of_group in groups for column in of_group]
  lines = [[row.label, *(row.text(column, "-") for column in columns)] for row in rows]
  header_groups = [("", 1), *((heading, len(of_group)) for heading, of_group in groups if of_group)]
  return text_table.text_table(
      ["method", *(column.heading for column in columns)], lines, header_groups
  )


def privacy_text(summary: Mapping[str, Any]) -> str:
  """Returns what of a private run is covered, in a few words; "" for one that is not private."""
  if "privacy" not in summary:
    return ""
  return f"epsilon {summary['privacy']['epsilon']:.3g} covers phase 1 only"


def caption_text(text: str, summary: Mapping[str, Any]) -> str:
  """Returns a caption that says, for a private run, what is covered."""
  return "; ".join(filter(None, (text, privacy_text(summary))))


def methods_table(
    rows: Sequence[Row], groups: Sequence[Group], caption: str, summary: Mapping[str, Any]
) -> html_page.Html:
  """Returns a table whose rows are methods; those without any value are left out."""
  columns = [column for _, of_group in groups for column in of_group]
  rows = [row for row in rows if any(applies(column, [row]) for column in columns)]

  def cell(row: Row, column: Column) -> str:
    shown, value = row.text(column), row.value(column)
    is_bold = column.is_bold is not None and value is not None and column.is_bold(value)
    return html_page.strong(shown) if is_bold else shown

  return html_page.table(
      ["method", *(column.heading for column in columns)],
      [[row.label, *(cell(row, column) for column in columns)] for row in rows],
      caption_text(caption, summary),
      header_groups=[("", 1), *((heading, len(of_group)) for heading, of_group in groups)],
  )
