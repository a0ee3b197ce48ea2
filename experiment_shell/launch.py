"""Starts a program the same way under `bazel run` and under plain Python.

It works like `absl.app.run`, with these differences:

* Bad input ends the program with one line and code 2, without a usage text or traceback.
* A failure while running ends it with one line and code 1.
* Ctrl-C ends it with one line and code 130, and SIGTERM with code 143, as if the signal had killed
  it.
* It leaves no temporary files, however it ends.
* What standard output's encoding lacks is printed as escapes.
* Where nobody looks at the progress bars, such as in a pipe, they print every 30 seconds at most.
* If nobody reads the output anymore (`| head`), it ends with no line and code 141, as if
  the signal had killed it.
* Relative paths are relative to the user's working directory.

Only unexpected errors print a traceback.

A program imports this module before all others.  From then on Ctrl-C ends it properly,
even while it still imports the rest.
"""

import contextlib
import errno
import io
import logging as std_logging
import os
import select
import sys
from typing import Callable, Iterator

# First, so that Ctrl-C works while the others are imported.
from experiment_shell import interrupts
from experiment_shell import temporary_folder

# Bars take their defaults from here when tqdm is imported.
if sys.stderr is None or not sys.stderr.isatty():
  for _name in ("TQDM_DELAY", "TQDM_MININTERVAL"):
    os.environ.setdefault(_name, "30")

from absl import app
from absl import flags
from absl import logging

from clustering_basics import extras
from experiment_shell import command_line
from experiment_shell import program_help

_BAD_INPUT = 2
_FAILED = 1
_READER_GONE = 141  # 128 + SIGPIPE, as in shells.


class InputError(Exception):
  """The user's flags or files can't be used; the message is for the user."""


class RunFailed(Exception):
  """The program can't go on; the message is for the user."""


@contextlib.contextmanager
def input_errors() -> Iterator[None]:
  """Turns errors in flags, files and values into `InputError`."""
  try:
    yield
  except (ValueError, OSError) as e:
    raise InputError(str(e)) from e


@contextlib.contextmanager
def run_errors(output_dir: str, *kinds: type[Exception]) -> Iterator[None]:
  """Turns errors that end a run into `RunFailed`; the message names the output folder.

  Args:
    *kinds: The experiment's own exceptions, besides those of a full disk or memory.
  """
  expected: tuple[type[Exception], ...] = (OSError, MemoryError, *kinds)
  try:
    yield
  except expected as e:
    raise RunFailed(
        f"{str(e).rstrip('.')}. Results so far are in {output_dir}; --resume continues from there."
    ) from e


def _flush_output() -> None:
  try:
    sys.stdout.flush()
  except OSError as e:
    raise RunFailed(f"standard output can't be written ({e.strerror}).") from e


def _drop_output() -> None:
  """Discards output that is not printed yet; Python would complain of it at exit."""
  with open(os.devnull, "wb") as nowhere:
    for descriptor in (1, 2):
      os.dup2(nowhere.fileno(), descriptor)


def _reader_is_gone(error: BaseException | None) -> bool:
  """Returns whether the error means that nobody reads standard output or error."""
  while error is not None and not isinstance(error, BrokenPipeError):
    error = error.__cause__ or error.__context__
  # The broken pipe may be another one, such as a pipe to a worker.
  poll = select.poll()
  for descriptor in (1, 2):
    poll.register(descriptor, 0)  # Errors are always reported.
  return error is not None and any(event & select.POLLERR for _, event in poll.poll(0))


def _end(line: str, code: int) -> None:
  """Ends the program with a line, or without one if it can't be printed."""
  with contextlib.suppress(OSError):
    print(" ".join(line.split()), file=sys.stderr)
  try:
    _flush_output()
  except RunFailed:
    _drop_output()
  sys.exit(code)


def _end_after(error: BaseException) -> None:
  """Exits for expected errors; returns otherwise."""
  if interrupts.happened() or isinstance(error, KeyboardInterrupt):
    # The interrupt may have turned into another error, such as that of an ended worker.
    _end(interrupts.line(), interrupts.exit_code())
  if _reader_is_gone(error):
    _drop_output()
    sys.exit(_READER_GONE)
  if isinstance(error, RunFailed):
    _end(f"error: {error}", _FAILED)
  if isinstance(error, InputError):
    _end(f"error: {error}", _BAD_INPUT)
  if isinstance(error, OSError) and error.errno == errno.ENOSPC:  # Such as under standard output.
    _end(f"error: {error}", _FAILED)
  missing = isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0]
  if missing in extras.FEDERATED:
    _end(f"error: {missing} must be installed for this, and isn't; {extras.advice()}.", _FAILED)


def _parse_flags(help_: program_help.Help | None) -> list[str]:
  app.define_help_flags()
  if help_ is not None:
    program_help.define_flags(help_)
  with input_errors():
    arguments = command_line.arguments(sys.argv[1:])
  try:
    return flags.FLAGS([sys.argv[0], *arguments])
  except (flags.Error, ValueError, OSError) as e:  # There may be no working folder any more.
    raise InputError(str(e)) from e
  except SystemExit:
    # absl ends `--help` with code 1.
    _flush_output()
    sys.exit(0)


def run(main: Callable[[], None], help_: program_help.Help | None = None) -> None:
  """Parses the flags, runs `main()` and ends the program.

  `main` may raise `InputError` and `RunFailed`, with messages for the user.

  Args:
    help_: The program's flags by topic; without it, `--help` lists its flags by name.
  """
  os.chdir(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
  if sys.stdout is None:  # It was closed from the start.
    sys.stdout = open(os.devnull, "w", encoding="utf-8")
  # TensorFlow and its worker print much that the user does not need.
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  if isinstance(sys.stdout, io.TextIOWrapper):
    sys.stdout.reconfigure(errors="backslashreplace")
  logging.use_absl_handler()
  logging.get_absl_handler().setFormatter(std_logging.Formatter("warning: %(message)s"))
  try:
    arguments = _parse_flags(help_)[1:]
    if arguments:
      raise InputError(f"arguments must be flags, got {' '.join(arguments)!r}.")
    with contextlib.ExitStack() as stack:
      with input_errors():
        stack.enter_context(temporary_folder.own())
      main()
    _flush_output()
  except BaseException as e:
    _end_after(e)
    raise
  sys.exit(0)
