"""A Unix socket that only this user can open, and a process that passes on what comes in.

The process takes itself off the network, into a namespace where a worker can join it and nobody
else reaches the worker.

This module does not import TFF, and the process needs nothing but Python.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.parse

from clustering_basics import child_process
from fl_clustering.runtime import isolation
from fl_clustering.runtime import relay

# The worker's port; in the namespace there is no other program.
PORT = 8000
# Where a path must be short (unix(7)): what is left of 108 bytes for the folder of temporary files.
_MAX_TEMPORARY_BYTES = 80
_NAME = "socket"
_RUN = """
import sys
sys.path.insert(0, sys.argv[1])
from fl_clustering.runtime import private_socket
private_socket._serve(*sys.argv[2:])
"""


class NotAllowed(OSError):
  """This machine allows no network namespace."""


class PrivateSocket:
  """The socket, in a folder of its own, which is removed with it.

  Attributes:
    path: Where it is.
    pid: The process, which ends with the thread that started it.
  """

  def __init__(self) -> None:
    """Makes the socket, and starts to pass on its connections.

    Raises:
      NotAllowed: If this machine does not allow a namespace.
      OSError: If there is no room for the folder or the process.
    """
    temporary = tempfile.gettempdir()
    if len(os.fsencode(temporary)) > _MAX_TEMPORARY_BYTES:
      temporary = "/tmp"
    self._folder = tempfile.mkdtemp(prefix="fl_", dir=temporary)  # Its mode is 0700.
    self.path = os.path.join(self._folder, _NAME)
    try:
      self._process = subprocess.Popen(
          [
              sys.executable, "-I", "-S", "-c", _RUN, child_process.PROJECT_FOLDER,
              str(os.getpid()), self._folder,
          ],
          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
      )
    except BaseException:
      shutil.rmtree(self._folder, ignore_errors=True)
      raise
    self.pid = self._process.pid
    try:
      self._begin()
    except BaseException:  # Ctrl-C, too.
      self.close()
      raise

  def _begin(self) -> None:
    assert self._process.stdout is not None
    with self._process.stdout as out:
      answer = out.readline()
    if not answer:
      raise ChildProcessError(f"a process ended with code {self._process.wait()}")
    if int(answer):
      raise NotAllowed(int(answer), os.strerror(int(answer)))

  @property
  def address(self) -> str:
    """The socket for gRPC, which reads it as a URI."""
    return f"unix:{urllib.parse.quote(self.path)}"

  def is_open(self) -> bool:
    return self._process.poll() is None

  def close(self) -> None:
    """Ends the process and its connections, and removes the folder."""
    self._process.kill()
    self._process.wait()
    shutil.rmtree(self._folder, ignore_errors=True)


def _listen(folder: str) -> socket.socket:
  os.umask(0o177)
  listener = socket.socket(socket.AF_UNIX)
  listener.bind(os.path.join(folder, _NAME))
  listener.listen()
  return listener


def _serve(parent: str, folder: str) -> None:
  """What the process does: passes on connections until it is told to end, or its parent ends."""
  # Of Ctrl-C and of the terminal's end, which the parent handles.
  for number in (signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
  signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
  try:
    isolation.isolate()
    isolation.join(os.getpid())  # Shows that a worker may join, too.
  except OSError as e:
    print(e.errno, flush=True)
    return
  try:
    listener = _listen(folder)
    child_process.end_with_parent(int(parent), signal.SIGTERM)
    relay.start(listener, PORT)
    print(0, flush=True)
    signal.sigwait({signal.SIGTERM})
  finally:
    shutil.rmtree(folder, ignore_errors=True)
  os._exit(0)
