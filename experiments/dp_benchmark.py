"""Private k-means compared: our methods, IBM's diffprivlib, and no privacy at all.

  bazel run experiments:dp_benchmark -- --data_dir=uci --output_dir=out

The losses are computed exactly and the noise is seeded: it is a comparison on public
data, and nothing here is private.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

from absl import flags

from experiment_shell import experiment
from experiment_shell import study
from experiments.private import cells
from experiments.private import diffprivlib_process
from experiments.private import flags as benchmark_flags
from experiments.private import methods
from experiments.private import results

flags.adopt_module_key_flags(benchmark_flags)


def _load(config, unused_recorded, stack):
  benchmark = cells.load_benchmark(
      config, benchmark_flags.data_dir(), benchmark_flags.diffprivlib_python(), stack
  )
  lines = [
      f"data: {one.name}, {one.points.shape[0]:,} x {one.points.shape[1]}: {one.source}"
      for one in benchmark.datasets.values()
  ]
  lines += [f"left out: {name}: {reason}" for name, reason in benchmark.skipped.items()]
  return experiment.Inputs(benchmark, benchmark.describe(), tuple(lines))


def _measure(unused_config, inputs, folder):
  table = study.Study(folder, cells.MEASUREMENTS, cells.KEYS, cells.VALUES)
  cells.run(inputs.data, folder, table)


def _failures():
  if not set(methods.FEDERATED) & set(benchmark_flags.config().methods):
    return (diffprivlib_process.ProcessEnded,)
  from fl_clustering import runtime  # pylint: disable=g-import-not-at-top

  return diffprivlib_process.ProcessEnded, runtime.WorkerLost


def _build_write_report():
  from experiments.private import report  # pylint: disable=g-import-not-at-top

  return report.write_report


EXPERIMENT = experiment.Experiment(
    name="dp_benchmark",
    program="dp_benchmark",
    files=(cells.LEDGERS, cells.MEASUREMENTS),
    folders=("figures",),
    versions_of=("numpy", "scikit-learn", "scipy", "opendp", "dp-accounting"),
    read_flags=benchmark_flags.config,
    load=_load,
    measure=_measure,
    build_write_report=_build_write_report,
    result_text=lambda run: results.text(results.read(run)),
    check_recorded=cells.check_recorded,
    summarize=lambda run: results.summary(results.read(run)),
    failures=_failures,
)

if __name__ == "__main__":
  launch.run(experiment.build_main(EXPERIMENT))
