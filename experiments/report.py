"""Draws the figures and the report of a finished run again, from the files in its folder.

  bazel run experiments:report -- --run=out

It measures nothing, and changes nothing but what is drawn from the measurements.
"""

import os

from absl import flags

from clustering_basics import validate
from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import path_flag
from experiments import reports

path_flag.define("run", None, "Folder of a finished run of any experiment.")


def _finished_run() -> tuple[finished_run.FinishedRun, str]:
  """Returns the run that the flag names, and the name of its experiment."""
  path = flags.FLAGS.run
  if path is None:
    raise validate.error("run", "name the folder of a finished run", path)
  run = finished_run.FinishedRun(path)
  for name in (output_folder.CONFIG, output_folder.SUMMARY):
    if not run.has(name):
      raise _missing(name, path)
  validate.regular_files(run=path)
  try:
    run.check()
  except finished_run.DamagedFile as e:
    raise _damaged(e.name, e.reason, path) from e
  experiment = run.document.get("experiment")
  if experiment not in reports.MODULES:
    rule = f"be of one of {', '.join(reports.MODULES)}, by its {output_folder.CONFIG}"
    raise validate.error("run", rule, f"{path} of {experiment}")
  return run, experiment


def _missing(name: str, path: str) -> ValueError:
  return validate.error("run", f"be the folder of a finished run, with {name} in it", path)


def _damaged(name: str, reason: object, path: str) -> ValueError:
  return validate.error("run", f"hold a readable {name} ({reason})", path)


def main() -> None:
  with launch.input_errors():
    run, experiment = _finished_run()
  try:
    reports.write_report(experiment, run)
  except finished_run.DamagedFile as e:
    raise launch.InputError(str(_damaged(e.name, e.reason, run.path))) from e
  except FileNotFoundError as e:
    raise launch.InputError(str(_missing(os.path.basename(e.filename), run.path))) from e
  except OSError as e:
    raise launch.RunFailed(str(e)) from e
  print(f"report: {run.join(output_folder.REPORT)}")


if __name__ == "__main__":
  launch.run(main)
