"""Starts a program the same way under `bazel run` and under plain Python.

Like `absl.app.run`, but bad input ends with one line and code 2 instead of a
usage text or a traceback, what fails while running ends with one line and code
1, and relative paths are relative to where the user stands.  A traceback is
left for what nobody expected.
"""

import contextlib
import os
import sys

from absl import app
from absl import flags
from absl import logging

_BAD_INPUT = 2
_FAILED = 1
_INTERRUPTED = 130  # 128 + SIGINT, as shells have it.


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


def _end(kind, message, code):
  line = " ".join(str(message).split())
  print(f"{kind}: {line}", file=sys.stderr)
  sys.exit(code)


def _parse_flags():
  app.define_help_flags()
  try:
    return flags.FLAGS(sys.argv)
  except flags.Error as e:
    _end("error", e, _BAD_INPUT)
  except SystemExit:
    # absl ends `--help` with code 1.
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
  arguments = _parse_flags()[1:]
  try:
    if arguments:
      raise InputError(f"arguments must be flags, got {' '.join(arguments)!r}.")
    main()
  except InputError as e:
    _end("error", e, _BAD_INPUT)
  except RunFailed as e:
    _end("error", e, _FAILED)
  except KeyboardInterrupt:
    _end("interrupted", "what is saved is kept.", _INTERRUPTED)
  sys.exit(0)
