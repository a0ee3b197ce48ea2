"""One of TFF's workers, on any machine, and the calls that compute there."""

from __future__ import annotations

import errno
import os
import socket
import threading
from typing import Any, Callable, Mapping, Sequence

import grpc
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import executor_pb2
from tensorflow_federated.proto.v0 import executor_pb2_grpc
from tensorflow_federated.python.core.impl.executors import value_serialization

from fl_clustering import runtime
from fl_clustering.distribution import announcement as announcement_lib
from fl_clustering.distribution import private_socket
from fl_clustering.distribution import worker_files
from fl_clustering.distribution import worker_process

# A worker that computes answers a question at once.
_SECONDS_BETWEEN_QUESTIONS = 5
_SILENT = "does not answer"
_NO_ROOM = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT)))


class WorkerUnusable(ValueError):
  """There is a worker, but not one that this program can work with."""


@tff.tensorflow.computation
def _read_announcement() -> Any:
  return tf.io.read_file(announcement_lib.FILE_NAME)


class RemoteWorker:
  """A worker that may end, hang, lose its connection, and come back.

  Attributes:
    address: Its host and port.
    reason: Why it can't be used at the moment, in words; `None` if it can.
    is_full: Whether its disk is full; it is then not asked to come back.
    num_cores: How many clients it computes at a time; 0 until it was connected.
    site: What it says of the clients that it owns, likewise; None if it owns none.
  """

  def __init__(
      self, address: str, timeout: float, local_files: worker_files.LocalFiles, token: bytes = b""
  ):
    """Makes a worker that is not connected yet.

    Args:
      address: Its host and port.
      timeout: Seconds without an answer after which it counts as lost.
      local_files: This machine's files.
      token: What it is sent first; empty if it wants none.
    """
    self.address = address
    # gRPC sends nothing before its own first bytes.
    self._socket = (
        private_socket.PrivateSocket(address, is_isolated=False, token=token) if token else None
    )
    self.reason: str | None = "was not connected yet"
    self.is_full = False
    self.num_cores = 0
    self.site: Mapping[str, Any] | None = None
    self._timeout = timeout
    self._local_files = local_files
    self._connection: _Connection | None = None

  def connect(self, seconds: float) -> None:
    """Connects to the worker, again if the connection was lost, and asks what it is.

    A worker that was never connected must be there; one that was lost may be about to come back.

    Args:
      seconds: How long to wait for it.

    Raises:
      WorkerUnusable: If it is one of another version, or none of this project's.
    """
    if self._connection is not None:
      self._connection.close()
    elif _refuses(self.address, seconds):
      self.reason = "refused the connection"
      return
    self._connection = _Connection(
        self.address if self._socket is None else self._socket.address,
        seconds, self._timeout, self._local_files,
    )
    try:
      text = self._call(lambda connection: connection.context.invoke(_read_announcement, None))
      self._take(announcement_lib.parse(text))
    except runtime.WorkerLost:
      if self._socket is not None and self._connection.reason == _SILENT:
        self.reason = f"{_SILENT} to the token"
      return
    except (grpc.RpcError, runtime.ClientFileUnreadable) as e:
      self.reason = "was not started by `tools:worker` or `tools:site`"
      cause = e.details() if isinstance(e, grpc.RpcError) else str(e).rstrip(".")
      raise WorkerUnusable(f"the worker at {self.address} {self.reason} ({cause}).") from e
    except ValueError as e:
      self.reason = f"can't be used: {e}"
      raise WorkerUnusable(f"the worker at {self.address} {self.reason}.") from e
    self.reason = None

  def _take(self, announcement: announcement_lib.Announcement) -> None:
    """Takes what the worker says of itself; raises ValueError if it said something else before."""
    if self.num_cores and announcement.site != self.site:
      raise ValueError("it came back with other clients or other rows")
    self.num_cores, self.site = announcement.num_cores, announcement.site

  def invoke(self, comp: tff.Computation, arg: Any, paths: Sequence[str]) -> Any:
    """Calls a computation at the worker.

    Args:
      comp: The computation.
      arg: Its argument, in which clients' files are called by their names at workers.
      paths: These files, by absolute path.

    Raises:
      runtime.WorkerLost: If the worker ends, hangs or has no room for the files.
    """
    def call(connection: _Connection) -> Any:
      connection.files.send(paths)
      return connection.context.invoke(comp, arg)

    return self._call(call)

  def _call(self, call: Callable[[_Connection], Any]) -> Any:
    connection = self._connection
    assert connection is not None
    try:
      connection.check()
      return call(connection)
    except Exception as e:
      self.is_full = _has_no_room(e)
      self.reason = "has no space left on its disk" if self.is_full else connection.reason
      if self.reason is None:
        raise
      raise runtime.WorkerLost(f"the worker at {self.address} {self.reason}.") from e

  def close(self) -> None:
    """Ends the connection; the worker goes on."""
    self.reason = "is not connected any more"
    if self._connection is not None:
      self._connection.close()
    if self._socket is not None:
      self._socket.close()


def _refuses(address: str, seconds: float) -> bool:
  """Returns whether an address refuses connections, for which gRPC would try again and again."""
  host, _, port = address.rpartition(":")
  try:
    socket.create_connection((host.strip("[]"), int(port)), seconds).close()
  except ConnectionRefusedError:
    return True
  except (OSError, ValueError):  # gRPC says what is wrong, if anything is.
    return False
  return False


def _has_no_room(error: Exception) -> bool:
  """Returns whether an error is that of a full disk, or a `ClientFileUnreadable` of one."""
  first = error.__cause__ or error
  details = first.details() if isinstance(first, grpc.RpcError) else None
  return any(reason in (details or "") for reason in _NO_ROOM)


class _Connection(grpc.UnaryUnaryClientInterceptor):
  """A channel to a worker, which a thread watches as long as calls are under way.

  Attributes:
    reason: Why it was lost, in words; `None` if it wasn't.
    context: The TFF context that computes at the worker.
    files: The `WorkerFiles`.
  """

  def __init__(
      self, address: str, seconds: float, timeout: float, local_files: worker_files.LocalFiles
  ):
    self.reason: str | None = None
    self._timeout = timeout
    self._num_calls = 0
    self._lock = threading.Lock()
    self._closed = threading.Event()
    self._channel = worker_process.channel(address)
    self._questions = executor_pb2_grpc.ExecutorGroupStub(self._channel)
    try:
      self._ask(seconds)
    except grpc.RpcError:
      self._lose(_SILENT)
      return
    stub = runtime.Stub(grpc.intercept_channel(self._channel, self))
    self.context = runtime.Context(stub, self.check)
    self.files = worker_files.WorkerFiles(self.context, local_files)
    threading.Thread(target=self._watch, name=f"watch {address}", daemon=True).start()

  def close(self) -> None:
    """Ends calls that are under way."""
    self._closed.set()
    self._channel.close()

  def _lose(self, reason: str) -> None:
    if self.reason is None:
      self.reason = reason
    self.close()

  def check(self) -> None:
    """Raises `runtime.WorkerLost` if the connection was lost."""
    if self.reason is not None:
      raise runtime.WorkerLost(self.reason)

  def intercept_unary_unary(
      self, continuation: Callable, client_call_details: Any, request: Any
  ) -> Any:
    """Passes a call on; gRPC calls this."""
    with self._lock:
      self._num_calls += 1
    try:
      call = continuation(client_call_details, request)
      if call.code() == grpc.StatusCode.UNAVAILABLE:
        self._lose(f"ended, or its connection did ({call.details()})")
      return call
    finally:
      with self._lock:
        self._num_calls -= 1

  def _ask(self, timeout: float) -> None:
    """Asks the worker something that it answers at once."""
    self._questions.GetExecutor(
        executor_pb2.GetExecutorRequest(
            cardinalities=value_serialization.serialize_cardinalities({tff.CLIENTS: 0})
        ),
        timeout=timeout, wait_for_ready=True,
    )

  def _watch(self) -> None:
    """Asks the worker every now and then, and gives it up if it doesn't answer."""
    while not self._closed.wait(min(_SECONDS_BETWEEN_QUESTIONS, self._timeout)):
      with self._lock:
        if not self._num_calls:
          continue
      try:
        self._ask(self._timeout)
      except (grpc.RpcError, ValueError):  # The latter is gRPC's of a closed channel.
        if not self._closed.is_set():
          self._lose(f"did not answer for {self._timeout:g} s")
        return
