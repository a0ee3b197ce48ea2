"""Where TensorFlow Federated runs: a worker process of our own on this machine.

TFF's local context starts the same worker, but leaves it running when the
program ends, however it ends, starts another one without a word when it dies,
and waits for ever when it hangs.  Here the kernel ends the worker with the
program, `kill -9` included, and a worker that died or hangs is an error.

The worker knows no password, and listens at all addresses of its machine.  So it has a network
namespace of its own, where nobody else is, and is reached by a Unix socket that only this user can
open (`private_socket.py`).  Where the system forbids that, its port is open on all interfaces while
it runs, and a warning says so.

A `LocalRuntime` leaves no thread behind.  TFF's own stub has gRPC watch the channel, which starts a
thread when the worker ends; one that starts while Python exits crashes the program (code 139).

The worker computes `num_cores` clients at a time with one thread each.  That
is the fastest arrangement for models as small as a client's, and it makes the
numbers independent of how threads are scheduled.
"""

from __future__ import annotations

import asyncio
import atexit
from concurrent import futures
import contextlib
import errno
import functools
import logging
import os
import re
import threading
from typing import Any, Callable, Iterator

import grpc
import numpy as np
import portpicker
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import executor_pb2
from tensorflow_federated.proto.v0 import executor_pb2_grpc
from tensorflow_federated.python.core.impl.compiler import array
from tensorflow_federated.python.core.impl.context_stack import runtime_error_context
from tensorflow_federated.python.core.impl.executors import remote_executor
from tensorflow_federated.python.core.impl.types import type_serialization

from clustering_basics import core_count
from fl_clustering.distribution import private_socket
from fl_clustering.distribution import worker_lost
from fl_clustering.distribution import worker_process
from fl_clustering.distribution import worker_watch

# The worker's port in a namespace of its own, where no other program is.
_PORT_WITHIN = 8000

# What TensorFlow says of a file that it can't read, within the worker's error.  Files in a
# worker's own folder have names without spaces.
_UNREADABLE_FILE = re.compile(
    f"(?:^|: )(/[^\n]*?|[^/\n :][^\n :]*); ({'|'.join(re.escape(os.strerror(e)) for e in errno.errorcode)})\n"
)


WorkerLost = worker_lost.WorkerLost


class ClientFileUnreadable(OSError):
  """A client's computation can't read a file; it may have been removed."""


class Stub(tff.framework.RemoteExecutorGrpcStub):
  """TFF's calls of a worker; errors are ignored when values at a lost worker are disposed of."""

  def __init__(self, channel: grpc.Channel):
    # TFF's own has gRPC watch the channel (see the top of this file).
    # pylint: disable=super-init-not-called
    self._channel = channel
    self._stub = executor_pb2_grpc.ExecutorGroupStub(channel)

  def dispose(self, request: Any) -> None:
    self._unless_lost(super().dispose, request)

  def dispose_executor(self, request: Any) -> None:
    self._unless_lost(super().dispose_executor, request)

  def _unless_lost(self, call: Callable[[Any], Any], request: Any) -> None:
    try:
      call(request)
    except (grpc.RpcError, tff.framework.RetryableError, ValueError) as e:
      # gRPC's error of a closed channel is a ValueError; any other loss is noticed elsewhere.
      logging.debug("could not dispose: %s", e)


def _is_array_at_server(value: Any, type_spec: tff.Type) -> bool:
  return (
      isinstance(type_spec, tff.FederatedType)
      and type_spec.all_equal
      and isinstance(type_spec.member, tff.TensorType)
      and isinstance(value, np.ndarray)
      and bool(value.ndim)
      and value.dtype == type_spec.member.dtype
      and array.is_compatible_shape(value, type_spec.member.shape)
  )


class _ArrayExecutor(tff.framework.RemoteExecutor):
  """TFF's executor of a worker, which sends large arrays with fewer copies.

  TFF wraps a value in one message after the other and copies it each time.  The models of one
  message are up to hundreds of megabytes, and these copies then cost more than the rest of the
  call.
  """

  async def create_value(
      self, value: Any, type_spec: tff.Type = None
  ) -> remote_executor.RemoteValue:
    """Sends a value; TFF calls this."""
    if not _is_array_at_server(value, type_spec):
      return await super().create_value(value, type_spec)
    request = executor_pb2.CreateValueRequest(executor=self._executor_id)
    federated = request.value.federated
    federated.type.CopyFrom(type_serialization.serialize_type(type_spec).federated)
    sent = federated.value.add().array
    # The type and the shape, without the content.
    sent.CopyFrom(array.to_proto_content(value[:0], dtype_hint=value.dtype.type))
    sent.shape.dim[0] = len(value)
    sent.content = value.tobytes()
    response = self._stub.create_value(request)
    return remote_executor.RemoteValue(response.value_ref, type_spec, self)


async def _cancel_other_tasks() -> None:
  tasks = asyncio.all_tasks() - {asyncio.current_task()}
  for task in tasks:
    task.cancel()
  await asyncio.gather(*tasks, return_exceptions=True)


_compile_lock = threading.Lock()


@functools.lru_cache(maxsize=128)
def _compiled_once(comp: tff.Computation) -> Any:
  return tff.backends.native.desugar_and_transform_to_native(comp)


def _compiled(comp: tff.Computation) -> Any:
  """Compiles a computation, once for all contexts: those of a pool, and of one fit after another."""
  with _compile_lock:
    return _compiled_once(comp)


class Context(tff.framework.SyncExecutionContext):
  """TFF's context of one worker, which names a file that a client's computation can't read.

  Attributes:
    is_closed: Whether it was closed; it then computes nothing.
    num_cores: How many clients the worker computes at a time; None if that is not known.
  """

  is_closed = False

  def __init__(
      self,
      stub: tff.framework.RemoteExecutorGrpcStub,
      check_alive: Callable[[], None],
      num_cores: int | None = None,
  ):
    """Makes the context.

    Args:
      stub: TFF's stub of the worker.
      check_alive: Raises an error if the worker is lost.  TFF comes here before every retry of
        a call that failed, and would retry for ever.
      num_cores: How many clients the worker computes at a time, if that is known.
    """
    self.num_cores = num_cores

    def create_executor(cardinalities: dict[Any, int]) -> _ArrayExecutor:
      check_alive()
      cardinalities.setdefault(tff.CLIENTS, 0)
      # TFF's own default keeps the values of several calls, for large models gigabytes.
      executor = _ArrayExecutor(stub, dispose_batch_size=1)
      executor.set_cardinalities(cardinalities)
      return executor

    super().__init__(
        executor_fn=tff.framework.ResourceManagingExecutorFactory(create_executor),
        compiler_fn=_compiled,
        transform_args=tff.tensorflow.transform_args,
        transform_result=tff.tensorflow.transform_result,
    )

  def close(self) -> None:
    """Ends the context's thread, and calls of other threads with an error."""
    if self.is_closed:
      return
    self.is_closed = True
    runner = self._async_runner
    runner.run_coro_and_return_result(_cancel_other_tasks())
    # TFF ends the thread when its runner is garbage, but the thread keeps the runner alive.
    end, runner._finalizer = runner._finalizer, lambda loop, thread: None
    end(runner._event_loop, runner._thread)

  def invoke(self, comp: tff.Computation, arg: Any) -> Any:
    ended = WorkerLost("TensorFlow Federated's worker process was ended with its runtime.")
    if self.is_closed:
      raise ended
    try:
      return super().invoke(comp, arg)
    except futures.CancelledError as e:
      raise ended from e
    except grpc.RpcError as e:
      found = _UNREADABLE_FILE.search(e.details() or "")
      if found is None:
        raise
      path, reason = found.groups()
      raise ClientFileUnreadable(
          f"the clients' file {path!r} can't be read ({reason})."
      ) from e


_has_warned = False


def _warn_once(port: int, reason: OSError) -> None:
  global _has_warned
  if not _has_warned:
    _has_warned = True
    logging.warning(
        "TensorFlow Federated's worker listens on all network interfaces, now at port %d, since "
        "this system allows it no network namespace (%s). Whoever reaches the port can read and "
        "write this user's files. `docker run --network=none` or a firewall closes it; so does a "
        "system that allows namespaces (docs/workers.md, \"Where namespaces are forbidden\").",
        port, reason.strerror or reason,
    )


class LocalRuntime:
  """A TFF worker on this machine, installed as TFF's default context.

  Use it as a context manager, from the main thread: the worker ends with the
  thread that started it.

  Attributes:
    context: The context that computes there.
  """

  def __init__(self, num_cores: int | None = None):
    """Starts the worker.

    Args:
      num_cores: How many clients are computed at a time; all cores by default.

    Raises:
      WorkerLost: If the worker does not start.
    """
    num_cores = num_cores or core_count.usable()
    self._socket: private_socket.PrivateSocket | None = None
    try:
      self._socket = private_socket.PrivateSocket(f"127.0.0.1:{_PORT_WITHIN}", is_isolated=True)
    except private_socket.NotAllowed as e:
      port = portpicker.pick_unused_port()
      _warn_once(port, e)
      self._process = worker_process.start(port, num_cores)
      self._channel = worker_process.channel(f"127.0.0.1:{port}")
    except OSError as e:
      raise WorkerLost(
          f"The process that leads to TensorFlow Federated's worker process did not start ({e})."
      ) from e
    else:
      try:
        self._process = worker_process.start(_PORT_WITHIN, num_cores, network=self._socket.pid)
      except BaseException:
        self._socket.close()
        raise
      self._channel = worker_process.channel(self._socket.address)
    self._watch = worker_watch.WorkerWatch(self._process)
    stub = Stub(grpc.intercept_channel(self._channel, self._watch))
    self.context = Context(stub, self._check_alive, num_cores)
    atexit.register(self.close)
    try:
      if not worker_process.answers(self._process, self._channel):
        self._check_alive()
        raise WorkerLost(
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
      raise WorkerLost(f"TensorFlow Federated's worker process {self._watch.reason}.")
    if self._process.poll() is not None:
      raise WorkerLost(
          "TensorFlow Federated's worker process ended with code "
          f"{self._process.returncode} (-9 is often a lack of memory)."
      )
    if self._socket is not None and not self._socket.is_open():
      raise WorkerLost(
          "The process that leads to TensorFlow Federated's worker process ended."
      )


def num_cores() -> int:
  """Returns how many clients are computed at a time in TFF's current context.

  Where the context does not say, it is the number of cores that this process may use.
  """
  known = getattr(tff.framework.get_context_stack().current, "num_cores", None)
  return known or core_count.usable()


def has_context_of_the_caller() -> bool:
  """Returns whether someone set a TFF context, on top of TFF's stack, to compute in.

  TFF's local context is the one that is there when nobody did.  Nothing tells it from one that
  the caller set by hand; both start the worker that the top of this file complains about.
  """
  context = tff.framework.get_context_stack().current
  # That of a runtime or of workers stays TFF's default when it is closed.  Another thread has none.
  if getattr(context, "is_closed", False) or isinstance(
      context, runtime_error_context.RuntimeErrorContext
  ):
    return False
  factory = getattr(context, "executor_factory", None)
  start_worker = getattr(factory, "_executor_stack_fn", None)
  return getattr(start_worker, "__module__", None) != (
      tff.framework.local_cpp_executor_factory.__module__
  )


@contextlib.contextmanager
def of_the_caller_or_own() -> Iterator[None]:
  """Computes in the caller's TFF context, or else in a `LocalRuntime` that ends with the block."""
  if has_context_of_the_caller():
    yield
    return
  before = tff.framework.get_context_stack().current
  with LocalRuntime():
    try:
      yield
    finally:
      tff.framework.set_default_context(before)
