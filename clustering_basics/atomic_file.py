"""Writes files that are either complete or absent."""

import contextlib
import errno
import os
import stat
from typing import Iterator, Mapping
import zipfile

import numpy as np


def target(path: str) -> str:
  """Returns the absolute path of a file to write, which is that to which a link leads.

  Raises:
    OSError: If there is something else than a regular file, such as a device.
  """
  with contextlib.suppress(FileNotFoundError):
    if not stat.S_ISREG(os.stat(path).st_mode):
      raise OSError(errno.EINVAL, "not a regular file", path)
  return os.path.realpath(path)


def _sync(path: str) -> None:
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)


def sync_folder(path: str) -> None:
  """Brings the names in a folder to the disk, where the file system can do that."""
  with contextlib.suppress(OSError):
    _sync(path)


@contextlib.contextmanager
def _moved(path: str) -> Iterator[str]:
  path = target(path)
  folder, name = os.path.split(path)
  ending = os.path.splitext(name)[1]
  temporary = os.path.join(folder, f".{name}.{os.getpid()}{ending}")
  try:
    yield temporary
    os.replace(temporary, path)
  finally:
    with contextlib.suppress(FileNotFoundError):
      os.unlink(temporary)


@contextlib.contextmanager
def atomic_path(path: str) -> Iterator[str]:
  """Gives a temporary name next to `path`, and moves that file to `path` on success.

  A reader never sees half a file.  A program that is killed, or a machine that loses its power,
  leaves the earlier file unchanged.

  Args:
    path: The final name; its folder must exist.  Of a link, it is that of its `target`.

  Yields:
    The temporary name, in the same folder and with the same extension.
  """
  with _moved(path) as temporary:
    yield temporary
    _sync(temporary)
  sync_folder(os.path.dirname(target(path)))


def write_text(path: str, text: str) -> None:
  """Writes a text file in UTF-8, wholly or not at all."""
  with atomic_path(path) as temporary:
    with open(temporary, "w", encoding="utf-8") as file:
      file.write(text)


def write_arrays(path: str, arrays: Mapping[str, np.ndarray]) -> None:
  """Writes a dict of arrays to an .npz file, wholly or not at all.

  `np.savez` does the same, but on a full disk it also prints a traceback.
  """
  with atomic_path(path) as temporary:
    with zipfile.ZipFile(temporary, "w") as archive:
      for name, array in arrays.items():
        with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
          np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)


def read_arrays(path: str) -> dict[str, np.ndarray]:
  """Returns the arrays of a file of `write_arrays`, whose checksums tell that they are whole.

  Raises:
    OSError: If the file can't be opened.
    ValueError: If it is damaged.
  """
  # Opened here, because NumPy leaves a file open that it can't read.
  with open(path, "rb") as file:
    try:
      with np.load(file, allow_pickle=False) as archive:
        arrays = dict(archive)
    except Exception as e:  # pylint: disable=broad-exception-caught
      # NumPy, `zipfile` and what decompresses meet damaged bytes with any exception.
      raise ValueError(str(e)) from e
  for name, array in arrays.items():
    if not isinstance(array, np.ndarray):  # NumPy returns the bytes of what has lost its header.
      raise ValueError(f"{name!r} is no array")
  return arrays


def array_in_file(path: str, array: np.ndarray) -> np.memmap:
  """Writes an array to an .npy file; returns it as an array that is read there when it is used.

  An array that an earlier call returned for the same file stays as it is.  The file is for this
  program alone: it need not outlive the machine.

  Returns:
    A read-only `np.memmap`.
  """
  with _moved(path) as temporary:
    np.save(temporary, array, allow_pickle=False)
  return np.load(path, mmap_mode="r")
