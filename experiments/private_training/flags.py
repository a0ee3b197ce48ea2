"""The flags of private clustered training: the only place that reads them."""

from __future__ import annotations

from typing import Any

from absl import flags

from clustering_basics import validate
from experiment_shell import path_flag
from experiment_shell import run_flags
from experiments import option_flags
from experiments.private_training import config as config_lib

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
    "File with what is public of the clients' tables: columns, scales, levels and classes (files). "
    "Nothing of that is found out from the tables.")


def settings() -> dict[str, Any]:
  """Returns the settings that are given or have a default as flags, without those of tables."""
  of_choices = {
      name: getattr(flags.FLAGS, name) for names in config_lib.OPTIONS.values() for name in names
  }
  return {**option_flags.given(config_lib.PrivateClustersConfig), **of_choices}


def data_dir() -> str | None:
  """Returns where the data come from, or None."""
  return flags.FLAGS.data_dir


def schema() -> str | None:
  """Returns the path of the schema of tables; ValueError if it is missing or not used."""
  is_needed = flags.FLAGS.dataset == config_lib.FILES
  path = flags.FLAGS.schema
  if is_needed and path is None:
    raise validate.error(
        "schema",
        "name a file that says what is public of the clients' tables, as nothing may be found out "
        "from them", path,
    )
  if not is_needed and path is not None:
    raise validate.error("schema", f"be left out with `dataset` {flags.FLAGS.dataset}", path)
  return path
