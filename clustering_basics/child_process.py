"""What processes of this project's own need: to find its modules, and to end with their parent."""

import ctypes
import os
import signal
import sys

# From where this project is imported.
PROJECT_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PR_SET_PDEATHSIG = 1


def serve_parent(parent_pid: int) -> None:
  """Has this process end when its parent does; it ignores Ctrl-C and the terminal's end."""
  end_with_parent(parent_pid)
  for number in (signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)


def end_with_parent(parent_pid: int, number: int = signal.SIGKILL) -> None:
  """Has the kernel end this process when its parent ends, `kill -9` included, where it is Linux.

  If the parent has ended already, so does this process.

  Args:
    number: The signal that the kernel sends.
  """
  if sys.platform == "linux":
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
  if os.getppid() != parent_pid:
    sys.exit(1)
