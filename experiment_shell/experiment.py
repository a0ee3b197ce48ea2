"""Runs an experiment, from its flags to its report.

  flags -> config -> output folder -> inputs -> measuring -> summary.json -> report.html

An `Experiment` says what is specific to one experiment; its program ends with
`launch.run(MyExperiment().main)`.  Errors in the flags, the folder and the data are reported
before anything is measured.  They are also reported before the modules that measure are
imported, which may take seconds: an experiment refers to those as `LazyModule`s.
"""

import contextlib
import dataclasses
import importlib
import importlib.metadata
import platform
from typing import Any, Iterable, Mapping

from absl import flags

from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import run_flags


@dataclasses.dataclass(frozen=True, eq=False)
class Inputs:
  """The inputs of an experiment, apart from its settings.

  Attributes:
    document: Description of the data for `config.json`, a dict for JSON.
    lines: Description of the data that the program prints.
  """

  data: Any
  document: Mapping[str, Any]
  lines: tuple[str, ...]


def versions(packages: Iterable[str]) -> dict[str, str]:
  """Returns the versions of Python and of those packages that are installed, by name."""
  found = {"python": platform.python_version()}
  for name in packages:
    # Some runs need no TensorFlow.
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
      found[name] = importlib.metadata.version(name)
  return found


class Experiment:
  """An experiment; a subclass says what is specific to it.

  Attributes:
    name: The experiment's name in `config.json`.
    program: The program's name; the name of the default output folder begins with it.
    files: Names of the files that it writes, besides `config.json`, `summary.json` and
      `report.html`.
    versions_of: Names of the packages whose versions `config.json` states.
    report: Name of the module that draws the report of a `FinishedRun`, with a function
      `write_report`.
    rechecks_finished: Whether the inputs of a finished run are loaded and checked too.
    failures: The exceptions that end a run with one line.
  """

  name: str
  program: str
  files: tuple[str, ...]
  folders: tuple[str, ...] = ("figures",)
  versions_of: tuple[str, ...]
  report: str
  rechecks_finished: bool = False
  failures: tuple[type[Exception], ...] = ()

  def config(self) -> Any:
    """Returns the settings, with a method `to_json`; ValueError if the flags don't fit."""
    raise NotImplementedError

  def load(self, config: Any, recorded: Any, stack: contextlib.ExitStack) -> Inputs:
    """Returns the inputs; ValueError if the settings don't fit them.

    Args:
      recorded: The `config.json` of a run to resume, or None.
      stack: For whatever must be closed when the program ends.
    """
    raise NotImplementedError

  def check_recorded(self, recorded: Any, document: Mapping[str, Any]) -> None:
    """Raises a ValueError unless the run to resume had the same inputs.

    Args:
      recorded: Its `config.json`.
      document: The `config.json` that a new run would have.
    """

  def measure(
      self, config: Any, inputs: Inputs, folder: output_folder.OutputFolder
  ) -> Mapping[str, Any]:
    """Measures, and writes the files; returns the summary for JSON."""
    raise NotImplementedError

  def result_text(self, finished: finished_run.FinishedRun) -> str:
    """Returns what the program prints last."""
    return importlib.import_module(self.report).result_text(finished)

  def advice(self, recorded: Any, path: str, config: Any) -> str:
    """Returns what the user can do whose settings are not those of the run to resume, or "".

    Args:
      recorded: The run's `config.json`.
    """
    del recorded, path, config
    return ""

  def problem(self, finished: finished_run.FinishedRun) -> str:
    """Returns why the program ends with code 1 though the run is finished; "" if it doesn't."""
    del finished
    return ""

  def may_get_further(self, finished: finished_run.FinishedRun) -> bool:
    """Returns whether something failed in a finished run that a resumed run tries again."""
    del finished
    return False

  def is_charged(self, recorded: Mapping[str, Any] | None, path: str) -> bool:
    """Returns whether a run may have released what counts for good, so that it must stay.

    Args:
      recorded: The run's `config.json`; None if it is missing.
      path: The run's folder.
    """
    del recorded, path
    return False

  def main(self) -> None:
    """Runs the experiment as the flags say, for `launch.run`."""
    with contextlib.ExitStack() as stack:
      with launch.input_errors():
        config = self.config()
        folder = self._open_folder(config)
        stack.callback(folder.close)
        is_finished = folder.is_finished and not self.may_get_further(
            finished_run.FinishedRun(folder.path)
        )
        if not is_finished or self.rechecks_finished:
          inputs, document = self._load(config, folder, stack)
      if is_finished:
        print(f"this run is finished: {folder.path}")
        with launch.input_errors():  # A file of it may have been removed since.
          self._print_result(folder)
        return
      with launch.input_errors():
        folder.start(document, lambda recorded: self.is_charged(recorded, folder.path))
      print(*inputs.lines, f"results: {folder.path}", sep="\n")
      self._measure(config, inputs, folder)
      self._print_result(folder)

  def _open_folder(self, config: Any) -> output_folder.OutputFolder:
    folder = output_folder.OutputFolder(
        run_flags.output_dir(self.program), flags.FLAGS.resume, flags.FLAGS.overwrite, self.files,
        self.folders,
    )
    try:
      folder.check_same_config(config.to_json(), self.name)
    except output_folder.OtherConfig as e:
      raise ValueError(f"{e} {self.advice(folder.recorded, folder.path, config)}".strip()) from e
    return folder

  def _load(
      self, config: Any, folder: output_folder.OutputFolder, stack: contextlib.ExitStack
  ) -> tuple[Inputs, dict[str, Any]]:
    """Returns the inputs and the content of `config.json`."""
    recorded = folder.recorded
    try:
      inputs = self.load(config, recorded, stack)
      document = {
          "experiment": self.name,
          "config": config.to_json(),
          **inputs.document,
          "versions": versions(self.versions_of),
      }
      if recorded is not None:
        self.check_recorded(recorded, document)
    except (KeyError, TypeError, AttributeError) as e:
      if recorded is None:
        raise
      raise folder.damaged(e) from e
    return inputs, document

  def _measure(self, config: Any, inputs: Inputs, folder: output_folder.OutputFolder) -> None:
    try:
      with launch.run_errors(folder.path, *self.failures):
        # First, as it may fail: a plotting library may be broken.
        report = importlib.import_module(self.report)
        summary = self.measure(config, inputs, folder)
        folder.write_text(output_folder.SUMMARY, output_folder.json_text(summary))
        # The report comes last, since a folder with a report is a finished run.
        report.write_report(finished_run.FinishedRun(folder.path))
    except finished_run.DamagedFile as e:  # Someone has edited it.
      raise launch.InputError(str(e)) from e

  def _print_result(self, folder: output_folder.OutputFolder) -> None:
    finished = finished_run.FinishedRun(folder.path)
    print(self.result_text(finished))
    print(f"report: {folder.join(output_folder.REPORT)}")
    problem = self.problem(finished)
    if problem:
      raise launch.RunFailed(problem)
