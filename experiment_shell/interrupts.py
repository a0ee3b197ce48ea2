"""Ends a program on Ctrl-C or SIGTERM with one line, from the import of this module on.

Python raises a `KeyboardInterrupt` wherever the program is.  That fails during an import:
an import runs the C code of extension modules, which turns the exception into another
error, or prints it and continues.  A program that is importing therefore ends at once.

This module imports nothing that is slow, so it is ready before the slow imports.
"""

import atexit
import contextlib
import os
import signal
import sys
import threading
import types
from typing import NoReturn

from experiment_shell import temporary_folder

_KEPT = "everything saved so far is kept."
_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}

# The first signal that came.
_came: list[int] = []


def happened() -> bool:
  """Returns whether a signal came, even if the exception is gone."""
  return bool(_came)


def line() -> str:
  """Returns what the program says at the end."""
  return f"{_WORDS[_first()]}: {_KEPT}"


def exit_code() -> int:
  """Returns the program's exit code, as in shells."""
  return 128 + _first()


def _first() -> signal.Signals:
  return signal.Signals(_came[0]) if _came else signal.SIGINT


def leave(code: int) -> NoReturn:
  """Ends the process at once, but for its temporary files."""
  temporary_folder.remove()
  os._exit(code)


def _handle(number: int, frame: types.FrameType | None) -> None:
  is_again = happened()
  _came.append(number)
  # Someone who presses the keys twice does not want to wait for the clean-up.
  if is_again or _is_importing(frame):
    # If a flush was interrupted, a second one raises a RuntimeError.
    with contextlib.suppress(AttributeError, OSError, RuntimeError):
      sys.stdout.flush()
    with contextlib.suppress(OSError):
      os.write(2, f"{line()}\n".encode())
    leave(exit_code())
  raise KeyboardInterrupt


def _is_importing(frame: types.FrameType | None) -> bool:
  while frame is not None:
    if frame.f_code.co_filename.startswith("<frozen importlib."):
      return True
    frame = frame.f_back
  return False


def _install() -> None:
  """Handles the signals, unless the program ignores them or has handlers of its own."""
  if threading.current_thread() is not threading.main_thread():
    return
  for number, usual in (
      (signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)
  ):
    if signal.getsignal(number) is usual:
      signal.signal(number, _handle)
      # Python would have the next signal kill it, with another code, once its modules are gone.
      # The functions that were registered first are called last.
      atexit.register(signal.signal, number, signal.SIG_IGN)


_install()
