"""Private clustering of synthetic data: loss and quality for several k and epsilons.

  bazel run dp_clustering/demo:clustering_demo -- --k_to_try=2,8,32 --output_dir=out

The centers are private.  Loss and quality are not: the demo computes them exactly.
"""

from dp_clustering.demo import config
from experiment_shell import launch
from experiment_shell import option_flags
from experiment_shell import program

option_flags.define(config.DemoConfig)


def main() -> None:
  with launch.input_errors():
    settings = config.DemoConfig(**option_flags.given(config.DemoConfig))
  from dp_clustering.demo import sweeps  # It takes long to import.

  program.main(sweeps.EXPERIMENT, settings)


if __name__ == "__main__":
  launch.run(main)
