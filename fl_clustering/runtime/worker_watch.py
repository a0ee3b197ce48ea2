"""Ends a worker process that hangs: it computes nothing while the program waits for it.

A call of the worker has no deadline, since a client may compute for hours.  But a worker
that computes uses the processor.  One that doesn't, poll after poll, was stopped (SIGSTOP)
or hangs.

The limit is a number of polls and not a time, so a program that is itself stopped, by
Ctrl-Z or with the whole machine, may go on later.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, TYPE_CHECKING

import grpc
import psutil

if TYPE_CHECKING:
  import subprocess

_POLL_SECONDS = 1.0
_MAX_IDLE_POLLS = 60
# By a signal, or by a debugger.
_STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)


class IdlePolls:
  """Counts the polls in a row that find no progress though a call is under way."""

  def __init__(self) -> None:
    self.count = 0
    self._seen: tuple[int, int, float] | None = None

  def add(self, num_started: int, num_ended: int, seconds: float) -> None:
    """Adds a poll: how many calls have started and ended so far, and the processor's time."""
    seen = (num_started, num_ended, seconds)
    is_idle = seen == self._seen and num_started > num_ended
    self.count = self.count + 1 if is_idle else 0
    self._seen = seen


class WorkerWatch(grpc.UnaryUnaryClientInterceptor):
  """Watches one worker, from a thread of its own, and counts the calls of its channel.

  Attributes:
    reason: Why the worker was ended, in words; `None` if it wasn't.
  """

  def __init__(self, process: subprocess.Popen):
    """Starts to watch a worker's process."""
    self.reason: str | None = None
    self._process = process
    self._num_started = 0
    self._num_ended = 0
    self._lock = threading.Lock()
    self._closed = threading.Event()
    self._thread = threading.Thread(target=self._run, name="worker_watch", daemon=True)
    self._thread.start()

  def close(self) -> None:
    """Ends the watch and its thread."""
    self._closed.set()
    self._thread.join()

  def intercept_unary_unary(
      self, continuation: Callable, client_call_details: Any, request: Any
  ) -> Any:
    """Passes a call on; gRPC calls this."""
    with self._lock:
      self._num_started += 1
    try:
      return continuation(client_call_details, request)
    finally:
      with self._lock:
        self._num_ended += 1

  def _run(self) -> None:
    idle_polls = IdlePolls()
    # That it has ended is noticed without this watch.
    with contextlib.suppress(psutil.NoSuchProcess):
      process = psutil.Process(self._process.pid)
      while not self._closed.wait(_POLL_SECONDS):
        times = process.cpu_times()
        with self._lock:
          calls = self._num_started, self._num_ended
        idle_polls.add(*calls, times.user + times.system)
        if idle_polls.count >= _MAX_IDLE_POLLS:
          self._end(process.status() in _STOPPED)
          return

  def _end(self, is_stopped: bool) -> None:
    why = ", because it was stopped by a signal" if is_stopped else ""
    seconds = _MAX_IDLE_POLLS * _POLL_SECONDS
    self.reason = f"computed nothing for {seconds:g} s{why}, and was ended"
    self._process.kill()
