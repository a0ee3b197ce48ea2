"""Draws the figures and the report of a finished run again, from the files in its folder.

  bazel run experiments:report -- --run=out

It measures nothing and changes nothing but `figures/` and `report.html`.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import importlib
import os

from absl import flags

from clustering_basics import validate
from experiment_shell import finished_run
from experiment_shell import output_folder
from experiment_shell import path_flag

path_flag.define("run", None, "Folder of a finished run of any experiment.")

# An experiment's name in `config.json` -> its program, and what it is called there.
_EXPERIMENTS = {
    "dp_benchmark": ("experiments.dp_benchmark", "EXPERIMENT"),
    "three_phase_emnist": ("experiments.three_phase_emnist", "EXPERIMENT"),
    "federated_kmeans": ("experiments.federated_kmeans", "PAPER"),
    "federated_kmeans_own_data": ("experiments.federated_kmeans", "OWN_DATA"),
    "federated_kmeans_sites": ("experiments.federated_kmeans", "SITES"),
    "multi_view": ("experiments.multi_view", "EXPERIMENT"),
    "multi_view_sites": ("experiments.multi_view", "SITES"),
    "study": ("experiments.study", "EXPERIMENT"),
}


def _finished_run():
  """Returns the run that the flag names, and the name of its experiment."""
  path = flags.FLAGS.run
  if path is None:
    raise validate.error("run", "name the folder of a finished run", path)
  run = finished_run.FinishedRun(path)
  for name in (output_folder.CONFIG, output_folder.SUMMARY):
    if not run.has(name):
      raise _missing(name, path)
  try:
    name = run.document.get("experiment")
    run.summary  # Not every report reads it.  pylint: disable=pointless-statement
  except finished_run.DamagedFile as e:
    raise _damaged(e.name, e.reason, path) from e
  if name not in _EXPERIMENTS:
    raise validate.error(
        "run", f"name its experiment in {output_folder.CONFIG}, which runs of earlier versions "
        "don't", path)
  return run, name


def _missing(name, path):
  return validate.error("run", f"be the folder of a finished run, with {name} in it", path)


def _damaged(name, reason, path):
  return validate.error("run", f"hold a readable {name} ({reason})", path)


def main():
  with launch.input_errors():
    run, name = _finished_run()
  program, attribute = _EXPERIMENTS[name]
  experiment = getattr(importlib.import_module(program), attribute)
  try:
    experiment.build_write_report()(run)
  except finished_run.DamagedFile as e:
    raise launch.InputError(str(_damaged(e.name, e.reason, run.path))) from e
  except FileNotFoundError as e:
    raise launch.InputError(str(_missing(os.path.basename(e.filename), run.path))) from e
  except OSError as e:
    raise launch.RunFailed(str(e)) from e
  print(f"report: {run.join(output_folder.REPORT)}")


if __name__ == "__main__":
  launch.run(main)
