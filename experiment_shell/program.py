"""Runs an experiment for a program, as the flags of all programs say: its output folder's."""

import atexit
import contextlib
import itertools
import os
import time
from typing import Any

from absl import flags

from clustering_basics import validate
from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import path_flag
from experiment_shell import tidy_experiment

_RESULTS = "results"

path_flag.define(
    "output_dir", None,
    "Folder for the results. Default: a new one under results/.")
flags.DEFINE_bool(
    "resume", False,
    "Continue the run in --output_dir, which must have the same configuration.")
flags.DEFINE_bool(
    "overwrite", False, "Remove the earlier run in --output_dir first.")


def _remove_if_empty(folder: str) -> None:
  with contextlib.suppress(OSError):
    os.rmdir(folder)
    os.rmdir(os.path.dirname(folder))


def _new_folder(name: str) -> str:
  """Makes a folder that no other program gets, and returns its path.

  What wrote nothing in it leaves no folder.
  """
  os.makedirs(_RESULTS, exist_ok=True)
  for number in itertools.count(1):
    path = os.path.join(_RESULTS, name if number == 1 else f"{name}-{number}")
    with contextlib.suppress(FileExistsError):
      os.mkdir(path)
      break
  atexit.register(_remove_if_empty, os.path.abspath(path))
  return path


def output_dir(program: str) -> str:
  """Returns the path of the output folder; by default a new one under results/, which it makes.

  Raises:
    ValueError: If --resume or --overwrite is given without --output_dir, or no folder can be made.
  """
  if flags.FLAGS.output_dir is not None:
    return flags.FLAGS.output_dir
  if flags.FLAGS.resume or flags.FLAGS.overwrite:
    raise validate.error("output_dir", "be given with --resume and --overwrite", None)
  try:
    return _new_folder(f"{program}-{time.strftime('%Y%m%d-%H%M%S')}")
  except OSError as e:
    rule = f"be given where no folder can be made in {_RESULTS} ({e.strerror})"
    raise validate.error("output_dir", rule, None) from e


def main(experiment: tidy_experiment.Experiment, config: Any, **options: Any) -> None:
  """Measures what is not measured yet, draws the report and prints its first tables.

  Args:
    config: The settings, with a method `to_json`.
    **options: Those of `tidy_experiment.run` that are no flags, and of `experiment.load`.
  """
  from experiment_shell import tidy_report  # It takes long to import.

  with launch.input_errors():
    folder = os.path.abspath(output_dir(experiment.name))
  given = flags.FLAGS
  failures = f"see {tidy_experiment.FAILURES} in {folder}; --resume tries them again."
  try:
    results = tidy_experiment.run(
        experiment, config, folder, resume=given.resume, overwrite=given.overwrite, **options
    )
    finished = finished_run.FinishedRun(folder)
    if not len(results):
      has_failures = finished.has(tidy_experiment.FAILURES)
      why = f"cells failed, {failures}" if has_failures else f"see the tables in {folder}."
      raise launch.RunFailed(f"there are no results: {why}")
    with launch.run_errors(folder):
      if not finished.has(output_folder.REPORT):
        tidy_report.report(experiment, finished)
      text = tidy_report.text(experiment, finished)
  except finished_run.DamagedFile as e:  # Someone has edited it.
    raise launch.InputError(str(e)) from e
  print(text, f"report: {finished.join(output_folder.REPORT)}", sep="\n")
  if finished.has(tidy_experiment.FAILURES):
    raise launch.RunFailed(f"some cells failed, {failures}")
