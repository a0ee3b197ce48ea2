"""Three-phase federated learning with client clustering, on digits or on clients' own tables.

  bazel run experiments:three_phase_emnist -- --methods=kmeans --output_dir=out

The flags, the output folder and the data are checked before TensorFlow Federated is
imported, which takes seconds.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import contextlib
from typing import Any, Iterator, Mapping

from absl import flags

from experiment_shell import experiment
from experiment_shell import finished_run
from experiment_shell import lazy_module
from experiment_shell import output_folder
from experiments.own_tables import column_flags
from experiments import reports
from experiments.three_phase import comparison
from experiments.three_phase import data
from experiments.three_phase import flags as experiment_flags
from experiments.three_phase import results
from fl_clustering import runtime

checkpoint = lazy_module.LazyModule("fl_clustering.three_phase.checkpoint")
divergence = lazy_module.LazyModule("fl_clustering.engine.divergence")
measure = lazy_module.LazyModule("experiments.three_phase.measure")

flags.adopt_module_key_flags(experiment_flags)


def _lines(config: Any, task: Any) -> tuple[str, ...]:
  clients = results.clients_text(len(task.clients))
  new = f", {len(task.new_clients):,} new" if task.new_clients else ""
  metric = data.metric_line(task)
  return (f"data: {task.source}, {clients}{new}", *filter(None, [metric]))


@contextlib.contextmanager
def _ends(folder: output_folder.OutputFolder) -> Iterator[None]:
  """Says what can be done about errors that end a run."""
  kept = f"Results so far are in {folder.path};"
  try:
    yield
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


class ThreePhase(experiment.Experiment):
  """The experiment of three phases."""

  name = "three_phase_emnist"
  program = "three_phase_emnist"
  files = (
      "assignments.json", "client_metrics.csv", "client_weights.npz",
      "clients.csv", "group_recovery.csv", "metrics.csv", "num_clusters.csv", "profiles.csv",
  )
  folders = ("checkpoints", "client_data", "figures", "model", "tensorboard")
  versions_of = ("numpy", "scikit-learn", "tensorflow", "tensorflow-federated")
  report = reports.MODULES[name]
  failures = (runtime.WorkerLost,)
  check_recorded = staticmethod(data.check_recorded)

  def config(self) -> Any:
    data_dir = flags.FLAGS.data_dir
    resumed = flags.FLAGS.output_dir if flags.FLAGS.resume else None
    settings = data.completed(
        experiment_flags.settings(), experiment_flags.OF_DIGITS, data_dir, resumed
    )
    with column_flags.naming_draft(data_dir):
      return data.config_of(settings, data_dir)

  def load(self, config: Any, recorded: Any, stack: contextlib.ExitStack) -> experiment.Inputs:
    del stack
    data.check_reuse(flags.FLAGS.reuse, flags.FLAGS.output_dir)
    data_dir = flags.FLAGS.data_dir
    task = data.load(config, data_dir, recorded)
    return experiment.Inputs(task, data.describe(config, task, data_dir), _lines(config, task))

  def measure(
      self, config: Any, inputs: experiment.Inputs, folder: output_folder.OutputFolder
  ) -> Mapping[str, Any]:
    with _ends(folder):
      return measure.run(config, inputs.data, folder, flags.FLAGS.reuse)

  def result_text(self, finished: finished_run.FinishedRun) -> str:
    return comparison.comparison_text(finished.summary)

  def advice(self, recorded: Any, path: str, config: Any) -> str:
    stages = data.stages_in_common(recorded["config"], config)
    if not stages:
      return "None of its stages can be kept."
    return (
        f"A run in another folder with --reuse={path} keeps its stages "
        f"{', '.join(stages)}."
    )


def main() -> None:
  ThreePhase().main()


def start() -> None:
  """Runs the program; a script that has a method of its own calls this."""
  launch.run(main, experiment_flags.HELP)


if __name__ == "__main__":
  start()
