"""Passes on what comes in at one socket to a port of this machine."""

import contextlib
import fcntl
import os
import socket
import threading
import time

# On the way in one direction; smaller ones cost more processor time.
_PIPE_BYTES = 2**20
_F_SETPIPE_SZ = 1031  # Python has a name for it since 3.10.10 only. See fcntl(2).
# Before the next try if there are no more file descriptors or threads.
_PAUSE_SECONDS = 0.1


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
  """Passes on one direction until it ends, without a copy: the kernel moves the pages."""
  out, into = os.pipe()
  try:
    with contextlib.suppress(PermissionError):  # A user may have only so many large pipes.
      fcntl.fcntl(into, _F_SETPIPE_SZ, _PIPE_BYTES)
    while size := os.splice(source.fileno(), into, _PIPE_BYTES):
      while size:
        size -= os.splice(out, sink.fileno(), size)
  finally:
    os.close(out)
    os.close(into)


def _copy(source: socket.socket, sink: socket.socket) -> None:
  """Passes on one direction of a connection until it ends; an error breaks off both."""
  try:
    _pass_on(source, sink)
    sink.shutdown(socket.SHUT_WR)
  except OSError:
    for end in (source, sink):
      with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


def _connect(client: socket.socket, port: int) -> None:
  # Without a worker, or a thread for the way back, the client loses its connection.
  with client, contextlib.suppress(OSError, RuntimeError):
    with socket.create_connection(("127.0.0.1", port)) as worker:
      worker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
      back = threading.Thread(target=_copy, args=(worker, client), daemon=True)
      back.start()
      _copy(client, worker)
      back.join()


def serve(listener: socket.socket, port: int) -> None:
  """Passes on connections, in threads that end with the program, until the listener is closed.

  Args:
    listener: A listening socket, of any network namespace.
    port: Where the worker listens, in this process's namespace.
  """
  while True:
    try:
      client, _ = listener.accept()
      threading.Thread(target=_connect, args=(client, port), daemon=True).start()
    except (OSError, RuntimeError):
      if listener.fileno() < 0:
        return
      client = None
      time.sleep(_PAUSE_SECONDS)
