"""Runs a program inside a test's own process."""

import contextlib
import functools
import io
import sys
from unittest import mock
import warnings

from absl import flags
from absl.testing import flagsaver

from experiment_shell import launch


def overriding(usual, *flags):
  """Returns flags and, before them, the usual ones that they don't give another value."""
  names = {flag.partition("=")[0] for flag in flags}
  return (*(flag for flag in usual if flag.partition("=")[0] not in names), *flags)


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


def run_program(main, *arguments):
  """Runs a program as a process would; returns its code, stdout and stderr.

  Args:
    main: As for `run_main`.
    *arguments: Likewise.
  """
  code, printed, errors = None, io.StringIO(), io.StringIO()
  with (
      flagsaver.flagsaver(), mock.patch.object(sys, "argv", ["program", *arguments]),
      contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors),
      warnings.catch_warnings(),
  ):
    # Programs don't show them, unlike tests: those of libraries, and of collected garbage.
    for category in (DeprecationWarning, ResourceWarning):
      warnings.simplefilter("ignore", category)
    try:
      launch.run(main)
    except SystemExit as e:
      code = e.code
  return code, printed.getvalue(), errors.getvalue()


@functools.cache
def _predict():
  """Returns `experiments.predict` and its flags, which have the names of other programs' flags."""
  defined = flags.FLAGS._flags()  # pylint: disable=protected-access
  names = ("run", "data_dir", "output", "overwrite", "fallback")
  with mock.patch.dict(defined):
    for name in names:
      defined.pop(name, None)
    from experiments import predict  # pylint: disable=g-import-not-at-top
    return predict, {name: defined[name] for name in names}


def run_predict(*arguments):
  """Runs the program that predicts with flags and returns what it prints."""
  program, own_flags = _predict()
  with mock.patch.dict(flags.FLAGS._flags(), own_flags):  # pylint: disable=protected-access
    return run_main(program.main, *arguments)
