"""The flags of private clustered training."""

from __future__ import annotations

from typing import Any

from absl import flags

from experiment_shell import path_flag
from experiment_shell import program_help
from experiment_shell import run_flags
from experiments import option_flags
from experiments.private_training import config as config_lib
from fl_clustering.tasks import schema as schema_lib

flags.adopt_module_key_flags(run_flags)

option_flags.define(config_lib.PrivateClustersConfig)
for _by_name in config_lib.OPTIONS.values():
  option_flags.define_of_choices(_by_name)
path_flag.define(
    "data_dir", None,
    "Folder of the clients' files (files), of the IDX files (idx), or TFF's cache folder (emnist, "
    "auto; default ~/.tff).")
path_flag.define(
    "schema", None,
    "File that says what is public of the clients' tables (files), as experiments:draft_schema "
    "drafts it.")


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
            *config_lib.OPTIONS["partition"], "examples_per_client", "image_size", "seed"
        ),
        "training": (*config_lib.OPTIONS["model"],),
        "privacy": ("min_clients",),
        "output": run_flags.NAMES,
    },
)


def settings() -> dict[str, Any]:
  """Returns the settings that are given or have a default as flags."""
  of_choices = {
      name: getattr(flags.FLAGS, name) for names in config_lib.OPTIONS.values() for name in names
  }
  given = {**option_flags.given(config_lib.PrivateClustersConfig), **of_choices}
  if flags.FLAGS.schema is not None:
    given["schema"] = schema_lib.Schema.read(flags.FLAGS.schema)
  return given
