"""Starts a program the same way under `bazel run` and under plain Python.

It is `absl.app.run`, with these differences:

* Bad input ends the program with one line and code 2, without a usage text or traceback.
* A failure while running ends it with one line and code 1.
* Ctrl-C, SIGTERM and SIGHUP end it with one line, and with code 130, 143 or 129.
* It leaves no temporary files, unless it is killed.
* What standard output's encoding lacks is printed as escapes.
* Where nobody looks at the progress bars, such as in a pipe, they print every 30 seconds at most.
* If nobody reads the output anymore (`| head`), it ends with no line and code 141.
* Relative paths are relative to the user's working directory.
* Python looks for garbage less often, so that TensorFlow Federated, which makes a million objects,
  is imported faster.

Only unexpected errors print a traceback.
"""

import atexit
import contextlib
import errno
import gc
import io
import logging as std_logging
import os
import select
import shutil
import signal
import sys
import tempfile
import types
from typing import Callable, Iterator, NoReturn

# Bars take their defaults from here when tqdm is imported.
if sys.stderr is None or not sys.stderr.isatty():
  for _name in ("TQDM_DELAY", "TQDM_MININTERVAL"):
    os.environ.setdefault(_name, "30")

from absl import app
from absl import flags
from absl import logging

from clustering_basics import extras
from clustering_basics import validate
from experiment_shell import command_line

_BAD_INPUT = 2
_FAILED = 1
_READER_GONE = 141  # 128 + SIGPIPE, as in shells.
# TensorFlow fails in many words where a few kilobytes are left for temporary files.
_LEAST_BYTES = 2**20
# Python's own 700 fit programs that import less.
_OBJECTS_BETWEEN_COLLECTIONS = 10_000

# The signals that came, though another error may have come of them.
_came: list[int] = []


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


def _interrupt(number: int, unused_frame: types.FrameType | None) -> None:
  _came.append(number)
  signal.signal(number, signal.SIG_DFL)  # Who asks twice does not want to wait.
  raise KeyboardInterrupt


def _reader_is_gone(error: BaseException) -> bool:
  """Returns whether an error is that nobody reads standard output, and no other pipe."""
  poll = select.poll()
  poll.register(1, 0)  # Errors are always reported.
  is_of_pipe = BrokenPipeError in map(type, (error, error.__cause__))
  return is_of_pipe and any(event & select.POLLERR for _, event in poll.poll(0))


def _ending(error: BaseException) -> tuple[str, int]:
  """Returns the last line and the code after an error; raises it if nobody expects it."""
  if _came or isinstance(error, KeyboardInterrupt):
    code = 128 + (_came[0] if _came else signal.SIGINT)
    how = "; --resume continues from there" if "resume" in flags.FLAGS else ""
    return f"interrupted: everything saved so far is kept{how}.", code
  if _reader_is_gone(error):
    return "", _READER_GONE
  missing = isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0]
  if missing in extras.FEDERATED:
    advice = extras.advice()
    return f"error: {missing} must be installed for this, and isn't; {advice}.", _FAILED
  if isinstance(error, ModuleNotFoundError) and error.name is None:  # What we say of an extra.
    return f"error: {error}", _FAILED
  if isinstance(error, InputError):
    return f"error: {error}", _BAD_INPUT
  is_full = isinstance(error, OSError) and error.errno == errno.ENOSPC
  if is_full or isinstance(error, RunFailed):
    return f"error: {error}", _FAILED
  raise error


def _end(line: str, code: int) -> NoReturn:
  """Ends the program with a line, also where standard output can't be written."""
  try:
    sys.stdout.flush()
  except OSError as e:
    if _reader_is_gone(e):
      line, code = "", _READER_GONE
    elif not code:
      line, code = f"error: standard output can't be written ({e.strerror}).", _FAILED
    with open(os.devnull, "wb") as nowhere:  # Python would complain of it at its end.
      os.dup2(nowhere.fileno(), 1)
  if line:
    with contextlib.suppress(OSError):
      print(" ".join(line.split()), file=sys.stderr)
  sys.exit(code)


@contextlib.contextmanager
def _temporary_folder() -> Iterator[None]:
  """Gives this program, and the processes that it starts, a folder for temporary files.

  TensorFlow writes a Python file for every function that it compiles, and deletes them only when
  Python ends in the ordinary way.  This folder is deleted at the end, also by an interrupt: last of
  all, as libraries delete what they have in there when Python ends.

  Raises:
    ValueError: If there is no room for them.
  """
  before = os.environ.get("TMPDIR")
  # Python may take another one than what is meant.
  parent = os.path.abspath(before or tempfile.gettempdir())
  validate.utf_8(TMPDIR=parent)  # Or else TensorFlow can't use it.
  try:
    path = tempfile.mkdtemp(prefix="fl_clustering_", dir=parent)
    # Registered before libraries are imported, so it is called after what they register.
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    with tempfile.TemporaryFile(dir=path) as file:
      file.write(bytes(_LEAST_BYTES))
  except OSError as e:
    rule = f"be a folder with room for temporary files ({e.strerror or e})"
    raise validate.error("TMPDIR", rule, parent) from e
  tempfile.tempdir = os.environ["TMPDIR"] = path
  try:
    yield
  finally:
    tempfile.tempdir = None
    if before is None:
      del os.environ["TMPDIR"]
    else:
      os.environ["TMPDIR"] = before


def _parsed(argv: list[str]) -> list[str]:
  with input_errors():  # There may be no working folder any more.
    try:
      others = command_line.parse(argv[1:])
    except SystemExit:  # absl ends `--help` with code 1.
      _end("", 0)
    if others:
      raise ValueError(f"arguments must be flags, got {' '.join(others)!r}.")
  return [argv[0]]


def run(main: Callable[[], None]) -> None:
  """Parses the flags, runs `main()` and ends the program.

  `main` may raise `InputError` and `RunFailed`, with messages for the user.
  """
  gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
  os.chdir(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
  if sys.stdout is None:  # It was closed from the start.
    sys.stdout = open(os.devnull, "w", encoding="utf-8")
  # TensorFlow and its worker print much that the user does not need.
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  # Figures are files, of one style.  Jupyter sets a backend, which may not be installed here.
  os.environ |= {"MPLBACKEND": "agg", "MATPLOTLIBRC": os.devnull}
  if isinstance(sys.stdout, io.TextIOWrapper):
    sys.stdout.reconfigure(errors="backslashreplace")
  logging.use_absl_handler()
  logging.get_absl_handler().setFormatter(std_logging.Formatter("warning: %(message)s"))
  for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    # As of a program in the background, or of `nohup`.
    if signal.getsignal(number) is not signal.SIG_IGN:
      signal.signal(number, _interrupt)

  def in_own_folder(unused_argv: list[str]) -> None:
    with contextlib.ExitStack() as stack:
      with input_errors():
        stack.enter_context(_temporary_folder())
      main()

  try:
    app.run(in_own_folder, flags_parser=_parsed)
  except SystemExit as e:
    line, code = "", int(e.code or 0)
  except BaseException as e:
    line, code = _ending(e)
  _end(line, code)
