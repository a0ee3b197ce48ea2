"""A folder of a program's own for temporary files, none of which stays behind.

TensorFlow writes a Python file for every function that it compiles, and deletes them only when
Python ends in the ordinary way.  Here all temporary files of a program and of its processes are in
one folder, which is deleted at the end, also by an interrupt: last of all, as libraries delete what
they have in there when Python ends.
"""

import atexit
import contextlib
import os
import shutil
import tempfile
from typing import Iterator

from clustering_basics import validate

_VARIABLE = "TMPDIR"
# TensorFlow fails in many words where a few kilobytes are left.
_LEAST_BYTES = 2**20


@contextlib.contextmanager
def own() -> Iterator[None]:
  """Gives this program, and the processes that it starts, a folder for temporary files.

  Raises:
    ValueError: If there is no room for them.
  """
  before = os.environ.get(_VARIABLE)
  # Python may take another one than what is meant.
  parent = os.path.abspath(before or tempfile.gettempdir())
  validate.utf_8(**{_VARIABLE: parent})  # Or else TensorFlow can't use it.
  try:
    path = tempfile.mkdtemp(prefix="fl_clustering_", dir=parent)
    # Registered before libraries are imported, so it is called after what they register.
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    with tempfile.TemporaryFile(dir=path) as file:
      file.write(bytes(_LEAST_BYTES))
  except OSError as e:
    raise ValueError(
        f"`{_VARIABLE}` must be a folder with room for temporary files, got {parent!r} "
        f"({e.strerror or e})."
    ) from e
  tempfile.tempdir = os.environ[_VARIABLE] = path
  try:
    yield
  finally:
    tempfile.tempdir = None
    if before is None:
      del os.environ[_VARIABLE]
    else:
      os.environ[_VARIABLE] = before
