"""Runs an experiment, from its flags to its report.

  flags -> config -> output folder -> inputs -> measuring -> summary.json -> report.html

An `Experiment` holds what is specific to one experiment; its program ends with
`launch.run(experiment.build_main(EXPERIMENT))`.  Errors in the flags, the folder and the
data are reported before anything is measured.  They are also reported before the modules
that measure are imported, which may take seconds.
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
  """The inputs of an experiment, apart from its settings.

  Attributes:
    data: Whatever `Experiment.measure` needs.
    document: Description of the data for `config.json`, a dict for JSON.
    lines: Description of the data that the program prints, one string per line.
  """

  data: Any
  document: Mapping[str, Any]
  lines: tuple[str, ...]


def _accept(recorded, document):
  del recorded, document


@dataclasses.dataclass(frozen=True)
class Experiment:
  """What is specific to one experiment.

  Attributes:
    name: The experiment's name in `config.json`.
    program: The program's name; the name of the default output folder begins with it.
    files: Names of the files that it writes, besides `config.json`, `summary.json` and
      `report.html`.
    folders: Names of the folders that it writes.
    versions_of: Names of the packages whose versions `config.json` states.
    read_flags: A function that returns the settings, an object with a method `to_json`.
    load: A function `(config, recorded, stack) -> Inputs`.  `recorded` is the
      `config.json` of a run to resume, or None.  `stack` is a `contextlib.ExitStack` for
      whatever must be closed when the program ends.
    measure: A function `(config, inputs, folder)` that measures and writes the files.  It
      returns the summary, a dict for JSON, unless there is a `summarize`.
    build_write_report: A function that imports what draws the report.  It returns a
      function of a `FinishedRun` that draws figures and `report.html`.
    result_text: A function of a `FinishedRun` that returns what the program prints last.
    check_recorded: A function `(recorded, document)` that raises a ValueError unless the
      run to resume had the same inputs.  Both arguments are dicts as in `config.json`.
    advise: A function `(folder, config)` that returns what the user can do whose settings
      are not those of the run to resume, in a sentence; "" if there is nothing to say.
    rechecks_finished: Whether the inputs of a finished run are loaded and checked too.
    summarize: A function of a `FinishedRun` that returns the summary, a dict for JSON, from
      the files that `measure` has written; None if `measure` returns it.
    failures: A function that returns the exceptions that end a run with one line.  It is
      called when measuring begins.
    problem: A function of a `FinishedRun` that returns why the program ends with code 1 though
      the run is finished; "" if it doesn't.
    may_get_further: A function of a `FinishedRun` that returns whether something failed in it
      that a resumed run tries again.
  """

  name: str
  program: str
  files: tuple[str, ...]
  folders: tuple[str, ...]
  versions_of: tuple[str, ...]
  read_flags: Callable[[], Any]
  load: Callable[[Any, Optional[dict], contextlib.ExitStack], Inputs]
  measure: Callable[[Any, Inputs, output_folder.OutputFolder], Optional[dict]]
  build_write_report: Callable[[], Callable[[finished_run.FinishedRun], None]]
  result_text: Callable[[finished_run.FinishedRun], str]
  check_recorded: Callable[[dict, dict], None] = _accept
  advise: Callable[[output_folder.OutputFolder, Any], str] = lambda folder, config: ""
  rechecks_finished: bool = False
  summarize: Optional[Callable[[finished_run.FinishedRun], dict]] = None
  failures: Callable[[], tuple[type[Exception], ...]] = lambda: ()
  problem: Callable[[finished_run.FinishedRun], str] = lambda run: ""
  may_get_further: Callable[[finished_run.FinishedRun], bool] = lambda run: False


def versions(packages):
  """Returns the versions of Python and of the packages, as a dict by name.

  Args:
    packages: Names of installed packages.
  """
  return {
      "python": platform.python_version(),
      **{name: importlib.metadata.version(name) for name in packages},
  }


def _open_folder(experiment, config):
  folder = output_folder.OutputFolder(
      run_flags.output_dir(experiment.program), flags.FLAGS.resume, flags.FLAGS.overwrite,
      experiment.files, experiment.folders,
  )
  try:
    folder.check_same_config(config.to_json(), experiment.name)
  except output_folder.OtherConfig as e:
    raise ValueError(f"{e} {experiment.advise(folder, config)}".strip()) from e
  return folder


def _is_finished(experiment, folder):
  return folder.is_finished and not experiment.may_get_further(
      finished_run.FinishedRun(folder.path)
  )


def _load_new(experiment, config, recorded, stack):
  inputs = experiment.load(config, recorded, stack)
  return inputs, {
      "experiment": experiment.name,
      "config": config.to_json(),
      **inputs.document,
      "versions": versions(experiment.versions_of),
  }


def _load(experiment, config, folder, stack):
  """Returns the `Inputs` and the content of `config.json`."""
  if folder.recorded is None:
    return _load_new(experiment, config, None, stack)
  try:
    inputs, document = _load_new(experiment, config, folder.recorded, stack)
    experiment.check_recorded(folder.recorded, document)
    for name in inputs.document:
      folder.recorded[name]  # The report needs it.  pylint: disable=pointless-statement
  except (KeyError, TypeError, AttributeError) as e:
    raise folder.damaged(e) from e
  return inputs, document


@contextlib.contextmanager
def _damaged_files():
  """Turns what is wrong with an earlier version's or an edited file into an `InputError`."""
  try:
    yield
  except finished_run.DamagedFile as e:
    raise launch.InputError(str(e)) from e


def _measure(experiment, config, inputs, folder):
  with _damaged_files(), launch.run_errors(folder.path, *experiment.failures()):
    # First, as it may fail: a plotting library may be broken.
    write_report = experiment.build_write_report()
    summary = experiment.measure(config, inputs, folder)
    finished = finished_run.FinishedRun(folder.path)
    if experiment.summarize is not None:
      summary = experiment.summarize(finished)
    folder.write_text(output_folder.SUMMARY, output_folder.json_text(summary))
    # The report comes last, since a folder with a report is a finished run.
    write_report(finished)


def _print_result(experiment, folder):
  finished = finished_run.FinishedRun(folder.path)
  print(experiment.result_text(finished))
  print(f"report: {folder.join(output_folder.REPORT)}")
  problem = experiment.problem(finished)
  if problem:
    raise launch.RunFailed(problem)


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
        stack.callback(folder.close)
        is_finished = _is_finished(experiment, folder)
        if not is_finished or experiment.rechecks_finished:
          inputs, document = _load(experiment, config, folder, stack)
      if is_finished:
        print(f"this run is finished: {folder.path}")
        with launch.input_errors():  # A file of it may have been removed since.
          _print_result(experiment, folder)
        return
      with launch.input_errors():
        folder.start(document)
      print(*inputs.lines, f"results: {folder.path}", sep="\n")
      _measure(experiment, config, inputs, folder)
      _print_result(experiment, folder)

  return main
