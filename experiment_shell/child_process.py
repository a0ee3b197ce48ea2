"""Processes that a program starts for itself.  Only the standard library is imported here."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent_pid):
  """Has the kernel end this process when its parent ends, `kill -9` included.

  Args:
    parent_pid: The parent's process id.  If it has ended already, so does this process.
  """
  ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
  if os.getppid() != parent_pid:
    sys.exit(1)


def last_line(errors):
  """Returns the last line with text in it, "" if there is none.

  Args:
    errors: A binary file with what a process has printed to standard error.
  """
  errors.seek(0)
  lines = map(str.strip, errors.read().decode(errors="replace").split("\n"))
  return next(filter(None, reversed(list(lines))), "")
