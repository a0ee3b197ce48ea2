"""Starts a program the same way under `bazel run` and under plain Python.

Like `absl.app.run`, but bad input ends with one line and code 2 instead of a
usage text or a traceback, what fails while running ends with one line and code
1, and relative paths are relative to where the user stands.  Ctrl-C ends with one
line and code 130, a reader of the output that has gone (`| head`) with no line and
code 141, both as of a program that its signal kills.  A traceback is left for what
nobody expected.

A program imports this module before all others: from then on Ctrl-C ends it well,
also while it still imports the rest.
"""

import contextlib
import os
import select
import sys

# First, for Ctrl-C while the others are imported.
from experiment_shell import interrupts

from absl import app
from absl import flags
from absl import logging

_BAD_INPUT = 2
_FAILED = 1
_READER_GONE = 141  # 128 + SIGPIPE, as shells have it.


class InputError(Exception):
  """The user's flags or files can't be used; the message is for the user."""


class RunFailed(Exception):
  """The program can't go on; the message is for the user."""


@contextlib.contextmanager
def input_errors():
  """Turns errors in flags, files and values into `InputError`."""
  try:
    yield
  except (ValueError, OSError) as e:
    raise InputError(str(e)) from e


@contextlib.contextmanager
def run_errors(output_dir, *kinds):
  """Turns errors that end a run into `RunFailed`, with where its results are.

  Args:
    output_dir: The folder that a resumed run goes on from.
    *kinds: The experiment's own exceptions, beside a full disk or memory.
  """
  try:
    yield
  except (OSError, MemoryError, *kinds) as e:
    raise RunFailed(
        f"{str(e).rstrip('.')}. What was computed is in {output_dir}; --resume goes "
        "on from there."
    ) from e


def _flush_output():
  try:
    if sys.stdout is not None:  # As it is where it was closed from the start.
      sys.stdout.flush()
  except OSError as e:
    raise RunFailed(f"standard output can't be written ({e.strerror}).") from e


def _drop_output():
  """Lets go what is not printed yet, which Python would complain of at its end."""
  with open(os.devnull, "wb") as nowhere:
    for descriptor in (1, 2):
      os.dup2(nowhere.fileno(), descriptor)


def _reader_is_gone(error):
  """Returns whether an error is that nobody reads standard output or error anymore."""
  while error is not None and not isinstance(error, BrokenPipeError):
    error = error.__cause__ or error.__context__
  # There are other pipes, such as those to workers.
  poll = select.poll()
  for descriptor in (1, 2):
    poll.register(descriptor, 0)  # Errors are told without being asked for.
  return error is not None and any(event & select.POLLERR for _, event in poll.poll(0))


def _end(line, code):
  """Ends the program with a line, or without it if it can't be printed."""
  with contextlib.suppress(OSError):
    print(" ".join(line.split()), file=sys.stderr)
  try:
    _flush_output()
  except RunFailed:
    _drop_output()
  sys.exit(code)


def _end_after(error):
  """Ends the program after what it shall end with one line or none; else returns."""
  if interrupts.happened() or isinstance(error, KeyboardInterrupt):
    # Also after what an interrupt became on its way, such as a worker that it ended.
    _end(interrupts.LINE, interrupts.EXIT_CODE)
  if _reader_is_gone(error):
    _drop_output()
    sys.exit(_READER_GONE)
  if isinstance(error, InputError):
    _end(f"error: {error}", _BAD_INPUT)
  if isinstance(error, RunFailed):
    _end(f"error: {error}", _FAILED)


def _parse_flags():
  app.define_help_flags()
  try:
    return flags.FLAGS(sys.argv)
  except flags.Error as e:
    raise InputError(str(e)) from e
  except SystemExit:
    # absl ends `--help` with code 1.
    _flush_output()
    sys.exit(0)


def run(main):
  """Runs `main()` after the flags are parsed, and ends the program.

  Args:
    main: A function without arguments. It raises `InputError` and `RunFailed` for
      what the user should read.
  """
  os.chdir(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
  # TensorFlow and its worker print much that is not for the user.
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  logging.use_absl_handler()
  logging.get_absl_handler().setFormatter(None)
  try:
    arguments = _parse_flags()[1:]
    if arguments:
      raise InputError(f"arguments must be flags, got {' '.join(arguments)!r}.")
    main()
    _flush_output()
  except BaseException as e:
    _end_after(e)
    raise
  sys.exit(0)
