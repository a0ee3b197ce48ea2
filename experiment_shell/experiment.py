"""The way of every experiment, from its flags to its report.

  flags -> config -> output folder -> inputs -> measuring -> summary.json -> report.html

An experiment says what is its own as an `Experiment`; its program ends with
`launch.run(experiment.build_main(EXPERIMENT))`.  What can be wrong with the flags, the
folder and the data is said before anything is measured, and before the modules that
measure, which may take seconds, are imported.
"""

import contextlib
import dataclasses
import importlib.metadata
import platform
from typing import Any, Callable, Mapping, Optional

from absl import flags

from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import run_flags


@dataclasses.dataclass(frozen=True, eq=False)
class Inputs:
  """What an experiment works on, beside its settings.

  Attributes:
    data: Whatever `Experiment.measure` needs.
    document: What `config.json` says of it, as a dict for JSON.
    lines: What the program prints of it.
  """

  data: Any
  document: Mapping[str, Any]
  lines: tuple[str, ...]


def _accept(recorded, document):
  del recorded, document


@dataclasses.dataclass(frozen=True)
class Experiment:
  """What is one experiment's own.

  Attributes:
    name: Its name in `config.json`.
    program: The program's name, which the default output folder begins with.
    files: Names of the files that it writes, beside `config.json`, `summary.json` and
      `report.html`.
    folders: Names of the folders that it writes.
    versions_of: The packages whose versions `config.json` states.
    read_flags: A function that returns the settings, with a method `to_json`.
    load: A function `(config, recorded, stack) -> Inputs`.  `recorded` is the
      `config.json` of a run to resume, or None.  What must be closed when the program
      ends is entered into the `contextlib.ExitStack`.
    measure: A function `(config, inputs, folder)` that measures, writes the files and
      returns the summary, a dict for JSON.
    write_report: A function of a `FinishedRun` that draws figures and `report.html`.
    result_text: A function of a `FinishedRun` that returns what the program prints last.
    check_recorded: A function `(recorded, document)` that raises a ValueError unless the
      run to resume had the same inputs; both are as in `config.json`.
    rechecks_finished: Whether a finished run's inputs are loaded and checked too.
    failures: A function that returns the exceptions that end a run with one line; called
      when measuring begins.
  """

  name: str
  program: str
  files: tuple[str, ...]
  folders: tuple[str, ...]
  versions_of: tuple[str, ...]
  read_flags: Callable[[], Any]
  load: Callable[[Any, Optional[dict], contextlib.ExitStack], Inputs]
  measure: Callable[[Any, Inputs, output_folder.OutputFolder], dict]
  write_report: Callable[[finished_run.FinishedRun], None]
  result_text: Callable[[finished_run.FinishedRun], str]
  check_recorded: Callable[[dict, dict], None] = _accept
  rechecks_finished: bool = False
  failures: Callable[[], tuple[type[Exception], ...]] = tuple


def versions(packages):
  """Returns the versions of Python and of packages, by name."""
  return {
      "python": platform.python_version(),
      **{name: importlib.metadata.version(name) for name in packages},
  }


def _open_folder(experiment, config):
  folder = output_folder.OutputFolder(
      run_flags.output_dir(experiment.program), flags.FLAGS.resume, flags.FLAGS.overwrite,
      experiment.files, experiment.folders,
  )
  folder.check_same_config(config.to_json())
  return folder


def _load(experiment, config, folder, stack):
  """Returns the `Inputs` and what `config.json` says of the run."""
  inputs = experiment.load(config, folder.recorded, stack)
  document = {
      "experiment": experiment.name,
      "config": config.to_json(),
      **inputs.document,
      "versions": versions(experiment.versions_of),
  }
  if folder.recorded is not None:
    try:
      experiment.check_recorded(folder.recorded, document)
    except (KeyError, TypeError) as e:
      raise folder.damaged(e) from e
  return inputs, document


def _measure(experiment, config, inputs, folder):
  with launch.run_errors(folder.path, *experiment.failures()):
    summary = experiment.measure(config, inputs, folder)
    folder.write_text(output_folder.SUMMARY, output_folder.json_text(summary))
    # The last file: a folder with a report is a finished run.
    experiment.write_report(finished_run.FinishedRun(folder.path))


def _print_result(experiment, folder):
  print(experiment.result_text(finished_run.FinishedRun(folder.path)))
  print(f"report: {folder.join(output_folder.REPORT)}")


def build_main(experiment):
  """Returns the `main` of an experiment's program, for `launch.run`.

  Args:
    experiment: The `Experiment`.
  """

  def main():
    with contextlib.ExitStack() as stack:
      with launch.input_errors():
        config = experiment.read_flags()
        folder = _open_folder(experiment, config)
        if not folder.is_finished or experiment.rechecks_finished:
          inputs, document = _load(experiment, config, folder, stack)
      if folder.is_finished:
        print(f"this run is finished: {folder.path}")
      else:
        with launch.input_errors():
          folder.start(document)
        print(*inputs.lines, f"results: {folder.path}", sep="\n")
        _measure(experiment, config, inputs, folder)
      _print_result(experiment, folder)

  return main
