"""Three-phase federated learning with client clustering, on digits or on clients' own tables.

  bazel run experiments:three_phase_emnist -- --methods=kmeans --output_dir=out

The flags, the output folder and the data are checked before TensorFlow Federated is
imported, which takes seconds.
"""

from absl import flags

from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import program
from experiments.own_tables import column_flags
from experiments.three_phase_emnist import data
from experiments.three_phase_emnist import flags as experiment_flags
from fl_clustering.three_phase import config as config_lib


def _chosen() -> str | None:
  return data.chosen_dataset(flags.FLAGS.output_dir if flags.FLAGS.resume else None)


def config() -> config_lib.ThreePhaseConfig:
  """Returns the settings; ValueError if the flags don't fit."""
  data_dir = flags.FLAGS.data_dir
  settings = data.completed(
      data.with_engine(experiment_flags.settings()), experiment_flags.OF_DIGITS, data_dir,
      _chosen(),
  )
  with column_flags.naming_draft(data_dir):
    return data.config_of(settings, data_dir)


def _advice(settings: config_lib.ThreePhaseConfig) -> str:
  """Returns what the user can do whose settings are not those of the run to resume."""
  path = flags.FLAGS.output_dir
  stages = data.stages_in_common(finished_run.FinishedRun(path).settings, settings)
  if not stages:
    return "None of its stages can be kept."
  return f"A run in another folder with --reuse={path} keeps its stages {', '.join(stages)}."


def main() -> None:
  given = flags.FLAGS
  with launch.input_errors():
    settings = config()
    data.check_engine(settings.engine)
    clients_per_block = experiment_flags.clients_per_block(settings.engine)
    data.check_reuse(given.reuse, given.output_dir)
  from experiments.three_phase_emnist import experiment  # It takes long to import.

  try:
    program.main(
        experiment.EXPERIMENT, settings, data_dir=given.data_dir, chosen=_chosen(),
        reuse=given.reuse, clients_per_block=clients_per_block,
    )
  except launch.InputError as e:
    if not isinstance(e.__cause__, output_folder.OtherConfig):
      raise
    with launch.input_errors():
      raise launch.InputError(f"{e} {_advice(settings)}") from e


def start() -> None:
  """Runs the program; a script that has a method of its own calls this."""
  launch.run(main)


if __name__ == "__main__":
  start()
