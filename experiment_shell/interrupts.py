"""Ends a program on Ctrl-C with one line, from the import of this module on.

Python raises a `KeyboardInterrupt`, wherever it is.  In an import that is no good:
an import runs the C code of extension modules, which makes another error of it, or
prints it and goes on.  So what is importing ends at once; there is nothing to clean
up yet, or what a killed program leaves.

For the sake of the imports that follow, this module needs Python's own modules only.
"""

import contextlib
import os
import signal
import sys
import threading

EXIT_CODE = 130  # 128 + SIGINT, as shells have it.
LINE = "interrupted: what is saved is kept."

_happened = threading.Event()


def happened():
  """Returns whether Ctrl-C was pressed, whatever became of the exception since."""
  return _happened.is_set()


def _handle(unused_signal, frame):
  # Whoever presses the keys twice does not want to wait for the end of a clean-up.
  if happened() or _is_importing(frame):
    # A flush may be what is interrupted: a RuntimeError.
    with contextlib.suppress(AttributeError, OSError, RuntimeError):
      sys.stdout.flush()
    with contextlib.suppress(OSError):
      os.write(2, f"{LINE}\n".encode())
    os._exit(EXIT_CODE)
  _happened.set()
  raise KeyboardInterrupt


def _is_importing(frame):
  while frame is not None:
    if frame.f_code.co_filename.startswith("<frozen importlib."):
      return True
    frame = frame.f_back
  return False


def _install():
  """Takes Ctrl-C over, unless the program ignores it or has a handler of its own."""
  if (
      threading.current_thread() is threading.main_thread()
      and signal.getsignal(signal.SIGINT) is signal.default_int_handler
  ):
    signal.signal(signal.SIGINT, _handle)


_install()
