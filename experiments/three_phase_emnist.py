"""Three-phase federated learning with client clustering, on digits or on clients' own tables.

  bazel run experiments:three_phase_emnist -- --methods=kmeans --output_dir=out

The flags, the output folder and the data are checked before TensorFlow Federated is
imported, which takes seconds.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import contextlib
import dataclasses
import functools

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


def _open_runtime():
  return worker_flags.open_runtime("give --dataset=files and no --data_dir")


def _lines(task):
  return (f"data: {task.source}, {_clients_text(task)}",)


def _load(config, recorded, unused_stack):
  experiment_flags.reuse()  # Bad input is noticed before anything is written.
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


def _run(config, task, folder):
  from experiments.three_phase import measure  # pylint: disable=g-import-not-at-top

  return measure.run(config, task, folder, _open_runtime, experiment_flags.reuse())


def _measure(config, inputs, folder, run=_run):
  # pylint: disable=g-import-not-at-top
  from fl_clustering.three_phase import checkpoint
  from fl_clustering.engine import divergence
  from fl_clustering import runtime
  # pylint: enable=g-import-not-at-top

  kept = f"Results so far are in {folder.path};"
  try:
    return run(config, inputs.data, folder)
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


def _at_sites(stack):
  """Connects to the sites; returns the `Experiment` on their clients.

  Args:
    stack: A `contextlib.ExitStack`; TFF computes at the sites as long as it is open.
  """
  with launch.input_errors():
    experiment_flags.check_at_sites()
    opened = site_runs.open_sites(stack)
  # pylint: disable=g-import-not-at-top
  from experiments.three_phase import site_data
  from fl_clustering import runtime
  # pylint: enable=g-import-not-at-top

  config_of = experiment_flags.config_at_sites

  def load(unused_config, recorded, unused_stack):
    experiment_flags.reuse()
    try:
      inputs = site_data.load(opened, config_of, recorded)
    except runtime.WorkerLost as e:
      raise launch.InputError(str(e)) from e
    return experiment.Inputs(inputs, inputs.describe(), _lines(inputs.task))

  def run(unused_config, inputs, folder):
    return site_data.measure_all(inputs, config_of, folder, experiment_flags.reuse())

  return dataclasses.replace(
      EXPERIMENT,
      read_flags=lambda: experiment_flags.config_to_resume(opened.sites),
      load=load,
      measure=functools.partial(_measure, run=run),
      # Loading does.
      check_recorded=lambda recorded, document: None,
  )


def main():
  with contextlib.ExitStack() as stack:
    chosen = _at_sites(stack) if experiment_flags.are_at_sites() else EXPERIMENT
    experiment.build_main(chosen)()


if __name__ == "__main__":
  launch.run(main)
