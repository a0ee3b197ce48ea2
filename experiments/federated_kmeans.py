"""Federated k-means: the papers' experiments, or the clusters of your own clients' data.

  bazel run experiments:federated_kmeans -- --output_dir=out
  bazel run experiments:federated_kmeans -- --data=folder --k_range=2:8 --standardize

What can be wrong with the flags, the output folder and the user's data is said before
TensorFlow Federated is imported, which takes seconds.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import functools

from absl import flags

from experiment_shell import output_folder
from experiment_shell import run_flags
from experiments.kmeans import flags as kmeans_flags
from experiments.kmeans import run_folder
from fl_clustering.points import client_folders

flags.adopt_module_key_flags(run_flags)
flags.adopt_module_key_flags(kmeans_flags)


def _open_folder(config):
  folder = run_folder.open_folder(
      run_flags.output_dir("federated_kmeans"), flags.FLAGS.resume, flags.FLAGS.overwrite
  )
  folder.check_same_config(config.to_json())
  return folder


def _failed(error, folder):
  return launch.RunFailed(
      f"{str(error).rstrip('.')}. What was computed is in {folder.path}; --resume goes on from "
      "there."
  )


def _say_finished(folder):
  print(f"this run is finished: {folder.path}")
  print(f"report: {folder.join(output_folder.REPORT)}")


def _measure_paper(config, folder, document):
  # pylint: disable=g-import-not-at-top
  import threadpoolctl

  from experiment_shell import study
  from experiments.kmeans import cells
  from experiments.kmeans import findings
  from experiments.kmeans import real_data
  from experiments.kmeans import report
  from experiments.kmeans import results as results_lib
  from experiments.kmeans import timing
  from fl_clustering import runtime
  # pylint: enable=g-import-not-at-top

  with launch.input_errors():
    table = study.Study(folder, run_folder.MEASUREMENTS, cells.KEYS, cells.VALUES)
  load_real = functools.lru_cache(maxsize=1)(
      lambda seed: real_data.load_digits(
          document["data"]["dataset"], flags.FLAGS.data_dir, seed
      )
  )
  try:
    # One thread: for so few points scikit-learn's several are ten times slower where
    # other programs run too, and add up in an order that changes from run to run.
    with runtime.LocalRuntime(), threadpoolctl.threadpool_limits(1):
      table.run(cells.cells(config.figures, config.seeds), cells.build_measure(load_real))
      dispatch = timing.measure_dispatch()
    results = results_lib.Results(table.rows)
    folder.write_text(run_folder.TIMING, output_folder.json_text(dispatch))
    folder.write_text(output_folder.SUMMARY, output_folder.json_text(results.summary()))
    # The last file: a folder with a report is a finished run.
    report.write_report(folder.path, results, document, dispatch)
  except (runtime.WorkerLost, OSError, MemoryError) as e:
    raise _failed(e, folder) from e
  print(findings.verdict(results))


def _paper_data(config, folder):
  """Returns what `config.json` says of the data."""
  if folder.recorded is not None:
    # `auto` stays with what it has chosen.
    return folder.recorded["data"]
  data = {"synthetic": "drawn by this program"}
  if "real" in config.figures:
    from experiments.kmeans import real_data  # pylint: disable=g-import-not-at-top

    name, source = real_data.describe_digits(config.dataset, flags.FLAGS.data_dir, config.seed)
    data.update(dataset=name, real=source)
  if "sse" in config.figures:
    from experiments.kmeans import real_data  # pylint: disable=g-import-not-at-top

    data["tables"] = real_data.tables_source()
  return data


def _run_paper():
  with launch.input_errors():
    config = kmeans_flags.paper_config()
    folder = _open_folder(config)
  if folder.is_finished:
    _say_finished(folder)
    return
  with launch.input_errors():
    document = run_folder.document(config, _paper_data(config, folder))
    folder.start(document)
  for what, source in document["data"].items():
    print(f"data: {what}: {source}")
  print(f"results: {folder.path}")
  _measure_paper(config, folder, document)
  print(f"report: {folder.join(output_folder.REPORT)}")


def _cluster_own_data(config, tables, folder, document):
  # pylint: disable=g-import-not-at-top
  from experiments.kmeans import own_data
  from fl_clustering import runtime

  with launch.input_errors():
    selection = own_data.open_selection(folder)
  # After the checks: Matplotlib may have lines of its own to say when it is imported.
  from experiments.kmeans import own_report
  # pylint: enable=g-import-not-at-top

  try:
    with runtime.LocalRuntime(), launch.input_errors():
      found = own_data.find_clusters(config, tables, selection)
    own_data.write_files(folder, tables, found)
    folder.write_text(
        output_folder.SUMMARY, output_folder.json_text(own_report.summary_json(found))
    )
    # The last file: a folder with a report is a finished run.
    own_report.write_report(
        folder.path, tables, found, document, config.kmeans(config.candidates[0]).min_count
    )
  except (runtime.WorkerLost, OSError, MemoryError) as e:
    raise _failed(e, folder) from e
  model = found.model
  print(
      f"{len(model.cluster_centers_)} clusters, inertia {model.inertia_:.6g}, simplified "
      f"silhouette {model.silhouette_:.3f}"
  )


def _run_own_data():
  with launch.input_errors():
    config = kmeans_flags.own_data_config()
    folder = _open_folder(config)
    tables = client_folders.read_clients(flags.FLAGS.data)
    data = run_folder.tables_description(tables)
    run_folder.check_same_data(folder, data)
    config.check_enough_points(sum(map(len, tables.points.values())))
  if folder.is_finished:
    _say_finished(folder)
    return
  with launch.input_errors():
    document = run_folder.document(config, data)
    folder.start(document)
  print(f"data: {len(tables.points)} clients in {flags.FLAGS.data}\nresults: {folder.path}")
  _cluster_own_data(config, tables, folder, document)
  print(f"report: {folder.join(output_folder.REPORT)}")


def main():
  if flags.FLAGS.data is None:
    _run_paper()
  else:
    _run_own_data()


if __name__ == "__main__":
  launch.run(main)
