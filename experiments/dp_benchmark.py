"""Private k-means compared: our methods, IBM's diffprivlib, and no privacy at all.

  bazel run experiments:dp_benchmark -- --data_dir=uci --output_dir=out

The losses are computed exactly and the noise is seeded: it is a comparison on public
data, and nothing here is private.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import contextlib
from typing import Any, Collection, Mapping

from absl import flags

from clustering_basics import validate
from experiment_shell import experiment
from experiment_shell import finished_run
from experiment_shell import option_flags
from experiment_shell import output_folder
from experiment_shell import path_flag
from experiment_shell import program_help
from experiment_shell import run_flags
from experiments.private import cells
from experiments.private import config as config_lib
from experiments.private import data
from experiments.private import diffprivlib_process
from experiments.private import results
from experiments import reports

flags.adopt_module_key_flags(run_flags)

option_flags.define(config_lib.BenchmarkConfig)
path_flag.define(
    "data_dir", None,
    "Folder with UCI's files: letter-recognition.data (or .gz), gt_2011.csv to "
    "gt_2015.csv. Missing files are downloaded from OpenML. Default: only OpenML.")
path_flag.define(
    "diffprivlib_python", None,
    "Path of a Python with IBM's diffprivlib (requirements/diffprivlib.txt). Default: the one "
    "that Bazel makes. Without Bazel there is none, and diffprivlib is left out.")

HELP = program_help.Help(
    {
        "data": ("datasets", "data_dir"),
        "methods": ("methods", "k_to_try", "fixed_k", "runs"),
        "privacy": ("epsilon_to_try", "fixed_epsilon", "delta"),
        "machines": ("diffprivlib_python",),
        "output": run_flags.NAMES[:2],
    },
    {"data": ("seed",), "output": run_flags.NAMES},
)


def _check_used(name: str, used_by: Collection[str], chosen: Collection[str]) -> None:
  """Raises a ValueError if a flag is given but nothing chosen uses it."""
  if getattr(flags.FLAGS, name) is not None and not set(used_by) & set(chosen):
    raise validate.error(
        name, f"be left out without {' or '.join(used_by)}", getattr(flags.FLAGS, name))


def _config() -> config_lib.BenchmarkConfig:
  found = config_lib.BenchmarkConfig(**option_flags.given(config_lib.BenchmarkConfig))
  _check_used("data_dir", data.FROM_FILES, found.datasets)
  _check_used("diffprivlib_python", ["diffprivlib"], found.methods)
  return found


class DpBenchmark(experiment.Experiment):
  name = "dp_benchmark"
  program = "dp_benchmark"
  files = (cells.LEDGERS, cells.MEASUREMENTS)
  versions_of = ("numpy", "scikit-learn", "scipy", "dp-accounting")
  report = reports.MODULES[name]
  failures = (diffprivlib_process.ProcessEnded,)
  config = staticmethod(_config)
  check_recorded = staticmethod(cells.check_recorded)

  def load(
      self, config: config_lib.BenchmarkConfig, recorded: Any, stack: contextlib.ExitStack
  ) -> experiment.Inputs:
    benchmark = cells.load_benchmark(
        config, flags.FLAGS.data_dir, flags.FLAGS.diffprivlib_python, stack
    )
    lines = [
        f"data: {one.name}, {one.points.shape[0]:,} x {one.points.shape[1]}: {one.source}"
        for one in benchmark.datasets.values()
    ]
    lines += [f"left out: {name}: {reason}" for name, reason in benchmark.skipped.items()]
    return experiment.Inputs(benchmark, benchmark.describe(), tuple(lines))

  def measure(
      self, config: config_lib.BenchmarkConfig, inputs: experiment.Inputs,
      folder: output_folder.OutputFolder,
  ) -> Mapping[str, Any]:
    cells.run(inputs.data, folder)
    return results.summary(results.read(finished_run.FinishedRun(folder.path)))

  def result_text(self, finished: finished_run.FinishedRun) -> str:
    return results.text(results.read(finished))


if __name__ == "__main__":
  launch.run(DpBenchmark().main, HELP)
