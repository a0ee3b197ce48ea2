"""Federated multi-view k-means against its alternatives, and against its source's claims.

  bazel run experiments:multi_view -- --datasets=digits --output_dir=out

What can be wrong with the flags, the output folder and the data is said before
TensorFlow Federated is imported, which takes seconds.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

from absl import flags

from experiment_shell import output_folder
from experiment_shell import run_flags
from experiments.multiview import config as config_lib
from experiments.multiview import flags as experiment_flags
from experiments.multiview import loaded_data
from experiments.multiview import run_folder

flags.adopt_module_key_flags(run_flags)
flags.adopt_module_key_flags(experiment_flags)


def _study(folder):
  from experiment_shell import study  # pylint: disable=g-import-not-at-top
  from experiments.multiview import cells  # pylint: disable=g-import-not-at-top
  from experiments.multiview import outcome  # pylint: disable=g-import-not-at-top

  return study.Study(folder, run_folder.MEASUREMENTS, cells.KEYS, outcome.VALUES)


def _measure(config, loaded, folder):
  """Measures what is not measured yet; returns all rows."""
  # pylint: disable=g-import-not-at-top
  from experiments.multiview import cells
  from experiments.multiview import site_clusters
  from fl_clustering import runtime
  # pylint: enable=g-import-not-at-top

  table = _study(folder)
  with runtime.LocalRuntime():
    table.run(
        cells.cells(loaded.data, loaded.with_demonstration, config),
        cells.build_measure(loaded.data, config),
    )
    if config_lib.SITES in loaded.data:
      site_clusters.write(folder, loaded.data[config_lib.SITES], config)
  return table.rows


def _run(config, loaded, folder, document):
  """Measures and writes all files; returns the rows of measurements."""
  from experiments.multiview import report  # pylint: disable=g-import-not-at-top
  from fl_clustering import runtime  # pylint: disable=g-import-not-at-top

  try:
    rows = _measure(config, loaded, folder)
    folder.write_text(
        output_folder.SUMMARY, output_folder.json_text(report.summary_json(loaded, rows))
    )
    # The last file: a folder with a report is a finished run.
    report.write_report(folder.path, loaded, rows, document)
  except (runtime.WorkerLost, OSError, MemoryError) as e:
    raise launch.RunFailed(
        f"{str(e).rstrip('.')}. What was computed is in {folder.path}; --resume goes on "
        "from there."
    ) from e
  return rows


def _print_result(folder, names, rows):
  from experiments.multiview import summary  # pylint: disable=g-import-not-at-top
  from experiments.multiview import tables  # pylint: disable=g-import-not-at-top

  for name in names:
    print(f"\n{name}\n{tables.dataset_text(summary.Results(rows, name), name)}")
  print(f"\nreport: {folder.join(output_folder.REPORT)}")


def main():
  with launch.input_errors():
    config = experiment_flags.config()
    folder = run_folder.open_folder(
        run_flags.output_dir("multi_view"), flags.FLAGS.resume, flags.FLAGS.overwrite
    )
    folder.check_same_config(config.to_json())
    loaded = loaded_data.load(config, flags.FLAGS.data_dir, flags.FLAGS.sites_dir)
    document = loaded_data.describe(config, loaded)
    loaded_data.check_same_data(folder.recorded, document)
  if folder.is_finished:
    print(f"this run is finished: {folder.path}")
    _print_result(folder, loaded.names, _study(folder).rows)
    return
  with launch.input_errors():
    folder.start(document)
  for name, reason in loaded.left_out.items():
    print(f"left out: {name}: {reason}")
  for one in loaded.data.values():
    print(f"data: {one.source}")
  print(f"results: {folder.path}")
  _print_result(folder, loaded.names, _run(config, loaded, folder, document))


if __name__ == "__main__":
  launch.run(main)
