"""What processes of this project's own need: to end with their parent, and to be quoted."""

import ctypes
import os
import re
import signal
import sys
from typing import BinaryIO

# From where this project is imported.
PROJECT_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PR_SET_PDEATHSIG = 1


def serve_parent(parent_pid: int) -> None:
  """Has this process end with its parent, to which Ctrl-C and the terminal's end are left."""
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


def last_line(errors: BinaryIO) -> str:
  """Returns the last line with text in it of a process's standard error, "" if there is none.

  If that is an exception, it says where it was raised.
  """
  errors.seek(0)
  text = errors.read().decode(errors="replace")
  lines = map(str.strip, text.split("\n"))
  last = next(filter(None, reversed(list(lines))), "")
  raised = re.search(r'\n  File "(.+)", line ([0-9]+).*\n(?:    .*\n)*\S.*\s*\Z', text)
  return f"{last} ({raised[1]}, line {raised[2]})" if raised else last
