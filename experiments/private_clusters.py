"""Private clustered federated learning: one client-level (epsilon, delta) for all of it.

  bazel run experiments:private_clusters -- --dataset=digits --output_dir=out
  bazel run experiments:private_clusters -- --dataset=files --data_dir=folder \\
      --schema=schema.json

A run on clients' own tables is private: `released/` in its output folder holds what may be
published, models, noisy sizes and accuracies, the ledger and a report.  All others are simulations,
which are NOT private: exact accuracies, and methods to compare with.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

from absl import flags

from experiment_shell import option_flags
from experiment_shell import path_flag
from experiment_shell import program_help
from experiment_shell import run_flags
from experiment_shell import tidy_experiment
from experiments.own_tables import schema_flag
from experiments.private_training import config as config_lib
from fl_clustering.tables import schema as schema_lib

flags.adopt_module_key_flags(run_flags)

option_flags.define(config_lib.PrivateClustersConfig)
path_flag.define(
    "data_dir", None,
    "Folder of the clients' files (files), of the IDX files (idx), or TFF's cache folder (emnist, "
    "auto; default ~/.tff).")
flags.adopt_module_key_flags(schema_flag)

_OF_CHOICES = config_lib.PrivateClustersConfig.of_choices

HELP = program_help.Help(
    {
        "data": ("dataset", "data_dir", "schema", "num_clients", "partition"),
        "training": ("model", "rounds", "local_steps", "learning_rate"),
        "methods": ("num_clusters", "simulation", "num_seeds"),
        "privacy": ("epsilon", "delta", "trust"),
        "output": run_flags.NAMES[:2],
    },
    {
        "data": (
            *_OF_CHOICES["partition"], "examples_per_client", "image_size", "seed"
        ),
        "training": (*_OF_CHOICES["model"],),
        "privacy": ("min_clients",),
        "output": run_flags.NAMES,
    },
)


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
  # pylint: disable=g-import-not-at-top
  if settings.simulation:
    from experiments.private_training import simulation

    tidy_experiment.main(simulation.EXPERIMENT, settings, data_dir=flags.FLAGS.data_dir)
  else:
    from experiments.private_training import release

    release.main(settings, flags.FLAGS.data_dir)


if __name__ == "__main__":
  launch.run(main, HELP)
