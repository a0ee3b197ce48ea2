"""Measures cells, in this process or each in one of several others."""

from concurrent import futures
import dataclasses
import functools
import importlib
import os
import queue
import signal
import threading
import time
from typing import Any, Callable, Generator, Mapping, Sequence

import tqdm

from experiment_shell import child_process

Outcome = tuple[Mapping[str, Any], Any]


@dataclasses.dataclass(frozen=True)
class Processes:
  """What the processes that measure have beside what every process has.

  Attributes:
    variables: Environment variables.
    modules: The names of modules that they import before all others.
  """

  variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
  modules: Sequence[str] = ()


def _begin(parent_pid: int, modules: Sequence[str]) -> None:
  """Prepares a process that measures."""
  child_process.end_with_parent(parent_pid)
  # Ctrl-C is for the program, which ends its processes.
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  # Or else it would become an exception, which ends the run and not one cell.
  signal.signal(signal.SIGTERM, lambda number, frame: os._exit(128 + number))
  # Its own lock, for several processes, would be left in the system.
  tqdm.tqdm.set_lock(threading.RLock())
  for name in modules:
    importlib.import_module(name)


def _measured(
    measure: Callable[..., Any], run: Any, cell: Mapping[str, Any],
    failures: tuple[type[Exception], ...],
) -> Any:
  try:
    return {name: list(rows) for name, rows in measure(run, **cell).items()}
  except failures as e:
    return e


def outcomes(
    measure: Callable[..., Any], run: Any, cells: Sequence[Mapping[str, Any]],
    failures: tuple[type[Exception], ...], jobs: int, processes: Processes | None = None,
) -> Generator[Outcome, None, None]:
  """Yields every cell with what `measure` returned, or with the exception that failed it.

  Args:
    failures: The exceptions that fail a cell; others end the run.  The end of the process that
      measures a cell fails that cell.
    jobs: How many cells are measured at once.  With 1, they are measured in their order.
    processes: If given, also a single job has a process of its own.
  """
  if jobs == 1 and processes is None:
    for cell in cells:
      yield cell, _measured(measure, run, cell, failures)
    return
  from joblib.externals import loky  # It takes long to import.

  processes = processes or Processes()
  # Of a pool with several processes, nobody knows whose cell ended it.
  new_pool = functools.partial(
      loky.ProcessPoolExecutor, 1, initializer=_begin, initargs=(os.getpid(), processes.modules),
      env=dict(processes.variables),
  )
  pools = [new_pool() for _ in range(jobs)]
  free: queue.SimpleQueue[int] = queue.SimpleQueue()
  for place in range(jobs):
    free.put(place)

  lock = threading.Lock()

  def submitted(place: int, cell: Mapping[str, Any]) -> Any:
    with lock:
      found = pools[place].submit(_measured, measure, run, cell, failures)
      # A pool that is shut down before that fails, and tells of it.
      while not (found.running() or found.done()):
        time.sleep(0.01)
    return found

  def measured(cell: Mapping[str, Any]) -> Outcome:
    place = free.get()
    try:
      return cell, submitted(place, cell).result()
    except loky.process_executor.BrokenProcessPool as e:
      pools[place] = new_pool()
      return cell, e
    finally:
      free.put(place)

  with futures.ThreadPoolExecutor(jobs) as threads:
    waiting = [threads.submit(measured, cell) for cell in cells]
    error = None
    try:
      for done in futures.as_completed(waiting):
        if done.cancelled():
          continue
        if done.exception() is None:
          yield done.result()
          continue
        # The cells that are measured now are not lost.
        error = error or done.exception()
        for one in waiting:
          one.cancel()
      if error is not None:
        raise error
    finally:  # Also if the program is interrupted.
      for one in waiting:
        one.cancel()
      with lock:
        for pool in pools:
          pool.shutdown(kill_workers=True)
