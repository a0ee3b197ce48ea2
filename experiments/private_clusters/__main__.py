"""Private clustered federated learning: one client-level (epsilon, delta) for all of it.

  bazel run experiments:private_clusters -- --dataset=digits --partition=rotated \\
      --num_clients=300 --image_size=7 --num_clusters=2 --num_groups=2
  bazel run experiments:private_clusters -- --dataset=files --data_dir=folder \\
      --schema=schema.json

A run on clients' own tables is private: `released/` in its output folder holds what may be
published, models, noisy sizes and accuracies, the ledger and a report.  All others are simulations,
which are NOT private: exact accuracies, and methods to compare with.
"""

from absl import flags

from experiment_shell import launch
from experiment_shell import option_flags
from experiment_shell import path_flag
from experiment_shell import program
from experiments.own_tables import schema_flag  # Defines `--schema`.  pylint: disable=unused-import
from experiments.private_clusters import config as config_lib
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tasks import registry as task_registry

option_flags.define(config_lib.PrivateClustersConfig)
path_flag.define("data_dir", None, task_registry.DATA_DIR)


def config() -> config_lib.PrivateClustersConfig:
  """Returns the settings; ValueError if the flags don't fit."""
  values = option_flags.given(config_lib.PrivateClustersConfig)
  if flags.FLAGS.schema is not None:
    values["schema"] = schema_lib.load(flags.FLAGS.schema)
  return config_lib.PrivateClustersConfig(**values)


def main() -> None:
  with launch.input_errors():
    settings = config()
  # They take long to import.
  from experiments.private_clusters import release
  from experiments.private_clusters import simulation

  experiment = simulation.EXPERIMENT if settings.simulation else release.EXPERIMENT
  program.main(experiment, settings, data_dir=flags.FLAGS.data_dir)


if __name__ == "__main__":
  launch.run(main)
