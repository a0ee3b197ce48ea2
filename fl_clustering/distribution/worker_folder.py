"""The folder of a worker: one worker at a time uses it."""

import contextlib
import fcntl
import os
import stat
from typing import Iterator, TextIO

from clustering_basics import validate

_LOCK = "worker.lock"


def _open_lock(path: str) -> TextIO:
  try:
    os.makedirs(path, exist_ok=True)
    found = os.stat(path)
    # The group is this user's alone on many systems; a Kubernetes volume has one in any case.
    others = stat.S_IWOTH | (0 if found.st_gid == os.getegid() else stat.S_IWGRP)
    if found.st_uid != os.geteuid() or found.st_mode & others:
      rule = "be a folder of this user that no other user or group may write"
      raise validate.error("cache_dir", rule, path)
    return open(os.path.join(path, _LOCK), "w", encoding="ascii")
  except OSError as e:
    rule = f"be a folder that can be written ({e.strerror})"
    raise validate.error("cache_dir", rule, path) from e


@contextlib.contextmanager
def claim(path: str) -> Iterator[None]:
  """Makes a folder if there is none, and keeps other workers out as long as the block runs.

  Whatever this process and the worker write meanwhile is for this user alone.

  Raises:
    ValueError: If it can't be written, others can write it, or another worker uses it.
  """
  before = os.umask(0o077)
  try:
    with _open_lock(path) as lock:
      try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
      except BlockingIOError as e:
        raise validate.error("cache_dir", "be a folder that no other worker uses", path) from e
      yield
  finally:
    os.umask(before)
