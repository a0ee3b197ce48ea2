"""Three-phase federated learning with client clustering, on handwritten digits.

  bazel run experiments:three_phase_emnist -- --groupings=kmeans --output_dir=out

What can be wrong with the flags, the output folder and the data is said before
TensorFlow Federated is imported, which takes seconds.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

from absl import flags

from experiment_shell import output_folder
from experiment_shell import run_flags
from experiments.three_phase import comparison
from experiments.three_phase import flags as experiment_flags
from experiments.three_phase import run_folder
from fl_clustering.tasks import registry as task_registry

flags.adopt_module_key_flags(experiment_flags)


def _load_task(config, folder):
  """Returns the task; a run to resume keeps the data set that `auto` chose."""
  dataset, data_dir = config.dataset, flags.FLAGS.data_dir
  if dataset == "auto" and folder.recorded is not None:
    dataset = folder.recorded["dataset"]["name"]
    # EMNIST's cache folder, where it was not found, is nothing to the digits.
    data_dir = data_dir if dataset == "emnist" else None
  return task_registry.load_task(
      dataset=dataset,
      data_dir=data_dir,
      num_clients=config.num_clients,
      partition=config.partition,
      model=config.model,
      seed=config.seed,
      **config.partition_options,
  )


def _print_result(folder, summary):
  print(comparison.comparison_table_text(summary))
  print(f"report: {folder.join(output_folder.REPORT)}")


def _run(config, task, folder):
  # pylint: disable=g-import-not-at-top
  from experiments.three_phase import group_recovery
  from experiments.three_phase import progress
  from experiments.three_phase import report
  from experiments.three_phase import results
  from fl_clustering import checkpoint
  from fl_clustering.engine import federated_training
  from fl_clustering import runtime
  from fl_clustering import three_phase
  # pylint: enable=g-import-not-at-top

  failures = (federated_training.TrainingDiverged, runtime.WorkerLost)
  try:
    with launch.run_errors(folder.path, *failures):
      writer = results.RunWriter(folder)
      with runtime.LocalRuntime(), progress.ProgressBar() as bar:
        result = three_phase.run(
            config, task, run_folder.client_data(folder), run_folder.checkpoints(folder),
            [writer, bar],
        )
        recovery = group_recovery.recovery_rows(config, task, result)
      summary = writer.finish(config, task, result, recovery)
      run_folder.finish(folder)
      # The last file: a folder with a report is a finished run.
      report.write_report(folder.path)
  except checkpoint.DamagedCheckpoint as e:
    raise launch.InputError(str(e)) from e
  return summary


def main():
  with launch.input_errors():
    config = experiment_flags.config()
    folder = run_folder.open_folder(
        run_flags.output_dir("three_phase_emnist"),
        flags.FLAGS.resume,
        flags.FLAGS.overwrite,
    )
    folder.check_same_config(config.to_json())
  if folder.is_finished:
    print(f"this run is finished: {folder.path}")
    _print_result(folder, folder.read_json(output_folder.SUMMARY))
    return
  with launch.input_errors():
    task = _load_task(config, folder)
    run_folder.start(folder, config, task, flags.FLAGS.data_dir)
  print(f"data: {task.source}, {len(task.clients)} clients\nresults: {folder.path}")
  _print_result(folder, _run(config, task, folder))


if __name__ == "__main__":
  launch.run(main)
