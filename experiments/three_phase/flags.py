"""The flags of the three-phase experiment: the only place that reads them."""

import contextlib
import os

from absl import flags

from clustering_basics import validate
from experiment_shell import finished_run
from experiment_shell import path_flag
from experiment_shell import run_flags
from experiments import table_flags
from experiments import worker_flags
from fl_clustering import config as config_lib
from fl_clustering import options
from fl_clustering.engine import aggregation
from fl_clustering.methods import num_clusters
from fl_clustering.methods import registry as method_registry
from fl_clustering.tables import table_options
from fl_clustering.tasks import files
from fl_clustering.tasks import models
from fl_clustering.tasks import partition
from fl_clustering.tasks import registry as task_registry

flags.adopt_module_key_flags(run_flags)
flags.adopt_module_key_flags(table_flags)

_DEFAULTS = config_lib.ThreePhaseConfig()


def _default(name):
  return getattr(_DEFAULTS, name)


def _listed(rows):
  """Returns what each row of a registry is."""
  return "; ".join(f"`{name}`: {row.about}" for name, row in rows.items()) + "."


path_flag.define(
    "reuse", None,
    "Folder of another run of this program: stages that started from the same there, such as "
    "phase 1 with the same settings, are copied and not trained again.")

# Data.
flags.DEFINE_enum(
    "dataset", _default("dataset"), list(task_registry.DATASETS),
    _listed(task_registry.DATASETS))
path_flag.define(
    "data_dir", None,
    "Folder of the clients' files (files; default: the clients are those of the sites that "
    "--workers names), of the IDX files (idx), or TFF's cache folder (emnist, auto; default "
    "~/.tff).")
flags.DEFINE_integer(
    "num_clients", None,
    f"Number of clients. Default: {_default('num_clients')}; with --dataset=files all of them.")
flags.DEFINE_string("label_column", None, "Column of the classes, text or numbers (files).")
flags.DEFINE_float(
    "label_above", None,
    "Makes two classes of a column of numbers: at most this number, and above it (files).")
flags.DEFINE_string(
    "split_column", None,
    "Column that says `train` or `test` of every row (files). Default: --test_share.")
flags.DEFINE_float(
    "test_share", None,
    "Share of every client's rows, drawn at random, that are for testing and not for training "
    f"(files). Default: {files.DEFAULT_TEST_SHARE}.")
flags.DEFINE_integer(
    "num_new_clients", _default("num_new_clients"),
    "How many of the clients, drawn at random, don't train. They join after the training, and "
    "every method finds a model for them.")
flags.DEFINE_enum(
    "partition", None, [task_registry.NATURAL, *partition.PARTITIONS],
    "How examples are split over clients. Default: natural (by writer) for emnist, "
    "dirichlet for the rest.")
flags.DEFINE_enum(
    "model", None, list(models.MODELS),
    _listed(models.MODELS) + " Default: mlp for files, cnn_small for the rest.")

# Training.
flags.DEFINE_integer(
    "pretrain_rounds", _default("pretrain_rounds"), "Rounds of phase 1.")
flags.DEFINE_integer(
    "cluster_rounds", _default("cluster_rounds"), "Rounds of phase 2.")
flags.DEFINE_integer(
    "client_epochs_per_round", _default("client_epochs_per_round"),
    "Passes of a client over its data in a round.")
flags.DEFINE_integer(
    "clients_per_round", None,
    "How many clients take part in each round of both phases, drawn at random. Default: "
    "all.")
flags.DEFINE_integer("batch_size", _default("batch_size"), "Examples per step of SGD.")
flags.DEFINE_float("learning_rate", _default("learning_rate"), "Step size of SGD.")
flags.DEFINE_enum(
    "aggregator", _default("aggregator"), list(aggregation.AGGREGATORS),
    "How phase 1 averages (cluster training and the controls always by `mean`). "
    + _listed(aggregation.AGGREGATORS)
    + " The guarantee covers the global models of phase 1 for whoever sees nothing else: "
    "not the clients' own weights, which the server gets unprotected to group them, and "
    "nothing that follows from those. --clients_per_round does not improve it, since the "
    "draw follows from --seed: what counts is the number of rounds of the client that takes "
    "part most often. The noise of dp does not follow --seed.")

# Methods.
flags.DEFINE_list(
    "methods", ",".join(_default("methods")),
    "Comma-separated, of: " + ", ".join(method_registry.METHODS) + ". All that "
    "build on phase 1 share it. The controls " + ", ".join(method_registry.CONTROLS)
    + " always run.")
flags.DEFINE_alias("groupings", "methods")
flags.DEFINE_enum(
    "num_clusters_criterion", None, list(num_clusters.CRITERIA),
    "What chooses the number of clusters with --num_clusters=auto, from the clients' own "
    f"weights. Default: {num_clusters.DEFAULT_CRITERION}.")
flags.DEFINE_integer(
    "grouping_epochs", None,
    "Every client trains for this many epochs from the final global model, and the "
    "resulting weights are grouped. Default: no such training; the weights of the last "
    "round are grouped.")

# Evaluation.
flags.DEFINE_integer(
    "control_repeats", _default("control_repeats"),
    "How often the control fedavg is trained again, with other random numbers. The intervals "
    "of the gains then include the chance in training; without repeats they are about "
    "this run's models only.")
flags.DEFINE_float(
    "target_accuracy", _default("target_accuracy"),
    "The share of clients that reach this accuracy, above 0 and at most 1, is reported.")
flags.DEFINE_integer("seed", _default("seed"), "Seed of everything random but dp's noise.")


class _NumberOrWord(flags.ArgumentParser):
  """Parses a flag whose value is an integer or a word."""

  def __init__(self, word):
    self.syntactic_help = f"an integer or {word}"
    self._word = word

  def parse(self, argument):
    if isinstance(argument, int) or argument == self._word:
      return argument
    try:
      return int(argument)
    except ValueError as e:
      raise ValueError(f"must be {self.syntactic_help}, got {argument!r}") from e

  def flag_type(self):
    return self.syntactic_help


def _define_option(name, users):
  """Defines the flag of an option; arguments as in `config.OPTIONS`."""
  option = next(iter(users.values()))
  text = options.describe(users)
  if option.values is not None:
    flags.DEFINE_enum(name, None, list(option.values), text)
    return
  if option.word is not None:
    flags.DEFINE(_NumberOrWord(option.word), name, None, f"{text} Or `{option.word}`.")
    return
  define = {
      int: flags.DEFINE_integer, float: flags.DEFINE_float, str: flags.DEFINE_string
  }
  define[option.kind](name, None, text)


# The options of partitions, models, aggregators and methods, such as --num_clusters: the
# fields of the dataclasses in `tasks/`, `engine/aggregation.py` and `grouping/`.
for _by_name in config_lib.OPTIONS.values():
  for _name, _users in _by_name.items():
    _define_option(_name, _users)

_OF_LABELS = ("label_column", "label_above", "split_column")
_CONFIG_FLAGS = tuple(
    name for name in config_lib.ThreePhaseConfig.__dataclass_fields__ if name != "tables"
)


def are_at_sites():
  """Returns whether the workers own the clients."""
  given = flags.FLAGS
  reads_tables = task_registry.DATASETS[given.dataset].reads_tables
  return bool(reads_tables and worker_flags.addresses()) and given.data_dir is None


def data_dir():
  """Returns where the data come from, or None."""
  return flags.FLAGS.data_dir


def reuse():
  """Returns the folder of the run whose stages are reused, or None.

  Raises:
    ValueError: If it is no folder of another run.
  """
  folder = flags.FLAGS.reuse
  if folder is None:
    return None
  if not os.path.isdir(os.path.join(folder, "checkpoints")):
    raise ValueError(
        f"`reuse` must be the folder of a run, with its checkpoints, got {folder!r}."
    )
  output_dir = flags.FLAGS.output_dir
  # --overwrite would remove what is to be reused.
  if output_dir is not None and os.path.realpath(output_dir) == os.path.realpath(folder):
    raise ValueError(f"`reuse` must be another folder than `output_dir`, got {folder!r}.")
  return folder


def _config(tables, num_clients):
  values = {name: getattr(flags.FLAGS, name) for name in _CONFIG_FLAGS if name != "num_clients"}
  methods = tuple(name for name in values.pop("methods") if name)
  return config_lib.ThreePhaseConfig(
      methods=methods, tables=tables, num_clients=num_clients, **values
  )


def config():
  """Returns the `ThreePhaseConfig` of the flags; ValueError if they don't fit."""
  tables = _tables()
  return _config(tables, _num_clients(tables))


def check_at_sites():
  """Raises a ValueError if a flag was given that sites say for themselves."""
  given = _given()
  if flags.FLAGS.num_clients is not None:
    given["num_clients"] = flags.FLAGS.num_clients
  for name, value in given.items():
    why = "can't fill in missing cells" if name == "missing" else "say it"
    raise validate.error(
        name, f"be left out without `data_dir`, where the sites that `workers` names {why}", value
    )


def config_at_sites(sites):
  """Returns the `ThreePhaseConfig` of the flags for the clients of sites.

  Args:
    sites: The `Sites`.

  Raises:
    ValueError: If the flags or the clients don't fit.
  """
  return _config(sites.format.options, _num_clients_at(sites))


def config_to_resume(sites):
  """Returns what `config_at_sites` does, but with as many clients as the run to resume has.

  It may have begun with other sites.

  Args:
    sites: The `Sites`.

  Raises:
    ValueError: If the flags or the clients don't fit.
  """
  found = _num_clients_at(sites)
  return _config(sites.format.options, _recorded_num_clients() or found)


def _num_clients_at(sites):
  from fl_clustering.tasks import site_task  # pylint: disable=g-import-not-at-top; with TFF.

  return site_task.num_clients(sites, flags.FLAGS.test_share, flags.FLAGS.seed)


def _recorded_num_clients():
  """Returns how many clients the run to resume has; None without one that can be read."""
  if flags.FLAGS.resume and flags.FLAGS.output_dir is not None:
    # What is wrong with the folder is said when it is opened.
    with contextlib.suppress(OSError, ValueError, AttributeError):
      return finished_run.FinishedRun(flags.FLAGS.output_dir).settings.get("num_clients")
  return None


def _given():
  """Returns the flags of tables that were given, a dict of arguments of `TableOptions`."""
  given = {name: getattr(flags.FLAGS, name) for name in _OF_LABELS}
  given = {name: value for name, value in given.items() if value is not None}
  return given | table_flags.given()


def _tables():
  """Returns the `TableOptions` of the flags, or None if there are none and none are needed."""
  given = _given()
  reads_tables = task_registry.DATASETS[flags.FLAGS.dataset].reads_tables
  return table_options.TableOptions(**given) if given or reads_tables else None


def _num_clients(tables):
  """Returns the number of clients, which files have themselves."""
  dataset, test_share = flags.FLAGS.dataset, flags.FLAGS.test_share
  if task_registry.DATASETS[dataset].reads_tables and data_dir() is None:
    raise validate.error(
        "data_dir", "name the folder with the clients' files, or `workers` the sites that have "
        "them", None,
    )
  task_registry.check_tables(dataset, tables, test_share)
  num_clients = flags.FLAGS.num_clients
  if not task_registry.DATASETS[dataset].reads_tables:
    return _default("num_clients") if num_clients is None else num_clients
  if num_clients is not None:
    raise validate.error("num_clients", f"be left out for `dataset` {dataset}", num_clients)
  return files.num_clients(data_dir(), tables, test_share, flags.FLAGS.seed)
