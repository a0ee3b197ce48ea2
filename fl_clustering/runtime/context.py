"""TFF's context that computes in a worker, with fewer copies and clearer errors than TFF's own."""

from __future__ import annotations

import asyncio
from concurrent import futures
import errno
import functools
import logging
import os
import re
import threading
from typing import Any, Callable

import grpc
import numpy as np
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import executor_pb2
from tensorflow_federated.proto.v0 import executor_pb2_grpc
from tensorflow_federated.python.core.impl.compiler import array
from tensorflow_federated.python.core.impl.executors import remote_executor
from tensorflow_federated.python.core.impl.types import type_serialization

from fl_clustering import runtime

# What TensorFlow says of a file that it can't read, within the worker's error.
_UNREADABLE_FILE = re.compile(
    f"(?:^|: )(/[^\n]*?); ({'|'.join(re.escape(os.strerror(e)) for e in errno.errorcode)})\n"
)


class _Stub(tff.framework.RemoteExecutorGrpcStub):
  """TFF's calls of a worker; errors are ignored when values at a lost worker are disposed of."""

  def __init__(self, channel: grpc.Channel):
    # TFF's own has gRPC watch the channel, which starts a thread when the worker ends; one that
    # starts while Python exits crashes the program (code 139).
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
  """Compiles a computation, once for the contexts of one fit after another."""
  with _compile_lock:
    return _compiled_once(comp)


class Context(tff.framework.SyncExecutionContext):
  """TFF's context of one worker, which names a file that a client's computation can't read.

  Attributes:
    is_closed: Whether it was closed; it then computes nothing.
    num_cores: How many clients the worker computes at a time.
  """

  is_closed = False

  def __init__(
      self, channel: grpc.Channel, check_alive: Callable[[], None], num_cores: int
  ):
    """Makes the context.

    Args:
      channel: Leads to the worker.
      check_alive: Raises an error if the worker is lost.  TFF comes here before every retry of
        a call that failed, and would retry for ever.
      num_cores: How many clients the worker computes at a time.
    """
    self.num_cores = num_cores
    stub = _Stub(channel)

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
    ended = runtime.WorkerLost(
        "TensorFlow Federated's worker process was ended with its runtime."
    )
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
      raise OSError(f"the clients' file {path!r} can't be read ({reason}).") from e
