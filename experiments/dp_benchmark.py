"""Private k-means compared: our two methods, IBM's diffprivlib, and no privacy at all.

  bazel run experiments:dp_benchmark -- --data_dir=uci --output_dir=out

The losses are computed exactly and the noise is seeded: it is a comparison on public
data, and nothing here is private.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

from absl import flags

from experiment_shell import experiment
from experiment_shell import finished_run
from experiment_shell import study
from experiments.private import benchmark as benchmark_lib
from experiments.private import diffprivlib_process
from experiments.private import finished_benchmark
from experiments.private import flags as benchmark_flags
from experiments.private import measuring


def _load(config, unused_recorded, stack):
  benchmark = stack.enter_context(benchmark_lib.open_benchmark(
      config, flags.FLAGS.data_dir, flags.FLAGS.diffprivlib_python
  ))
  lines = [
      f"data: {one.name}, {one.points.shape[0]:,} x {one.points.shape[1]}: {one.source}"
      for one in benchmark.datasets.values()
  ]
  lines += [f"left out: {name}: {reason}" for name, reason in benchmark.skipped.items()]
  return experiment.Inputs(benchmark, benchmark.describe(), tuple(lines))


def _measure(unused_config, inputs, folder):
  with launch.input_errors():
    table = study.Study(folder, benchmark_lib.MEASUREMENTS, measuring.KEYS, measuring.VALUES)
  benchmark_lib.run(inputs.data, folder, table)
  return finished_benchmark.read_benchmark(finished_run.FinishedRun(folder.path)).summary()


def _write_report(finished):
  from experiments.private import report  # pylint: disable=g-import-not-at-top

  report.write_report(finished)


def _result_text(finished):
  from experiments.private import report_tables  # pylint: disable=g-import-not-at-top

  return report_tables.text_tables(finished_benchmark.read_benchmark(finished))


EXPERIMENT = experiment.Experiment(
    name="dp_benchmark",
    program="dp_benchmark",
    files=(benchmark_lib.LEDGERS, benchmark_lib.MEASUREMENTS),
    folders=("figures",),
    versions_of=("numpy", "scikit-learn", "scipy", "opendp", "dp-accounting"),
    read_flags=benchmark_flags.config,
    load=_load,
    measure=_measure,
    write_report=_write_report,
    result_text=_result_text,
    check_recorded=benchmark_lib.check_recorded,
    failures=lambda: (diffprivlib_process.ProcessEnded,),
)

if __name__ == "__main__":
  launch.run(experiment.build_main(EXPERIMENT))
