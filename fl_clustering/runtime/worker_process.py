"""TFF's worker as a process, and how to connect to it.

This module does not import TFF, which takes seconds and half a gigabyte.
"""

import importlib.util
import os
import subprocess
import sys
import time
from typing import Any

import grpc

from clustering_basics import child_process

START_TIMEOUT_SECONDS = 60
_SECONDS_BETWEEN_LOOKS = 0.5
# A call of TFF's service.  Without an argument, a worker that works answers NOT_FOUND.
_QUESTION = "/tensorflow_federated.v0.ExecutorGroup/GetExecutor"

# One gRPC message can't hold more; TFF's own default overflows.
_MAX_MESSAGE_BYTES = 1_895_825_408
# TFF detaches a thread per client, and glibc looks at the stack of a thread that it detaches even
# if the thread has ended meanwhile (https://sourceware.org/bugzilla/show_bug.cgi?id=19951).  Where
# that stack was given back, the worker crashes.  So room for 2,000 stacks is kept; what was never
# written to takes no memory.
_KEPT_STACKS = f"glibc.pthread.stack_cache_size={16 * 2**30}"
_CHANNEL_OPTIONS = [
    ("grpc.max_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    # The worker is on this machine, where http_proxy does not lead.
    ("grpc.enable_http_proxy", 0),
    # A worker that was just started does not listen yet; by default, gRPC tries again after 1 s.
    ("grpc.initial_reconnect_backoff_ms", 100),
]

# Run in the child before it becomes the worker: joins a process's network, if there is one, and is
# to end with its parent.
_BECOME_WORKER = """
import os, sys
root, network, parent, *worker = sys.argv[1:]
sys.path.insert(0, root)
from clustering_basics import child_process
from fl_clustering.runtime import isolation
if network:
  isolation.join(int(network))
child_process.end_with_parent(int(parent))
os.execv(worker[0], worker)
"""


def _worker_binary() -> str:
  spec: Any = importlib.util.find_spec("tensorflow_federated")
  return os.path.join(os.path.dirname(spec.origin), "data", "worker_binary")


def start(port: int, num_cores: int, network: int | None = None) -> subprocess.Popen:
  """Starts TFF's worker process, which ends with the thread that starts it.

  Args:
    num_cores: How many clients it computes at a time.
    network: A process, by its id, whose network namespace it joins; it stays in this process's
      own by default.
  """
  return subprocess.Popen(
      [sys.executable, "-I", "-S", "-c", _BECOME_WORKER]
      + [
          child_process.PROJECT_FOLDER,
          "" if network is None else str(network),
          str(os.getpid()),
          _worker_binary(),
          f"--port={port}",
          f"--max_concurrent_computation_calls={num_cores}",
      ],
      stdin=subprocess.DEVNULL,
      stdout=subprocess.DEVNULL,
      env={
          "TF_CPP_MIN_LOG_LEVEL": "3",
          **os.environ,
          "TF_NUM_INTRAOP_THREADS": "1",
          # More pools would each keep what their largest client needed.
          "MALLOC_ARENA_MAX": "2",
          # Blocks of memory up to 32 MB are kept for the next message (mallopt(3)), as new pages
          # cost more than what is done with them.  Older versions of glibc refuse a higher limit.
          "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
          "MALLOC_TRIM_THRESHOLD_": str(128 * 2**20),
          "GLIBC_TUNABLES": ":".join(
              filter(None, [os.environ.get("GLIBC_TUNABLES"), _KEPT_STACKS])
          ),
      },
  )


def channel(address: str) -> grpc.Channel:
  """Returns a gRPC channel to the worker at `HOST:PORT` or `unix:PATH`; the caller closes it."""
  return grpc.insecure_channel(address, _CHANNEL_OPTIONS)


def answers(process: subprocess.Popen, its_channel: grpc.Channel) -> bool:
  """Waits until a worker answers at its channel; False if it ends first, or takes too long."""
  ask = its_channel.unary_unary(_QUESTION)
  deadline = time.monotonic() + START_TIMEOUT_SECONDS
  while time.monotonic() < deadline and process.poll() is None:
    try:
      ask(b"", timeout=_SECONDS_BETWEEN_LOOKS, wait_for_ready=True)
    except grpc.RpcError as e:
      if e.code() is grpc.StatusCode.NOT_FOUND:
        return True
    time.sleep(0.02)  # Another program at this port may answer at once.
  return False
