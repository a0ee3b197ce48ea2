"""Ends a program on Ctrl-C with one line, from the import of this module on.

Python raises a `KeyboardInterrupt` wherever the program is.  That fails during an import:
an import runs the C code of extension modules, which turns the exception into another
error, or prints it and continues.  A program that is importing therefore ends at once.
It has nothing to clean up yet, or no more than a killed program leaves.

This module imports Python's own modules only, so it is ready before the slow imports.
"""

import contextlib
import os
import signal
import sys
import threading
import types

EXIT_CODE = 130  # 128 + SIGINT, as in shells.
LINE = "interrupted: everything saved so far is kept."

_happened = threading.Event()


def happened() -> bool:
  """Returns whether Ctrl-C was pressed, even if the exception is gone."""
  return _happened.is_set()


def _handle(unused_signal: int, frame: types.FrameType | None) -> None:
  # Someone who presses the keys twice does not want to wait for the clean-up.
  if happened() or _is_importing(frame):
    # If a flush was interrupted, a second one raises a RuntimeError.
    with contextlib.suppress(AttributeError, OSError, RuntimeError):
      sys.stdout.flush()
    with contextlib.suppress(OSError):
      os.write(2, f"{LINE}\n".encode())
    os._exit(EXIT_CODE)
  _happened.set()
  raise KeyboardInterrupt


def _is_importing(frame: types.FrameType | None) -> bool:
  while frame is not None:
    if frame.f_code.co_filename.startswith("<frozen importlib."):
      return True
    frame = frame.f_back
  return False


def _install() -> None:
  """Handles Ctrl-C, unless the program ignores it or has a handler of its own."""
  if (
      threading.current_thread() is threading.main_thread()
      and signal.getsignal(signal.SIGINT) is signal.default_int_handler
  ):
    signal.signal(signal.SIGINT, _handle)


_install()
