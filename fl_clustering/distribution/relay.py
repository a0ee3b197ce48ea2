"""Passes on what comes in at one socket to another one, if it begins with the right token."""

import contextlib
import fcntl
import hmac
import os
import socket
import struct
import threading
import time
from typing import Callable

# On the way in one direction; smaller ones cost more processor time.
_PIPE_BYTES = 2**20
_F_SETPIPE_SZ = 1031  # Python has a name for it since 3.10.10 only. See fcntl(2).
# Within which a client must have sent its token.
TOKEN_SECONDS = 10
# Before the next try if there are no more file descriptors or threads.
_PAUSE_SECONDS = 0.1
# A program's machine that says nothing for so long is asked whether it is still there.
_SECONDS_UNTIL_ASKED = 60
_SECONDS_BETWEEN_QUESTIONS = 15
_NUM_QUESTIONS = 4
# A `struct linger`: closing resets the connection.  Otherwise a program that still sends, to a
# worker that is gone, may wait until the kernel forgets the connection, a minute later.
_RESET = struct.pack("ii", 1, 0)


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
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        end.shutdown(socket.SHUT_RDWR)


def _prepare(end: socket.socket) -> None:
  if end.family == socket.AF_UNIX:
    return
  end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
  end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
  for option, value in (
      (socket.TCP_KEEPIDLE, _SECONDS_UNTIL_ASKED),
      (socket.TCP_KEEPINTVL, _SECONDS_BETWEEN_QUESTIONS),
      (socket.TCP_KEEPCNT, _NUM_QUESTIONS),
  ):
    end.setsockopt(socket.IPPROTO_TCP, option, value)


def _knows(client: socket.socket, token: bytes) -> bool:
  """Returns whether a client begins with the token; reads no byte beyond it."""
  deadline = time.monotonic() + TOKEN_SECONDS
  got = b""
  while len(got) < len(token) and (left := deadline - time.monotonic()) > 0:
    client.settimeout(left)
    piece = client.recv(len(token) - len(got))
    if not piece:
      break
    got += piece
  client.settimeout(None)
  return hmac.compare_digest(got, token)


def _connect(client: socket.socket, dial: Callable[[], socket.socket], token: bytes) -> None:
  # Without a worker, or a thread for the way back, the client loses its connection.
  with client, contextlib.suppress(OSError, RuntimeError):
    if not _knows(client, token):
      return
    with dial() as worker:
      _prepare(client)
      _prepare(worker)
      back = threading.Thread(target=_copy, args=(worker, client), daemon=True)
      back.start()
      _copy(client, worker)
      back.join()


def _accept(listener: socket.socket, dial: Callable[[], socket.socket], token: bytes) -> None:
  while True:
    try:
      client, _ = listener.accept()
      threading.Thread(target=_connect, args=(client, dial, token), daemon=True).start()
    except (OSError, RuntimeError):
      if listener.fileno() < 0:  # It was closed.
        return
      client = None
      time.sleep(_PAUSE_SECONDS)


def start(
    listener: socket.socket, dial: Callable[[], socket.socket], token: bytes = b""
) -> None:
  """Starts to pass on connections, in threads that end with the program.

  Args:
    listener: A listening TCP or Unix socket, of any namespace.
    dial: Returns a new connection, on which what comes in is passed on.
    token: What every client must send first; it is not passed on.  Others lose their connection.
  """
  threading.Thread(target=_accept, args=(listener, dial, token), daemon=True).start()
