"""An experiment: three functions and two lists over one tidy table.

  cells -> measure -> results.csv -> summarise -> tables and figures -> report.html

`run` measures, and `tidy_report.report` draws, from the files of a run alone.  `program.main` does both.
"""

import contextlib
import dataclasses
import json
import os
from typing import Any, Callable, Generator, Iterable, Mapping, Sequence

import tqdm

from experiment_shell import cell_processes
from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import tidy_tables

RESULTS = "results"
# The cells that failed, with their last words; there is no such file where all is well.
FAILURES, LAST_WORDS = "failures.csv", "last words"
# What was measured; it is there until all cells are.
JOURNAL = "cells.jsonl"
FIGURES, TABLES = "figures", "tables"


@dataclasses.dataclass(frozen=True, eq=False)
class Inputs:
  """What a run measures with, apart from its settings.

  Attributes:
    data: For `cells` and `measure`.
    identity: What `config.json` says of it, and what a resumed run must find again: by the name of
      a part, a dict of its facts.
    about: What `config.json` says of it beside that.
    warnings: What the reader of the report must not overlook.
    lines: What the program prints of it.
    processes: If given, cells are measured in such processes, also one at a time.
  """

  data: Any = None
  identity: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  about: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  warnings: tuple[str, ...] = ()
  lines: tuple[str, ...] = ()
  processes: cell_processes.Processes | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
  """What `measure` knows beside a cell's keys; its folder is for what is no number."""

  config: Any
  data: Any
  folder: str
  is_resumed: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
  """A table of a report.

  Attributes:
    name: Of the frame that `summarise` returned.  Without rows, there is no table.
    title: With the names of settings in braces.
    columns: The columns that are shown, with the formats of numbers, or functions that make their
      texts; all by default.
    form: The format of numbers where all columns are shown.
    by: The column for whose values there is a table each.
    is_text: Whether cells are aligned to the left.
    folded: Whether the reader must open it.
    printed: Whether the program prints it at the end.
  """

  name: str
  title: str
  caption: str
  columns: Mapping[str, str | Callable[[Any], str]] = dataclasses.field(default_factory=dict)
  form: str = "{}"
  by: str | None = None
  is_text: bool = False
  folded: bool = False
  printed: bool = False


@dataclasses.dataclass(frozen=True)
class Figure:
  """A figure of a report.

  Attributes:
    name: Of the file, and of the frame that `summarise` returned.  Without rows, it is not drawn.
    title: With the names of settings in braces.
    draw: Draws a frame.  The labels of what it draws make the legend.
    panels: The column for whose values there is a panel each.
    columns: How many panels there are in a row.
    height: Of a row of panels, in inches; or a function of the frame that returns it.
  """

  name: str
  title: str
  caption: str
  draw: Callable[..., None]
  panels: str | None = None
  columns: int = 2
  height: float | Callable[[Any], float] = 2.2


@dataclasses.dataclass(frozen=True, eq=False)
class Experiment:
  """What is specific to an experiment.

  Attributes:
    name: Its name in `config.json`, and that of the default output folder.
    keys: The columns that identify a cell, with what reads them from text: `str`, `int`, `float`.
    load: A function (config, stack, **options) that returns the `Inputs`; ValueError if they don't
      fit the settings.  The stack closes what it opens, and options are what changes no number,
      such as paths.
    cells: A function (config, data) that returns what is measured, as dicts of the keys.
    measure: A function (run, **cell) that returns, for each name in `tidy`, rows: dicts of its
      columns, `metric` and `value`.  It must not depend on other cells, but see `num_first`.
    summarise: A function of the tidy tables by name, and `config.json`, that returns frames by
      name.  That called "headline" has one row or none.
    headlines: By the headline's verdict, texts with the names of its columns in braces; one that
      has no verdict is by "".
    reading: Paragraphs on how to read the report.
    tidy: The tidy tables, with their columns beside the keys.
    optional: The tidy tables that a run writes, and `summarise` gets, only with rows.
    files: Further files that `measure` writes, and what is in them.
    folders: Further folders that `measure` writes, and what is in them.
    read: Further tables that `summarise` gets, with their columns.  With "profiles" and its
      columns, for example, `summarise` gets profiles.csv beside the tidy tables.  It gets no table
      that the run has not written.  Where only a run's data say which columns a table has, its
      columns are None here.
    finish: A function (run, what `summarise` gets first) that writes what follows from all cells,
      such as a model, when all are measured, and before when the first ones are.  A resumed run
      may call it again.
    num_first: A function of the settings that returns how many of the first cells are measured
      before the others, which may use what `finish` makes of these.
    charged_in: A function of the settings.  For a run that spends a privacy budget it returns the
      file without which the run is not resumed, such as `JOURNAL`; such a run is never overwritten.
      For other runs it returns None.
    versions_of: The packages whose versions `config.json` states.
    failures: The exceptions that fail a cell, while the others go on; a process that dies is one.
    rechecks_finished: Whether the inputs of a finished run are loaded and checked too.
  """

  name: str
  title: str
  keys: tidy_tables.Columns
  load: Callable[..., Inputs]
  cells: Callable[[Any, Any], Sequence[Mapping[str, Any]]]
  measure: Callable[..., Mapping[str, Iterable[Mapping[str, Any]]]]
  summarise: Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]
  headlines: Mapping[str, str]
  tables: Sequence[Table]
  figures: Sequence[Figure]
  reading: Sequence[str]
  tidy: Mapping[str, tidy_tables.Columns] = dataclasses.field(
      default_factory=lambda: {RESULTS: {}}
  )
  optional: tuple[str, ...] = ()
  files: Mapping[str, str] = dataclasses.field(default_factory=dict)
  folders: Mapping[str, str] = dataclasses.field(default_factory=dict)
  read: Mapping[str, tidy_tables.Columns | None] = dataclasses.field(default_factory=dict)
  finish: Callable[[Run, Mapping[str, Any]], None] | None = None
  num_first: Callable[[Any], int] = lambda config: 0
  charged_in: Callable[[Any], str | None] = lambda config: None
  versions_of: tuple[str, ...] = ()
  failures: tuple[type[Exception], ...] = ()
  rechecks_finished: bool = False

  @property
  def columns(self) -> dict[str, tidy_tables.Columns]:
    """All columns of every tidy table."""
    ends = {tidy_tables.METRIC: str, tidy_tables.VALUE: float}
    return {name: {**self.keys, **further, **ends} for name, further in self.tidy.items()}

  def all_files(self) -> dict[str, str]:
    """Returns the files that a run leaves, and what is in them."""
    return {
        output_folder.REPORT: "figures, tables and settings on one page",
        output_folder.SUMMARY: "the headline, and how many cells failed",
        finished_run.CONFIG: "settings, data, versions",
        **{
            f"{name}.csv": f"a row for every number; columns {', '.join(columns)}"
            for name, columns in self.columns.items()
        },
        FAILURES: "the cells that failed, and their last words; --resume tries them again",
        JOURNAL: "what was measured so far, until all is",
        **self.files,
    }

  def all_folders(self) -> dict[str, str]:
    """Returns the folders that a run leaves, and what is in them."""
    return {FIGURES: "the figures as PNG", TABLES: "what the page shows, as CSV", **self.folders}


def check_same_inputs(
    place: output_folder.OutputFolder, recorded: Mapping[str, Any], identity: Mapping[str, Any]
) -> None:
  """Raises a ValueError unless the run to resume had the same inputs."""
  now = json.loads(output_folder.json_text(identity))  # Tuples are lists there.
  try:
    before = recorded["inputs"]
    changed = [
        (part, name) for part in {**before, **now}
        for name in {**before.get(part, {}), **now.get(part, {})}
        if before.get(part, {}).get(name) != now.get(part, {}).get(name)
    ]
  except (ValueError, TypeError, AttributeError) as e:
    raise place.damaged(e) from e
  for part, name in changed:
    raise ValueError(
        f"`output_dir` must hold a run with the same {part} as there are now, to be resumed, got "
        f"another {name}."
    )


def _measure_part(
    journal: tidy_tables.Journal, bar: tqdm.tqdm, left: Sequence[Mapping[str, Any]],
    outcomes: Generator[cell_processes.Outcome, None, None],
) -> list[list[Any]]:
  """Adds the cells that are measured to the journal; returns rows of those that failed."""
  failures = []
  with contextlib.closing(outcomes):
    for cell, found in outcomes:
      bar.set_postfix_str(" ".join(map(str, cell.values())), refresh=False)
      if isinstance(found, Exception):
        words = " ".join(str(found).split())
        failures.append((left.index(cell), [*cell.values(), words]))
      else:
        journal.add(cell, found)
      bar.update()
  return [row for _, row in sorted(failures)]  # Whichever failed first.


def _measure(
    experiment: Experiment, run_: Run, place: output_folder.OutputFolder, jobs: int,
    processes: cell_processes.Processes | None, client: Any,
) -> None:
  """Measures the cells that are not measured, and writes the tables."""
  cells = experiment.cells(run_.config, run_.data)
  journal = tidy_tables.Journal(place.join(JOURNAL), cells, experiment.columns)
  num_first = experiment.num_first(run_.config)
  with tqdm.tqdm(
      total=len(cells), initial=len(cells) - len(journal.left), unit="cell",
      disable=len(cells) == 1,  # What measures it shows how far it is.
  ) as bar:
    for part in (cells[:num_first], cells[num_first:]) if num_first else (cells,):
      left = [cell for cell in journal.left if cell in part]
      failures = _measure_part(journal, bar, left, cell_processes.outcomes(
          experiment.measure, run_, left, experiment.failures, jobs, processes, client
      ))
      journal.write_tables(place, experiment.optional)
      if failures:
        header = [*experiment.keys, LAST_WORDS]
        place.write_text(FAILURES, output_folder.csv_text(header, failures))
        return
      with contextlib.suppress(FileNotFoundError):
        os.remove(place.join(FAILURES))
      if experiment.finish is not None:
        experiment.finish(run_, tidy(experiment, finished_run.FinishedRun(place.path)))


def run(
    experiment: Experiment, config: Any, folder: str, *, resume: bool = False,
    overwrite: bool = False, jobs: int = 1, client: Any = None, **options: Any,
) -> Any:
  """Measures, and returns the table of results as a `pandas.DataFrame`.

  Args:
    config: The settings, with a method `to_json`.
    folder: The output folder; empty or new, unless the run in it is resumed or overwritten.
    jobs: How many cells are measured at once, each in a process of its own; with 1, in this one
      where `Inputs.processes` is not given.
    client: If given, what `cell_processes.connected` returned; the workers of its cluster measure.
    **options: Those of `experiment.load`.
  """
  with contextlib.ExitStack() as stack:
    with launch.input_errors():
      place = output_folder.OutputFolder(
          folder, resume, overwrite, experiment.all_files(), tuple(experiment.all_folders())
      )
      place.check_same_config(config.to_json(), experiment.name)
      stack.callback(place.close)
      is_finished = place.is_finished and not os.path.exists(place.join(JOURNAL))
      if not is_finished or experiment.rechecks_finished:
        inputs = experiment.load(config, stack, **options)
        if place.recorded is not None:
          check_same_inputs(place, place.recorded, inputs.identity)
      if is_finished:
        print(f"this run is finished: {place.path}")
        return _results(experiment, place.path)
      place.start({
          "experiment": experiment.name,
          "config": config.to_json(),
          "inputs": inputs.identity,
          "about": inputs.about,
          "warnings": inputs.warnings,
          "versions": output_folder.versions(experiment.versions_of),
      }, experiment.charged_in(config))
    print(*inputs.lines, f"results: {place.path}", sep="\n")
    run_ = Run(config, inputs.data, place.path, place.recorded is not None)
    with launch.run_errors(place.path, *experiment.failures):
      _measure(experiment, run_, place, jobs, inputs.processes, client)
  return _results(experiment, place.path)


def tidy(experiment: Experiment, finished: finished_run.FinishedRun) -> dict[str, Any]:
  """Returns the tables of a run by name, the tidy ones and those that `Experiment.read` names.

  Looking up a table that is not there raises a `DamagedFile`.
  """
  may_lack = {*experiment.optional, *experiment.read}
  return finished_run.Part({
      name: tidy_tables.read(finished, tidy_tables.file_name(name), kinds)
      for name, kinds in {**experiment.columns, **experiment.read}.items()
      if name not in may_lack or finished.has(tidy_tables.file_name(name))
  }, finished.path)


def _results(experiment: Experiment, folder: str) -> Any:
  return tidy_tables.read(
      finished_run.FinishedRun(folder), tidy_tables.file_name(RESULTS), experiment.columns[RESULTS]
  )
