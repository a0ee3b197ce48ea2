"""Runs a worker for programs on other machines."""

import contextlib
import time

import grpc
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import executor_pb2
from tensorflow_federated.proto.v0 import executor_pb2_grpc
from tensorflow_federated.python.core.impl.executors import value_serialization

from fl_clustering import runtime
from fl_clustering.workers import announcement

_START_TIMEOUT_SECONDS = 60
_SECONDS_BETWEEN_LOOKS = 0.5


def end_text(code):
  """Returns how a worker ended, in words.

  Args:
    code: Its exit code.
  """
  return f"the worker ended with code {code} (-9 is often a lack of memory)."


def _wait_until_it_answers(process, port):
  question = executor_pb2.GetExecutorRequest(
      cardinalities=value_serialization.serialize_cardinalities({tff.CLIENTS: 0})
  )
  deadline = time.monotonic() + _START_TIMEOUT_SECONDS
  with grpc.insecure_channel(f"127.0.0.1:{port}", runtime.CHANNEL_OPTIONS) as channel:
    ask = executor_pb2_grpc.ExecutorGroupStub(channel).GetExecutor
    while time.monotonic() < deadline:
      if process.poll() is not None:
        raise runtime.WorkerLost(end_text(process.returncode))
      with contextlib.suppress(grpc.RpcError):
        ask(question, timeout=_SECONDS_BETWEEN_LOOKS, wait_for_ready=True)
        return
  raise runtime.WorkerLost(f"the worker did not answer within {_START_TIMEOUT_SECONDS} s.")


@contextlib.contextmanager
def worker(entrance, folder, num_cores):
  """Runs a worker that answers; it ends with the block, or with the thread that started it.

  Args:
    entrance: The `entrance.Entrance` at which programs reach it.
    folder: The folder of its files.
    num_cores: How many clients it computes at a time.

  Yields:
    Its process, a `subprocess.Popen`.

  Raises:
    runtime.WorkerLost: If it does not start.
  """
  announcement.write(folder, num_cores)
  process = runtime.start_worker(entrance.port, num_cores, folder)
  try:
    _wait_until_it_answers(process, entrance.port)
    entrance.open()
    yield process
  finally:
    process.kill()
    process.wait()
