"""A folder of a program's own for temporary files, none of which stays behind.

TensorFlow writes a Python file for every function that it compiles, and deletes them only when
Python ends in the ordinary way.  Here all temporary files of a program and of its processes are in
one folder, which is deleted at the end, also by an interrupt: last of all, as libraries delete what
they have in there when Python ends.  If the program was killed, the next program deletes it.

A folder in use is locked.  The kernel drops the lock with the process.
"""

import atexit
import contextlib
import importlib.util
import os
import shutil
import tempfile
from typing import Iterator

from clustering_basics import validate

_PREFIX = "fl_clustering_"
_VARIABLE = "TMPDIR"
# Of a folder that is not locked yet.
_NEW = f".{_PREFIX}"
# A file by which a program knows a folder that another one made here, and that is locked.
_MARK = ".lock_of_fl_clustering"
# TensorFlow fails in many words where a few kilobytes are left.
_LEAST_BYTES = 2**20


def _lock(path: str) -> int:
  """Returns a descriptor that holds the lock of a folder; BlockingIOError if another one does."""
  import fcntl  # Not on every system.  pylint: disable=g-import-not-at-top

  # NFS locks for one program only what it has open for writing.
  mark = os.path.join(path, _MARK)
  descriptor = os.open(mark, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
  try:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except OSError:
    os.close(descriptor)
    raise
  return descriptor


def _remove_abandoned(directory: str) -> None:
  """Removes this user's folders that no program uses any more."""
  for entry in os.scandir(directory):
    if entry.name.startswith(_PREFIX) and os.path.isfile(os.path.join(entry.path, _MARK)):
      with contextlib.suppress(OSError):
        if entry.stat(follow_symlinks=False).st_uid != os.getuid():
          continue
        descriptor = _lock(entry.path)
        shutil.rmtree(entry.path, ignore_errors=True)
        os.close(descriptor)


def _directory() -> str:
  """Returns the folder that is meant for temporary files; Python may take another one."""
  return os.path.abspath(os.environ.get(_VARIABLE) or tempfile.gettempdir())


def _check() -> None:
  """Raises a ValueError unless there is room for temporary files."""
  folder = _directory()
  validate.utf_8(**{_VARIABLE: folder})  # Or else TensorFlow can't use it.
  try:
    with tempfile.TemporaryFile(dir=folder) as file:
      file.write(bytes(_LEAST_BYTES))
  except OSError as e:
    raise ValueError(
        f"`{_VARIABLE}` must be a folder with room for temporary files, got {folder!r} "
        f"({e.strerror or e})."
    ) from e


# This program's folders, and their locks, which it holds until it ends.
_used: dict[str, int] = {}


def _make() -> str | None:
  """Returns a new folder; None if there is no room for one, or no locks are here."""
  if importlib.util.find_spec("fcntl") is None:
    return None
  with contextlib.suppress(OSError):
    directory = _directory()
    _remove_abandoned(directory)
    new = tempfile.mkdtemp(prefix=_NEW, dir=directory)
    try:
      descriptor = _lock(new)
    except OSError:
      shutil.rmtree(new, ignore_errors=True)
      raise
    path = os.path.join(directory, os.path.basename(new).removeprefix("."))
    os.rename(new, path)
    _used[path] = descriptor
    return path
  return None


def remove() -> None:
  """Removes the folder of this program, if it has one."""
  for path in _used:  # Until it is gone: a second signal may interrupt this.
    shutil.rmtree(path, ignore_errors=True)


# First of all, so it is called last.
atexit.register(remove)


@contextlib.contextmanager
def own() -> Iterator[None]:
  """Gives this program, and the processes that it starts, a folder for temporary files.

  Raises:
    ValueError: If there is no room for them.
  """
  path = _make()
  _check()  # Now, as folders that were left may have filled it.
  if path is None:
    yield
    return
  before, variable = tempfile.tempdir, os.environ.get(_VARIABLE)
  tempfile.tempdir = os.environ[_VARIABLE] = path
  try:
    yield
  finally:
    tempfile.tempdir = before
    if variable is None:
      del os.environ[_VARIABLE]
    else:
      os.environ[_VARIABLE] = variable
