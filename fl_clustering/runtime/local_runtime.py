"""Where TensorFlow Federated runs: a worker process of our own on this machine.

TFF's local context starts the same worker, but leaves it running when the
program ends, however it ends, starts another one without a word when it dies,
and waits for ever when it hangs.  Here the kernel ends the worker with the
program, `kill -9` included, and a worker that died or hangs is an error.

The worker knows no password, and listens at all addresses of its machine.  So it has a network
namespace of its own, where nobody else is, and is reached by a Unix socket that only this user can
open (`private_socket.py`).  Where the system forbids that, its port is open on all interfaces while
it runs, and a warning says so.

A `LocalRuntime` leaves no thread behind (`context.py` says why).

The worker computes `num_cores` clients at a time with one thread each.  That
is the fastest arrangement for models as small as a client's, and it makes the
numbers independent of how threads are scheduled.
"""

from __future__ import annotations

import atexit
import logging
import socket
import subprocess
from typing import Any

import grpc
import tensorflow_federated as tff

from clustering_basics import core_count
from fl_clustering import runtime
from fl_clustering.runtime import context as context_lib
from fl_clustering.runtime import private_socket
from fl_clustering.runtime import worker_process
from fl_clustering.runtime import worker_watch


def _unused_port() -> int:
  with socket.socket() as any_socket:
    any_socket.bind(("", 0))
    return any_socket.getsockname()[1]


_has_warned = False


def _warn_once(port: int, reason: OSError) -> None:
  global _has_warned
  if not _has_warned:
    _has_warned = True
    logging.warning(
        "TensorFlow Federated's worker listens on all network interfaces, now at port %d, since "
        "this system allows it no network namespace (%s). Whoever reaches the port can read and "
        "write this user's files. `docker run --network=none` or a firewall closes it; so does a "
        "system that allows namespaces (docs/install.md, \"Where namespaces are forbidden\").",
        port, reason.strerror or reason,
    )


def _start(
    num_cores: int,
) -> tuple[private_socket.PrivateSocket | None, subprocess.Popen, grpc.Channel]:
  """Starts a worker; returns its socket (None if it has a port), its process and its channel."""
  try:
    opened = private_socket.PrivateSocket()
  except private_socket.NotAllowed as e:
    port = _unused_port()
    _warn_once(port, e)
    return None, worker_process.start(port, num_cores), worker_process.channel(f"127.0.0.1:{port}")
  except OSError as e:
    raise runtime.WorkerLost(
        f"The process that leads to TensorFlow Federated's worker process did not start ({e})."
    ) from e
  try:
    process = worker_process.start(private_socket.PORT, num_cores, network=opened.pid)
  except BaseException:
    opened.close()
    raise
  return opened, process, worker_process.channel(opened.address)


class LocalRuntime:
  """A TFF worker on this machine, installed as TFF's default context.

  Use it as a context manager, from the main thread: the worker ends with the
  thread that started it.
  """

  def __init__(self, num_cores: int | None = None):
    """Starts the worker.

    Args:
      num_cores: How many clients are computed at a time; all cores by default.

    Raises:
      WorkerLost: If the worker does not start.
    """
    num_cores = num_cores or core_count.usable()
    self._socket, self._process, self._channel = _start(num_cores)
    self._watch = worker_watch.WorkerWatch(self._process)
    self.context = context_lib.Context(
        grpc.intercept_channel(self._channel, self._watch), self._check_alive, num_cores
    )
    atexit.register(self.close)
    try:
      if not worker_process.answers(self._process, self._channel):
        self._check_alive()
        raise runtime.WorkerLost(
            "TensorFlow Federated's worker process did not answer within "
            f"{worker_process.START_TIMEOUT_SECONDS} s."
        )
    except BaseException:  # Ctrl-C, too.
      self.close()
      raise
    tff.framework.set_default_context(self.context)

  def __enter__(self) -> LocalRuntime:
    return self

  def __exit__(self, *unused_exception: Any) -> None:
    self.close()

  @property
  def worker_pid(self) -> int:
    return self._process.pid

  def close(self) -> None:
    """Ends the worker and all threads; TFF computations can't be called afterwards.

    The channel is closed before the worker ends, or gRPC would notice the loss.  A runtime that
    is still open when Python exits is closed then.
    """
    self._channel.close()
    self._watch.close()
    self._process.kill()
    self._process.wait()
    if self._socket is not None:
      self._socket.close()
    self.context.close()
    atexit.unregister(self.close)

  def _check_alive(self) -> None:
    if self._watch.reason is not None:
      raise runtime.WorkerLost(f"TensorFlow Federated's worker process {self._watch.reason}.")
    if self._process.poll() is not None:
      raise runtime.WorkerLost(
          "TensorFlow Federated's worker process ended with code "
          f"{self._process.returncode} (-9 is often a lack of memory)."
      )
    if self._socket is not None and not self._socket.is_open():
      raise runtime.WorkerLost(
          "The process that leads to TensorFlow Federated's worker process ended."
      )


def num_cores() -> int:
  """Returns how many clients are computed at a time in TFF's current context.

  Where the context does not say, it is the number of cores that this process may use.
  """
  known = getattr(tff.framework.get_context_stack().current, "num_cores", None)
  return known or core_count.usable()
