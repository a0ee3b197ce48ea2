"""Measures cells, in this process or each in one of several others."""

from concurrent import futures
import functools
import os
import queue
from typing import Any, Callable, Generator, Mapping, Sequence

from experiment_shell import child_process

Outcome = tuple[Mapping[str, Any], Any]


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
    failures: tuple[type[Exception], ...], jobs: int,
) -> Generator[Outcome, None, None]:
  """Yields every cell with what `measure` returned, or with the exception that failed it.

  Args:
    failures: The exceptions that fail a cell; others end the run.  The end of the process that
      measures a cell fails that cell.
    jobs: With 1, cells are measured in this process and in their order.
  """
  if jobs == 1:
    for cell in cells:
      yield cell, _measured(measure, run, cell, failures)
    return
  from joblib.externals import loky  # It takes long to import.

  # Of a pool with several processes, nobody knows whose cell ended it.
  new_pool = functools.partial(
      loky.ProcessPoolExecutor, 1, initializer=child_process.end_with_parent,
      initargs=(os.getpid(),),
  )
  pools = [new_pool() for _ in range(jobs)]
  free: queue.SimpleQueue[int] = queue.SimpleQueue()
  for place in range(jobs):
    free.put(place)

  def measured(cell: Mapping[str, Any]) -> Outcome:
    place = free.get()
    try:
      return cell, pools[place].submit(_measured, measure, run, cell, failures).result()
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
      for pool in pools:
        pool.shutdown(kill_workers=True)
