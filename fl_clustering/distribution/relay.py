"""Passes on what comes in at one socket to a port of the namespace that this process is in."""

import contextlib
import socket
import struct
import threading
import time

# In one piece; larger ones are no faster, and smaller ones cost more processor time.
_PIECE_BYTES = 2**20
# Before the next try if there are no more file descriptors or threads.
_PAUSE_SECONDS = 0.1
# A program's machine that says nothing for so long is asked whether it is still there.
_SECONDS_UNTIL_ASKED = 60
_SECONDS_BETWEEN_QUESTIONS = 15
_NUM_QUESTIONS = 4
# A `struct linger`: closing resets the connection.  Otherwise a program that still sends, to a
# worker that is gone, may wait until the kernel forgets the connection, a minute later.
_RESET = struct.pack("ii", 1, 0)


def _copy(source: socket.socket, sink: socket.socket) -> None:
  """Passes on one direction of a connection until it ends; an error breaks off both."""
  try:
    piece = memoryview(bytearray(_PIECE_BYTES))
    while size := source.recv_into(piece):
      sink.sendall(piece[:size])
    sink.shutdown(socket.SHUT_WR)
  except OSError:
    for end in (source, sink):
      with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        end.shutdown(socket.SHUT_RDWR)


def _prepare(client: socket.socket, worker: socket.socket) -> None:
  for end in (client, worker):
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
  client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
  for option, value in (
      (socket.TCP_KEEPIDLE, _SECONDS_UNTIL_ASKED),
      (socket.TCP_KEEPINTVL, _SECONDS_BETWEEN_QUESTIONS),
      (socket.TCP_KEEPCNT, _NUM_QUESTIONS),
  ):
    client.setsockopt(socket.IPPROTO_TCP, option, value)


def _connect(client: socket.socket, port: int) -> None:
  # Without a worker, or a thread for the way back, the client loses its connection.
  with client, contextlib.suppress(OSError, RuntimeError):
    with socket.create_connection(("127.0.0.1", port)) as worker:
      _prepare(client, worker)
      back = threading.Thread(target=_copy, args=(worker, client), daemon=True)
      back.start()
      _copy(client, worker)
      back.join()


def _accept(listener: socket.socket, port: int) -> None:
  while True:
    try:
      client, _ = listener.accept()
      threading.Thread(target=_connect, args=(client, port), daemon=True).start()
    except (OSError, RuntimeError):
      if listener.fileno() < 0:  # It was closed.
        return
      client = None
      time.sleep(_PAUSE_SECONDS)


def start(listener: socket.socket, port: int) -> None:
  """Starts to pass on connections, in threads that end with the program.

  Args:
    listener: A listening TCP socket, of any namespace.
    port: A port at the loopback of this process's namespace.
  """
  threading.Thread(target=_accept, args=(listener, port), daemon=True).start()
