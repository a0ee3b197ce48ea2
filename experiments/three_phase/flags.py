"""The flags of the three-phase experiment."""

from typing import Any

from absl import flags

from clustering_basics import validate
from experiment_shell import path_flag
from experiment_shell import program_help
from experiment_shell import run_flags
from experiments import option_flags
from experiments import table_flags
from experiments import worker_flags
from fl_clustering import config as config_lib
from fl_clustering.methods import registry as method_registry
from fl_clustering.tables import table_options
from fl_clustering.tasks import registry as task_registry

flags.adopt_module_key_flags(run_flags)

path_flag.define(
    "reuse", None,
    "Folder of another run of this program: stages that started from the same there, such as "
    "phase 1 with the same settings, are copied and not trained again.")
path_flag.define(
    "data_dir", None,
    "Folder of the clients' files (files; default: the clients are those of the sites that "
    "--workers names), of the IDX files (idx), or TFF's cache folder (emnist, auto; default "
    "~/.tff).")
table_flags.define_of_labels()
flags.adopt_module_key_flags(table_flags)

# The defaults of a single run on the digits: clients that differ in kind and in labels, with
# settings under which a grouping finds the kinds.
OF_DIGITS = {
    "partition": "rotated",
    "dirichlet_alpha": 0.5,
    "num_clients": 20,
    "pretrain_rounds": 10,
    "cluster_rounds": 8,
    "client_epochs_per_round": 2,
    "learning_rate": 0.05,
    "num_clusters": 4,
    "representation": "normalized_update",
}
_ON_DIGITS = "Of three_phase_emnist on digits"

# --num_clients and so on, and the options of partitions, models, aggregators and methods, such as
# --num_clusters.
option_flags.define(config_lib.ThreePhaseConfig, OF_DIGITS, _ON_DIGITS)
for _by_name in config_lib.OPTIONS.values():
  option_flags.define_of_choices(_by_name, OF_DIGITS, _ON_DIGITS)
flags.DEFINE_alias("groupings", "methods")


HELP = program_help.Help(
    {
        "data": ("dataset", "data_dir", "num_clients", "partition"),
        "tables": ("label_column", "categories"),
        "training": ("model", "pretrain_rounds", "cluster_rounds", "learning_rate"),
        "methods": ("methods", "num_clusters"),
        "privacy": ("aggregator",),
        "machines": ("workers",),
        "output": ("output_dir", "resume"),
    },
    {
        "data": (
            *config_lib.OPTIONS["partition"], "num_new_clients", "test_share", "validation_share",
            "seed",
        ),
        "tables": (*table_flags.OF_LABELS, *table_flags.NAMES),
        "training": (
            *config_lib.OPTIONS["model"], "client_epochs_per_round", "clients_per_round",
            "batch_size",
        ),
        "privacy": (*config_lib.OPTIONS["aggregator"], "client_epsilon", "client_delta"),
        "methods": (
            *config_lib.OPTIONS["methods"], "groupings", "num_clusters_criterion",
            "grouping_epochs", "article_weights", "personal", *config_lib.OPTIONS["personal"],
            "control_repeats", "method_repeats", "target_accuracy",
        ),
        "machines": worker_flags.NAMES,
        "output": (*run_flags.NAMES, "reuse"),
    },
)


def _reads_tables() -> bool:
  return task_registry.DATASETS[flags.FLAGS.dataset].reads_tables


def are_at_sites() -> bool:
  """Returns whether the workers own the clients."""
  return _reads_tables() and bool(worker_flags.addresses()) and flags.FLAGS.data_dir is None


def _check_workers() -> None:
  """Raises a ValueError if a method needs its clients' own files on this machine."""
  names = flags.FLAGS.methods if worker_flags.addresses() else ()
  for name in names:
    if name in method_registry.METHODS and method_registry.METHODS[name].simulates_privacy:
      raise validate.error(
          "workers", f"be left out with the method {name}", ",".join(worker_flags.addresses())
      )


def settings() -> dict[str, Any]:
  """Returns the settings of a `ThreePhaseConfig` that are given or have a default as flags."""
  _check_workers()
  given = table_flags.given()
  tables = table_options.TableOptions(**given) if given or _reads_tables() else None
  of_choices = {
      name: getattr(flags.FLAGS, name) for names in config_lib.OPTIONS.values() for name in names
  }
  return {**option_flags.given(config_lib.ThreePhaseConfig), **of_choices, "tables": tables}


def check_at_sites() -> None:
  """Raises a ValueError if a flag was given that sites say for themselves, or can't follow."""
  _check_workers()
  given = table_flags.given()
  if flags.FLAGS.num_clients is not None:
    given["num_clients"] = flags.FLAGS.num_clients
  for name, value in given.items():
    why = "can't fill in missing cells" if name == "missing" else "say it"
    raise validate.error(
        name, f"be left out without `data_dir`, where the sites that `workers` names {why}", value
    )
