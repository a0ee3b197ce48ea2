"""Runs an experiment for a program, as the flags of all programs say."""

import os
from typing import Any

from absl import flags

from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import run_flags
from experiment_shell import tidy_experiment


def main(experiment: tidy_experiment.Experiment, config: Any, **options: Any) -> None:
  """Measures what is not measured yet, draws the report and prints its first tables.

  Args:
    config: The settings, with a method `to_json`.
    **options: Those of `tidy_experiment.run` that are no flags, and of `experiment.load`.
  """
  from experiment_shell import tidy_report  # It takes long to import.

  with launch.input_errors():
    folder = os.path.abspath(run_flags.output_dir(experiment.name))
  given = flags.FLAGS
  failures = f"see {tidy_experiment.FAILURES} in {folder}; --resume tries them again."
  try:
    results = tidy_experiment.run(
        experiment, config, folder, resume=given.resume, overwrite=given.overwrite, **options
    )
    finished = finished_run.FinishedRun(folder)
    if not len(results):
      raise launch.RunFailed(f"all cells failed, {failures}")
    with launch.run_errors(folder):
      if not finished.has(output_folder.REPORT):
        tidy_report.report(experiment, finished)
      text = tidy_report.text(experiment, finished)
  except finished_run.DamagedFile as e:  # Someone has edited it.
    raise launch.InputError(str(e)) from e
  print(text, f"report: {finished.join(output_folder.REPORT)}", sep="\n")
  if finished.has(tidy_experiment.FAILURES):
    raise launch.RunFailed(f"some cells failed, {failures}")
