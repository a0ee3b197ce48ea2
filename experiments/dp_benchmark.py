"""Private k-means compared: our two methods, IBM's diffprivlib, and no privacy at all.

  bazel run experiments:dp_benchmark -- --data_dir=uci --output_dir=out

The losses are computed exactly and the noise is seeded: it is a comparison on public
data, and nothing here is private.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import contextlib

from absl import flags

from experiment_shell import output_folder
from experiment_shell import run_flags
from experiments.private import benchmark as benchmark_lib
from experiments.private import diffprivlib_process
from experiments.private import finished_benchmark
from experiments.private import flags as benchmark_flags

flags.adopt_module_key_flags(benchmark_flags)


def _print_inputs(benchmark):
  for dataset in benchmark.datasets.values():
    num_points, dim = dataset.points.shape
    print(f"data: {dataset.name}, {num_points:,} x {dim}: {dataset.source}")
  for name, reason in benchmark.skipped.items():
    print(f"left out: {name}: {reason}")


def _print_result(folder):
  from experiments.private import report_tables  # pylint: disable=g-import-not-at-top

  finished = finished_benchmark.read_benchmark(folder.path)
  print(report_tables.text_tables(finished))
  print(f"report: {folder.join(output_folder.REPORT)}")


def _run(benchmark, folder):
  from experiments.private import report  # pylint: disable=g-import-not-at-top

  with launch.input_errors():
    table = benchmark_lib.open_table(folder)
  with launch.run_errors(folder.path, diffprivlib_process.ProcessEnded):
    benchmark_lib.run(benchmark, folder, table)
    finished = finished_benchmark.read_benchmark(folder.path)
    folder.write_text(output_folder.SUMMARY, output_folder.json_text(finished.summary()))
    # The last file: a folder with a report is a finished run.
    report.write_report(folder.path)


def main():
  with launch.input_errors():
    config = benchmark_flags.config()
    folder = benchmark_lib.open_folder(
        run_flags.output_dir("dp_benchmark"), flags.FLAGS.resume, flags.FLAGS.overwrite
    )
    folder.check_same_config(config.to_json())
  if folder.is_finished:
    print(f"this run is finished: {folder.path}")
    _print_result(folder)
    return
  with contextlib.ExitStack() as stack:
    with launch.input_errors():
      benchmark = stack.enter_context(benchmark_lib.open_benchmark(
          config, flags.FLAGS.data_dir, flags.FLAGS.diffprivlib_python
      ))
      benchmark_lib.check_same_inputs(folder, benchmark)
      folder.start(benchmark.describe())
    _print_inputs(benchmark)
    print(f"results: {folder.path}")
    _run(benchmark, folder)
  _print_result(folder)


if __name__ == "__main__":
  launch.run(main)
