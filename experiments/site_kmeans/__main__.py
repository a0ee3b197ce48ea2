"""Federated k-means of rows that stay at their sites, for the operator, who sees sums alone.

  python -m experiments.site_kmeans --federation=federation.json --kit=kits/operator \\
      --schema=schema.json --num_clusters=5 --output_dir=out

At every site `experiments.site --join` must run.
"""

from absl import flags

from experiment_shell import launch
from experiment_shell import option_flags
from experiment_shell import path_flag
from experiment_shell import program
from experiments.own_tables import schema_flag  # Defines `--schema`.  pylint: disable=unused-import
from experiments.site_kmeans import fit

option_flags.define(fit.Config)
path_flag.define("federation", None, "The file on which the sites have agreed.")
path_flag.define("kit", None, "The folder `operator` that experiments:federation --kits made.")
flags.DEFINE_float("seconds", 60.0, "How long a site may take for an answer.", lower_bound=1.0)
flags.DEFINE_float(
    "seconds_to_join", 300.0, "How long sites may take to connect.", lower_bound=1.0)

_PATHS = ("federation", "schema", "kit")


def config() -> fit.Config:
  """Returns the settings; ValueError if the flags don't fit."""
  option_flags.check_given(*_PATHS, "num_clusters")
  return fit.Config(**option_flags.given(fit.Config))


def main() -> None:
  from fl_clustering.sites import coordinator  # pylint: disable=g-import-not-at-top

  with launch.input_errors():
    settings = config()
  options = {name: flags.FLAGS[name].value for name in (*_PATHS, "seconds", "seconds_to_join")}
  try:
    program.main(fit.EXPERIMENT, settings, **options)
  except coordinator.SiteRefused as e:
    raise launch.InputError(f"{e}") from e
  except (coordinator.SiteLost, coordinator.CarrierFailed) as e:
    raise launch.RunFailed(f"{e}") from e


if __name__ == "__main__":
  launch.run(main)
