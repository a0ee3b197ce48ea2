"""Private k-means compared: our methods, IBM's diffprivlib, and no privacy at all.

  bazel run experiments:dp_benchmark -- --data_dir=uci --output_dir=out

The losses are computed exactly and the noise is seeded: it is a comparison on public
data, and nothing here is private.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import contextlib
from typing import Any, Mapping

from absl import flags

from experiment_shell import experiment
from experiment_shell import finished_run
from experiment_shell import output_folder
from experiment_shell import study
from experiments.private import cells
from experiments.private import config as config_lib
from experiments.private import diffprivlib_process
from experiments.private import flags as benchmark_flags
from experiments.private import results
from experiments import reports

flags.adopt_module_key_flags(benchmark_flags)


class DpBenchmark(experiment.Experiment):
  """The benchmark of private clustering."""

  name = "dp_benchmark"
  program = "dp_benchmark"
  files = (cells.LEDGERS, cells.MEASUREMENTS)
  versions_of = ("numpy", "scikit-learn", "scipy", "dp-accounting")
  report = reports.MODULES[name]
  failures = (diffprivlib_process.ProcessEnded,)
  config = staticmethod(benchmark_flags.config)
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
    table = study.Study(folder, cells.MEASUREMENTS, cells.KEYS, cells.VALUES)
    cells.run(inputs.data, folder, table)
    return results.summary(results.read(finished_run.FinishedRun(folder.path)))

  def result_text(self, finished: finished_run.FinishedRun) -> str:
    return results.text(results.read(finished))


if __name__ == "__main__":
  launch.run(DpBenchmark().main, benchmark_flags.HELP)
