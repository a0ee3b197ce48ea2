"""Draws the figures and the report of a finished run again, from the files in its folder.

  bazel run experiments:report -- --run=out

It measures nothing, and changes nothing but what is drawn from the measurements.
"""

import contextlib
import os
from typing import Iterator

from absl import flags

from clustering_basics import validate
from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import option_flags
from experiment_shell import output_folder
from experiment_shell import path_flag
from experiments import registry

path_flag.define("run", None, "Folder of a finished run of any experiment.")


@contextlib.contextmanager
def _unusable_files(path: str) -> Iterator[None]:
  """Turns what is wrong with the files of a run into an `InputError` on the flag."""
  try:
    yield
  except finished_run.DamagedFile as e:
    rule = f"hold a readable {e.name} ({e.reason})"
    raise launch.InputError(str(validate.error("run", rule, path))) from e
  except FileNotFoundError as e:
    rule = f"be the folder of a finished run, with {os.path.basename(e.filename)} in it"
    raise launch.InputError(str(validate.error("run", rule, path))) from e


def main() -> None:
  path = flags.FLAGS.run
  with launch.input_errors():
    option_flags.check_given("run")
    run = finished_run.FinishedRun(path)
    with _unusable_files(path):
      os.stat(run.join(output_folder.SUMMARY))
      validate.regular_files(run=path)
      experiment = run.document.get("experiment")
    if experiment not in registry.MODULES:
      rule = f"be of one of {', '.join(registry.MODULES)}, by its {finished_run.CONFIG}"
      raise validate.error("run", rule, f"{path} of {experiment}")
  from experiment_shell import tidy_report  # It takes long to import.

  try:
    with _unusable_files(path):
      tidy_report.report(registry.experiment(experiment), run)
  except OSError as e:
    raise launch.RunFailed(str(e)) from e
  print(f"report: {run.join(output_folder.REPORT)}")


if __name__ == "__main__":
  launch.run(main)
