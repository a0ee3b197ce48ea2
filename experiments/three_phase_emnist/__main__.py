"""Three-phase federated learning with client clustering, on digits or on clients' own tables.

  bazel run experiments:three_phase_emnist -- --methods=kmeans --output_dir=out

The flags, the output folder and the data are checked before TensorFlow Federated is
imported, which takes seconds.
"""

import importlib.util
import os

from absl import flags

from clustering_basics import validate
from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import path_flag
from experiment_shell import program
from experiments.own_tables import column_flags
from experiments.three_phase_emnist import data
from experiments.three_phase_emnist import flags as experiment_flags
from fl_clustering.three_phase import config as config_lib

path_flag.define(
    "reuse", None,
    "Folder of another run of this program: stages that started from the same there, such as "
    "phase 1 with the same settings, are copied and not trained again.")
flags.DEFINE_bool(
    "tensorboard", False,
    "Whether the run is shown in TensorBoard, while it lasts: tensorboard --logdir=OUTPUT_DIR.")


def config() -> config_lib.ThreePhaseConfig:
  """Returns the settings; ValueError if the flags don't fit."""
  data_dir = flags.FLAGS.data_dir
  settings = data.completed(
      data.with_engine(experiment_flags.settings()), experiment_flags.OF_DIGITS, data_dir
  )
  with column_flags.naming_draft(data_dir):
    return data.config_of(settings, data_dir)


def _checkpoints_to_reuse() -> str | None:
  """Returns the folder with the checkpoints of the other run; ValueError if they can't be used."""
  folder, output_dir = flags.FLAGS.reuse, flags.FLAGS.output_dir
  if folder is None:
    return None
  checkpoints = os.path.join(folder, "checkpoints")
  if not os.path.isdir(checkpoints):
    raise validate.error("reuse", "be the folder of a run, with its checkpoints", folder)
  validate.regular_files(reuse=checkpoints)
  # --overwrite would remove what is to be reused.
  if output_dir is not None and os.path.realpath(output_dir) == os.path.realpath(folder):
    raise validate.error("reuse", "be another folder than `output_dir`", folder)
  return checkpoints


def main() -> None:
  given = flags.FLAGS
  with launch.input_errors():
    settings = config()
    data.check_engine(settings.engine)
    clients_per_block = experiment_flags.clients_per_block(settings.engine)
    reuse = _checkpoints_to_reuse()
    if given.tensorboard and importlib.util.find_spec("tensorboard") is None:
      rule = "be left out where TensorBoard is not installed (pip install tensorboard)"
      raise validate.error("tensorboard", rule, True)
  from experiments.three_phase_emnist import experiment  # It takes long to import.

  try:
    program.main(
        experiment.EXPERIMENT, settings, data_dir=given.data_dir, reuse=reuse,
        clients_per_block=clients_per_block, shows_in_tensorboard=given.tensorboard,
    )
  except launch.InputError as e:
    if not isinstance(e.__cause__, output_folder.OtherConfig):
      raise
    raise launch.InputError(
        f"{e} A run in another folder with --reuse={given.output_dir} keeps the stages that start "
        "from the same."
    ) from e


def start() -> None:
  """Runs the program; a script that has a method of its own calls this."""
  launch.run(main)


if __name__ == "__main__":
  start()
