"""The report of a run: frames as CSV, figures as PNG, and one page with all of it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import struct
import textwrap
from typing import Any, Callable, Iterator, Mapping

import pandas as pd

from clustering_basics import atomic_file
from experiment_shell import figure_style
from experiment_shell import finished_run
from experiment_shell import output_folder
from experiment_shell import report_page
from experiment_shell import tidy_experiment
from experiment_shell import tidy_tables

_ABSENT = "–"
_LETTERS = 58  # Of a title as wide as a figure.
_LEGEND_COLUMNS = 2
_LEGEND_ROW = 0.19  # Inches.


def _formatted(value: Any, form: str | Callable[[Any], str]) -> str:
  if value is None or value != value:
    return _ABSENT
  if isinstance(value, str):
    return value
  text = form(value) if callable(form) else form.format(value)
  return text if text.strip("-0.") else text.lstrip("-")  # Zero has no sign.


def _parts(table: tidy_experiment.Table, frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
  """Yields the tables of a frame: what each is of, and its cells as text."""
  forms = dict(table.columns) or {name: table.form for name in frame if name != table.by}
  groups = frame.groupby(table.by, sort=False) if table.by else [("", frame)]
  for of, rows in groups:
    rows = rows.dropna(axis="columns", how="all")
    yield of, pd.DataFrame({
        str(name).replace("_", " "): [_formatted(value, form) for value in rows[name]]
        for name, form in forms.items() if name in rows
    })


def _html(frame: pd.DataFrame) -> str:
  return frame.to_html(index=False, border=0, escape=True)


def _shown(
    table: tidy_experiment.Table, frame: pd.DataFrame, settings: Mapping[str, Any]
) -> dict[str, Any]:
  """Returns a table for the page."""
  return {
      "title": table.title.format_map(settings), "caption": table.caption, "folded": table.folded,
      "is_text": table.is_text,
      "parts": [(of, _html(part)) for of, part in _parts(table, frame)],
  }


def _text_table(title: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
  """Returns a table of text for the page."""
  frame = pd.DataFrame(rows).fillna(_ABSENT)
  return {"title": title, "is_text": True, "parts": [("", _html(frame))] if rows else []}


def _failures(
    experiment: tidy_experiment.Experiment, finished: finished_run.FinishedRun
) -> list[dict[str, Any]]:
  if not finished.has(tidy_experiment.FAILURES):
    return []
  kinds: tidy_tables.Columns = {**experiment.keys, tidy_experiment.LAST_WORDS: str}
  return tidy_tables.read(finished, tidy_experiment.FAILURES, kinds).to_dict("records")


def _warnings(
    experiment: tidy_experiment.Experiment, finished: finished_run.FinishedRun
) -> dict[str, list[dict[str, Any]]]:
  """Returns the rows of what the reader must not overlook, by title."""
  of_data = [{"warning": text} for text in finished.document.get("warnings", ())]
  before = finished.document.get("versions", {})
  others = [
      {"package": name, "at first": before.get(name), "resumed with": version}
      for versions in finished.document.get(output_folder.RESUMED_WITH, ())
      for name, version in versions.items() if version != before.get(name)
  ]
  return {
      "Warnings": of_data, "Failed cells": _failures(experiment, finished),
      "Resumed with other versions": others,
  }


def _plain(value: Any) -> str:
  if isinstance(value, list):
    return ", ".join(map(_plain, value)) if value else _ABSENT
  if isinstance(value, dict):
    return json.dumps(value, ensure_ascii=False)
  return _ABSENT if value is None else str(value) or '""'


def _name_values(values: Mapping[str, Any]) -> Iterator[dict[str, str]]:
  """Yields a row for every value; of a value with parts, one for each part."""
  for name, value in values.items():
    parts = {f"{name} {part}": one for part, one in value.items()} if isinstance(
        value, dict
    ) else {name: value}
    yield from ({"name": name, "value": _plain(one)} for name, one in parts.items())


def _draw(
    figure: tidy_experiment.Figure, frame: pd.DataFrame, settings: Mapping[str, Any], path: str
) -> dict[str, Any]:
  """Writes a figure to a file; returns it for the page."""
  groups = list(frame.groupby(figure.panels, sort=False)) if figure.panels else [("", frame)]
  columns = min(figure.columns, len(groups))
  num_rows = -(-len(groups) // columns)
  height = figure.height(frame) if callable(figure.height) else figure.height
  drawing = figure_style.new_figure(1.2 + height * num_rows)
  looks: dict[str, Any] = {}
  grid = drawing.add_gridspec(num_rows, columns)
  for place, (of, rows) in enumerate(groups):
    axes = drawing.add_subplot(grid[divmod(place, columns)])
    figure.draw(rows, axes)
    axes.set_title(of, loc="left", parse_math=False)
    if place % columns:
      axes.set_ylabel("")
    if place < len(groups) - columns:
      axes.set_xlabel("")
    looks.update(zip(*reversed(axes.get_legend_handles_labels())))
  if looks:
    # Two rows have room; the panels must not pay for further ones.
    more_rows = max(0, -(-len(looks) // _LEGEND_COLUMNS) - 2)
    drawing.set_figheight(drawing.get_figheight() + _LEGEND_ROW * more_rows)
    legend = drawing.legend(
        handles=list(looks.values()), loc="outside lower center", ncols=_LEGEND_COLUMNS
    )
    for text in legend.get_texts():
      text.set_parse_math(False)
  title = figure.title.format_map(settings)
  drawing.suptitle(
      textwrap.fill(title, _LETTERS), x=0.012, ha="left", fontsize=10.5, parse_math=False
  )
  figure_style.save(drawing, path)
  with open(path, "rb") as file:
    data = file.read()
  # A PNG file begins with its signature and the header chunk, which holds its size.
  width, height = struct.unpack(">II", data[16:24])
  return {
      "title": title, "caption": figure.caption, "width": width, "height": height,
      "data": base64.b64encode(data).decode("ascii"),
  }


def _headline(experiment: tidy_experiment.Experiment, frames: Mapping[str, pd.DataFrame]) -> str:
  for row in frames["headline"].to_dict("records"):
    return experiment.headlines[row.get("verdict", "")].format(**row)
  return ""


def _frames(
    experiment: tidy_experiment.Experiment, finished: finished_run.FinishedRun
) -> dict[str, pd.DataFrame]:
  tidy = tidy_experiment.tidy(experiment, finished)
  return dict(experiment.summarise(tidy, finished.document))


def write_page(
    experiment: tidy_experiment.Experiment, finished: finished_run.FinishedRun, headline: str,
    frames: Mapping[str, pd.DataFrame],
) -> None:
  """Writes the figures and, last, the page of a run."""
  settings = finished.settings
  contents = {**experiment.all_files(), **experiment.all_folders()}
  if not finished.has(tidy_experiment.FAILURES):
    del contents[tidy_experiment.JOURNAL]
  if experiment.figures:
    os.makedirs(finished.join(tidy_experiment.FIGURES), exist_ok=True)
  with figure_style.style():
    drawn = [
        _draw(one, frames[one.name], settings, finished.join(
            os.path.join(tidy_experiment.FIGURES, f"{one.name}.png")
        ))
        for one in experiment.figures if len(frames[one.name])
    ]
  atomic_file.write_text(finished.join(output_folder.REPORT), report_page.render(
      title=experiment.title,
      headline=headline,
      warnings=[
          _text_table(title, rows)
          for title, rows in _warnings(experiment, finished).items() if rows
      ],
      figures=drawn,
      tables=[
          _shown(one, frames[one.name], settings) for one in experiment.tables
          if len(frames[one.name])
      ],
      reading=experiment.reading,
      run=[
          _text_table("Settings", list(_name_values(settings))),
          *(
              _text_table(title, list(_name_values(finished.document[name])))
              for title, name in (("Data", "about"), ("Versions", "versions"))
              if finished.document.get(name)
          ),
          _text_table("Files", [
              {"name": name, "content": content} for name, content in contents.items()
              if finished.has(name) or name == output_folder.REPORT
          ]),
      ],
  ))


def report(
    experiment: tidy_experiment.Experiment, finished: finished_run.FinishedRun
) -> None:
  """Writes `summary.json`, the tables, the figures and, last, the page of a run."""
  frames = _frames(experiment, finished)
  headline = _headline(experiment, frames)
  os.makedirs(finished.join(tidy_experiment.TABLES), exist_ok=True)
  for name, frame in frames.items():
    if not len(frame):
      continue
    path = finished.join(os.path.join(tidy_experiment.TABLES, f"{name}.csv"))
    atomic_file.write_text(path, frame.to_csv(index=False))
  failed = _failures(experiment, finished)
  summary = {"headline": headline, "failed": len(failed)}
  atomic_file.write_text(finished.join(output_folder.SUMMARY), output_folder.json_text(summary))
  write_page(experiment, finished, headline, frames)
  if not failed:  # Only now, as whoever is killed before goes on with it.
    with contextlib.suppress(FileNotFoundError):
      os.remove(finished.join(tidy_experiment.JOURNAL))


def text(experiment: tidy_experiment.Experiment, finished: finished_run.FinishedRun) -> str:
  """Returns what a program prints of a run: the headline, and tables."""
  frames = _frames(experiment, finished)
  found = [_headline(experiment, frames)]
  for table in experiment.tables:
    if table.printed and len(frames[table.name]):
      found.append(table.title.format_map(finished.settings))
      for of, part in _parts(table, frames[table.name]):
        first, *others = part = part.rename(columns={part.columns[0]: of or part.columns[0]})
        if others:  # The first one is aligned to the left; names are two spaces apart.
          part = part.set_index(first).add_prefix(" ").rename_axis(index=None, columns=first)
        found.append(part.to_string(index=bool(others)))
  return "\n\n".join(filter(None, found))
