"""Locks as they are on NFSv4."""

import errno
import fcntl
import os

_flock = fcntl.flock


def flock(descriptor, how):
  """Locks what is open for writing, and nothing else."""
  if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
    raise OSError(errno.EBADF, os.strerror(errno.EBADF))
  _flock(descriptor, how)
