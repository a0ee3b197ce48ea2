"""Three-phase federated learning with client clustering, on digits or on clients' own tables.

  bazel run experiments:three_phase_emnist -- --methods=kmeans --output_dir=out

The flags, the output folder and the data are checked before TensorFlow Federated is
imported, which takes seconds.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

from absl import flags

from experiment_shell import experiment
from experiments import site_runs
from experiments.three_phase import comparison
from experiments.three_phase import data
from experiments.three_phase import flags as experiment_flags
from experiments.three_phase import results
from experiments import worker_flags

flags.adopt_module_key_flags(worker_flags)
flags.adopt_module_key_flags(experiment_flags)


def _clients_text(task):
  text = results.clients_text(len(task.clients), task.num_sites)
  return f"{text}, {len(task.new_clients):,} new" if task.new_clients else text


def _lines(task):
  return (f"data: {task.source}, {_clients_text(task)}",)


def _load_at_sites(config, recorded, stack):
  # pylint: disable=g-import-not-at-top
  from experiments.three_phase import site_data
  from fl_clustering import runtime
  # pylint: enable=g-import-not-at-top

  try:
    inputs = site_data.load(config, recorded, stack)
  except runtime.WorkerLost as e:
    raise launch.InputError(str(e)) from e
  return experiment.Inputs(inputs, inputs.describe(), _lines(inputs.task))


def _load(config, recorded, stack):
  experiment_flags.reuse()  # Bad input is noticed before anything is written.
  if experiment_flags.are_at_sites():
    return _load_at_sites(config, recorded, stack)
  data_dir = experiment_flags.data_dir()
  task = data.load(config, data_dir, recorded)
  return experiment.Inputs(task, data.describe(config, task, data_dir), _lines(task))


def _advise(folder, config):
  stages = data.stages_in_common(folder.recorded["config"], config)
  if not stages:
    return "None of its stages can be kept."
  return (
      f"A run in another folder with --reuse={folder.path} keeps its stages "
      f"{', '.join(stages)}."
  )


def _run(config, loaded, folder):
  # pylint: disable=g-import-not-at-top
  from experiments.three_phase import measure
  from experiments.three_phase import site_data
  # pylint: enable=g-import-not-at-top

  reuse = experiment_flags.reuse()
  if experiment_flags.are_at_sites():
    return site_data.measure_all(loaded, folder, reuse)
  return measure.run(config, loaded, folder, worker_flags.open_runtime, reuse)


def _measure(config, inputs, folder):
  # pylint: disable=g-import-not-at-top
  from fl_clustering import checkpoint
  from fl_clustering.engine import divergence
  from fl_clustering import runtime
  # pylint: enable=g-import-not-at-top

  kept = f"Results so far are in {folder.path};"
  try:
    return _run(config, inputs.data, folder)
  except checkpoint.DamagedCheckpoint as e:
    raise launch.InputError(str(e)) from e
  except divergence.TrainingDiverged as e:
    # The same run would end the same way, and it can't be resumed with other settings.
    raise launch.RunFailed(
        f"{e} {kept} another rate needs a new run, in another --output_dir or with --overwrite."
    ) from e
  except runtime.ClientFileUnreadable as e:
    raise launch.RunFailed(
        f"{e} {kept} --resume writes the clients' data again and continues from there."
    ) from e


def _build_write_report():
  from experiments.three_phase import report  # pylint: disable=g-import-not-at-top

  return lambda finished: report.write_report(results.Results(finished))


def _failures():
  from fl_clustering import runtime  # pylint: disable=g-import-not-at-top

  return (runtime.WorkerLost,)


def _result_text(finished):
  text = comparison.comparison_text(finished.summary)
  if results.Results(finished).num_sites:
    text += site_runs.without_text(finished)
  return text


EXPERIMENT = experiment.Experiment(
    name="three_phase_emnist",
    program="three_phase_emnist",
    files=(
        "assignments.json", "client_metrics.csv", "client_weights.npz", "clients.csv",
        "group_recovery.csv", "metrics.csv", "num_clusters.csv", "profiles.csv",
    ),
    folders=("checkpoints", "client_data", "figures", "model", "tensorboard"),
    versions_of=("numpy", "scikit-learn", "tensorflow", "tensorflow-federated"),
    read_flags=experiment_flags.config,
    load=_load,
    measure=_measure,
    build_write_report=_build_write_report,
    result_text=_result_text,
    check_recorded=data.check_recorded,
    advise=_advise,
    failures=_failures,
)

if __name__ == "__main__":
  launch.run(experiment.build_main(EXPERIMENT))
