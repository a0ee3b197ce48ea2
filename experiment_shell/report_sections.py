"""What a report is made of, and its writer: the same sections in all experiments."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Callable, Iterable, Mapping, Sequence, TYPE_CHECKING

from experiment_shell import figure_style
from experiment_shell import html_page
from experiment_shell import output_folder

if TYPE_CHECKING:
  from matplotlib import figure as mpl_figure

  from experiment_shell import finished_run

_FIGURES = "figures"


@dataclasses.dataclass(frozen=True)
class Figure:
  """A figure of a report.

  Attributes:
    draw: A function that returns the figure, or None if it does not apply.
    caption: What to look at.
  """

  name: str
  draw: Callable[..., mpl_figure.Figure | None]
  alt: str
  caption: str


@dataclasses.dataclass(frozen=True)
class Report:
  """The page of a finished run, in the order of its parts.

  Attributes:
    verdict: The first sentences of the summary, in bold.
    findings: Its further paragraphs.
    warnings: Boxes for what the reader must not overlook: a title and paragraphs each.
    notes: Boxes for what the reader should know, from the title to the paragraphs.
    sections: From a heading to its blocks.  Sections without blocks are left out.
    settings: The block that `settings_section` returned.
    files: From the name of a file of the run to its content, see `files_section`.
  """

  title: str
  subtitle: str
  verdict: Sequence[str]
  findings: Sequence[str]
  warnings: Iterable[Sequence[str]]
  notes: Mapping[str, Sequence[str]]
  sections: Mapping[str, Sequence[html_page.Html]]
  settings: html_page.Html
  files: Mapping[str, str]


def write(run: finished_run.FinishedRun, report: Report) -> None:
  """Writes the page into the folder of the run: last, as its report makes a run a finished one."""
  html_page.write_page(
      run.join(output_folder.REPORT),
      report.title,
      report.subtitle,
      html_page.section(
          "Summary",
          *(html_page.paragraph(html_page.strong(sentence)) for sentence in report.verdict),
          *map(html_page.paragraph, report.findings),
          *(html_page.warning(*warning) for warning in report.warnings),
          *(html_page.note(title, *paragraphs) for title, paragraphs in report.notes.items()),
      ),
      *(html_page.section(title, *blocks) for title, blocks in report.sections.items() if blocks),
      report.settings,
      files_section(run.path, report.files),
  )


def write_figures(
    output_dir: str, figures: Iterable[Figure], *results: Any
) -> list[html_page.Html]:
  """Writes the figures that apply to the folder `figures/`; returns their page blocks.

  Args:
    *results: The arguments of each figure's `draw`.
  """
  folder = os.path.join(output_dir, _FIGURES)
  os.makedirs(folder, exist_ok=True)
  blocks = []
  with figure_style.style():
    for figure in figures:
      drawing = figure.draw(*results)
      if drawing is None:
        continue
      path = os.path.join(folder, figure.name)
      figure_style.save(drawing, path)
      blocks.append(html_page.figure(path, figure.alt, figure.caption))
  return blocks


def listed(names: Sequence[str]) -> str:
  """Returns names as words of a sentence."""
  *others, last = names
  return f"{', '.join(others)} and {last}" if others else last


def capitalized(text: str) -> str:
  """Returns a sentence or heading that begins with a capital letter."""
  return text[:1].upper() + text[1:]


def _shown(value: Any) -> Any:
  if value is None:
    return "not set"
  if isinstance(value, (list, tuple)):
    return ", ".join(map(str, value)) or "none"
  return value


def _name_value_table(values: Mapping[str, Any], caption: str) -> html_page.Html:
  rows = [[html_page.code(name), _shown(value)] for name, value in values.items()]
  return html_page.table(["name", "value"], rows, caption, text_columns=(1,))


def settings_section(
    summary: str, tables: Mapping[str, Mapping[str, Any]], *blocks: html_page.Html
) -> html_page.Html:
  """Returns the section of settings.

  Args:
    summary: The line that is shown while the tables are folded.
    tables: From a caption to names and values.
    *blocks: Blocks above the tables, which are always shown.
  """
  return html_page.section(
      "Settings",
      *blocks,
      html_page.details(
          summary, *(_name_value_table(values, caption) for caption, values in tables.items())
      ),
  )


def files_section(output_dir: str, descriptions: Mapping[str, str]) -> html_page.Html:
  """Returns the section of the files that a run wrote.

  Args:
    descriptions: From a file's name to its content.  Missing files are left out, except for the
      report, which is being written.
  """
  rows = [
      [html_page.code(name), what]
      for name, what in descriptions.items()
      if name == output_folder.REPORT or os.path.exists(os.path.join(output_dir, name))
  ]
  return html_page.section(
      "Files in this folder",
      html_page.table(["name", "what"], rows, "What this run wrote", text_columns=(1,)),
  )
