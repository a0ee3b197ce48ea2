"""Private k-means compared: our methods, and no privacy at all.

  bazel run experiments:dp_benchmark -- --data_dir=uci --output_dir=out

The losses are computed exactly and the noise is seeded: it is a comparison on public
data, and nothing here is private.
"""

from absl import flags

from experiment_shell import launch
from experiment_shell import option_flags
from experiment_shell import path_flag
from experiment_shell import program
from experiments.dp_benchmark import config as config_lib

option_flags.define(config_lib.BenchmarkConfig)
path_flag.define(
    "data_dir", None,
    "Folder with UCI's letter-recognition.data (or .gz). Default: OpenML's letters.")


def config() -> config_lib.BenchmarkConfig:
  """Returns the settings; ValueError if the flags don't fit."""
  found = config_lib.BenchmarkConfig(**option_flags.given(config_lib.BenchmarkConfig))
  if "letter" not in found.datasets:
    option_flags.check_left_out(("data_dir",), "without letter")
  return found


def main() -> None:
  with launch.input_errors():
    settings = config()
  from experiments.dp_benchmark import benchmark  # It takes long to import.

  program.main(benchmark.EXPERIMENT, settings, data_dir=flags.FLAGS.data_dir)


if __name__ == "__main__":
  launch.run(main)
