"""Runs an experiment's program inside a test's own process."""

import contextlib
import io

from absl import flags
from absl.testing import flagsaver

from experiment_shell import experiment as experiment_lib


def run(experiment, *arguments):
  """Runs an experiment with flags and returns what it prints.

  What ends the program with one line is raised: `launch.InputError`, `launch.RunFailed`.

  Args:
    experiment: The `Experiment`.
    *arguments: Flags, as on the command line; all others have their defaults.
  """
  printed = io.StringIO()
  with flagsaver.flagsaver(), contextlib.redirect_stdout(printed):
    flags.FLAGS(["program", *arguments])
    experiment_lib.build_main(experiment)()
  return printed.getvalue()
