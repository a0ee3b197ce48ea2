"""Runs a program inside a test's own process."""

import contextlib
import io

from absl import flags
from absl.testing import flagsaver

from experiment_shell import launch


def run_main(main, *arguments):
  """Runs a program's `main` with flags and returns what it prints.

  What would end the program with one line is raised: `launch.InputError`,
  `launch.RunFailed`.

  Args:
    main: A function without arguments, as for `launch.run`.
    *arguments: Flags, as on the command line; all others have their defaults.
  """
  printed = io.StringIO()
  with flagsaver.flagsaver(), contextlib.redirect_stdout(printed):
    try:
      flags.FLAGS(["program", *arguments])
    except flags.Error as e:
      raise launch.InputError(str(e)) from e
    main()
  return printed.getvalue()
