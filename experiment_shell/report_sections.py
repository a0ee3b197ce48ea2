"""The sections that the reports of all experiments share: figures, settings, files."""

import dataclasses
import os
from typing import Callable

from experiment_shell import figure_style
from experiment_shell import html_page
from experiment_shell import output_folder

_FIGURES = "figures"


@dataclasses.dataclass(frozen=True)
class Figure:
  """A figure of a report.

  Attributes:
    name: Name of its PNG file.
    draw: A function that returns the figure, or None if it does not apply.
    alt: A description for readers who can't see it.
    caption: What to look at.
  """

  name: str
  draw: Callable
  alt: str
  caption: str


def write_figures(output_dir, figures, *results):
  """Writes the figures that apply to the folder `figures/`; returns their page blocks.

  Args:
    output_dir: Path of the run's output folder.
    figures: A sequence of `Figure`.
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


def warnings(finished):
  """Returns the blocks of the warnings that any report of a run shows.

  Args:
    finished: The `FinishedRun`.
  """
  return [html_page.warning(title, text) for title, text in finished.warnings]


def _shown(value):
  if value is None:
    return "not set"
  if isinstance(value, (list, tuple)):
    return ", ".join(map(str, value)) or "none"
  return value


def name_value_table(values, caption):
  """Returns a table of names and values.

  Args:
    values: A dict from name to value.
    caption: One line of text that says what the table shows.
  """
  rows = [[html_page.code(name), _shown(value)] for name, value in values.items()]
  return html_page.table(["name", "value"], rows, caption, text_columns=(1,))


def settings_section(summary, tables, *blocks):
  """Returns the section of settings.

  Args:
    summary: The line that is shown while the tables are folded.
    tables: A mapping from caption to a dict of names and values.
    *blocks: Blocks above the tables, which are always shown.
  """
  return html_page.section(
      "Settings",
      *blocks,
      html_page.details(
          summary,
          *(name_value_table(values, caption) for caption, values in tables.items()),
      ),
  )


def files_section(output_dir, descriptions):
  """Returns the section of the files that a run wrote.

  Args:
    output_dir: Path of the run's output folder.
    descriptions: A mapping from file name to its content.  Missing files are left out,
      except for the report, which is being written.
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
