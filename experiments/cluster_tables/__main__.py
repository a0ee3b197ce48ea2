"""The clusters of your own tables: rows or views, exact or private, here or at several sites.

  bazel run experiments:cluster_tables -- --data_dir=folder --k_range=2:8
  bazel run experiments:cluster_tables -- --data_dir=folder \\
      --schema=schema.json --num_clusters=3 --epsilon=1 --delta=1e-6
  python -m experiments.cluster_tables --federation=federation.json --kit=kits/operator \\
      --schema=schema.json --num_clusters=5 --output_dir=out

The last one is for the operator of sites, who sees sums alone.  At every site
`experiments.site --join` must run.
"""

import re
from typing import Any

from absl import flags

from clustering_basics import validate
from experiment_shell import launch
from experiment_shell import option_flags
from experiment_shell import path_flag
from experiment_shell import program
from experiments.cluster_tables import config as config_lib
from experiments.own_tables import column_flags
from fl_clustering.tables import views

option_flags.define(config_lib.Config)
path_flag.define(
    "data_dir", None,
    "A folder with a file per client, .csv, .csv.gz, .parquet or .npz; of views, with a folder per "
    "client, which has a file per view. A file `labels` beside these, with classes, is used for "
    "scores only.")
flags.DEFINE_string(
    "k_range", None,
    "Numbers of clusters to try, as FROM:TO, of rows without --epsilon. The best simplified "
    "silhouette wins. Default: 2:10.")
flags.DEFINE_list(
    "view_norms", None,
    "In the place of --radius, for views: likewise a distance for each, in the order of their "
    "names.")
path_flag.define(
    "federation", None,
    "In the place of --data_dir: the file on which several sites have agreed, where the rows stay.")
path_flag.define(
    "kit", None, "The folder `operator` that experiments:federation --kits made (--federation).")
flags.DEFINE_float(
    "seconds", 60.0, "How long a site may take for an answer (--federation).", lower_bound=1.0)
flags.DEFINE_float(
    "seconds_to_join", 300.0, "How long sites may take to connect (--federation).", lower_bound=1.0)

_OF_SITES = ("kit", "seconds", "seconds_to_join")


def _settings() -> dict[str, Any]:
  """Returns the settings that flags give; ValueError if one can't be read."""
  values, k_range = option_flags.given(config_lib.Config), flags.FLAGS.k_range
  if k_range is not None:
    match = re.fullmatch(r"(\d+):(\d+)", k_range)
    if not match:
      raise ValueError(f"`k_range` must be two numbers such as 2:10, got {k_range!r}.")
    values["k_range"] = (int(match[1]), int(match[2]))
  norms = option_flags.numbers("view_norms")
  return {**values, "view_norms": None if norms is None else tuple(norms)}


def config() -> config_lib.Config:
  """Returns the settings; ValueError if the flags don't fit."""
  data_dir, settings = flags.FLAGS.data_dir, _settings()
  if (data_dir is None) == (flags.FLAGS.federation is None):
    raise validate.error("data_dir", "be given, or else `federation`", data_dir)
  if data_dir is None:
    option_flags.check_left_out(column_flags.NAMES, "with --federation")
    option_flags.check_given("schema", "kit")
    return config_lib.Config(views.load(flags.FLAGS.schema), at_sites=True, **settings)
  option_flags.check_left_out(_OF_SITES, "without --federation")
  if flags.FLAGS.epsilon is not None and flags.FLAGS.schema is None:
    # Before a file is read: where no line has the columns' names, the first one is a row.
    raise validate.error("schema", "be given with `epsilon`", None)
  return config_lib.Config(column_flags.schemas(data_dir, views.are_in(data_dir)), **settings)


def main() -> None:
  with launch.input_errors():
    settings = config()
  from experiments.cluster_tables import experiment  # It takes long to import.

  if settings.at_sites:
    options = {name: flags.FLAGS[name].value for name in ("federation", *_OF_SITES)}
  else:
    data_dir = flags.FLAGS.data_dir
    options = {"data_dir": data_dir, "advice": column_flags.naming_draft(data_dir)}
  program.main(experiment.EXPERIMENT, settings, **options)


if __name__ == "__main__":
  launch.run(main)
