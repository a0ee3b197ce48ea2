"""Measures cells: in this process, each in one of several others, or by the workers of a cluster.

A cluster is one of Dask, whose own configuration says how it is reached, mutual TLS included.  Its
scheduler and workers have the project installed, and the same versions of what it needs as this
process.  The workers share the folders of the data and of the run.
"""

from concurrent import futures
import contextlib
import dataclasses
import importlib
import logging
import os
import pickle
import signal
import threading
import time
from typing import Any, Callable, Generator, Mapping, Sequence
import warnings

import tqdm

from clustering_basics import child_process
from clustering_basics import validate
from experiment_shell import output_folder

_SECONDS_TO_CONNECT = 10
# What carries the cells, or computes their numbers.
_PACKAGES = (
    "cloudpickle", "dask", "distributed", "numpy", "pandas", "scikit-learn", "scipy", "tensorflow",
    "tensorflow-federated", "jax", "jaxlib",
)
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
  child_process.serve_parent(parent_pid)
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


def _versions() -> dict[str, str]:
  """Returns the versions that all processes of a cluster must have, by name."""
  found = output_folder.versions(_PACKAGES)
  return {**found, "python": found["python"].rpartition(".")[0]}


def _check_workers(client: Any, cluster: str) -> None:
  """Raises a ValueError unless the workers of a cluster can measure what this process would."""
  threads = client.nthreads().values()
  # TensorFlow Federated's context is that of a process.
  if max(threads, default=0) != 1:
    raise validate.error(
        "cluster", "have workers, of one thread each (--nthreads=1)", [*threads]
    )
  try:
    found = [client.run_on_scheduler(_versions), *client.run(_versions).values()]
  except Exception as e:  # pylint: disable=broad-exception-caught
    # What a worker raises may come as a plain Exception.
    rule = f"have a scheduler and workers on which this project is installed, as here ({e})"
    raise validate.error("cluster", rule, cluster) from e
  here = _versions()
  for there in found:
    if there != here:
      changes = output_folder.version_changes(here, there)
      raise validate.error(
          "cluster", f"have a scheduler and workers with the versions of here, not {changes}",
          cluster,
      )


def connected(cluster: str) -> Any:
  """Returns a `distributed.Client` of a cluster; ValueError if it can't measure.

  Args:
    cluster: The address of its scheduler.
  """
  try:
    import distributed
  except ModuleNotFoundError as e:
    raise validate.error(
        "cluster", "be left out where the extra `cluster` is not installed", cluster
    ) from e
  for name in ("distributed", "distributed.client"):
    logging.getLogger(name).setLevel(logging.CRITICAL)  # What fails is told in one line.

  class Client(distributed.Client):

    def start(self, **options: Any) -> None:
      try:
        super().start(**options)
      except BaseException:
        # It would close itself when it is collected, for which it takes a lock; if the next client,
        # which has that lock, were the one to collect it, both would wait for ever.
        self.close()
        raise

  client = None
  with contextlib.suppress(OSError, ValueError, TypeError, RuntimeError, ImportError):
    with warnings.catch_warnings():
      warnings.simplefilter("ignore", distributed.versions.VersionMismatchWarning)
      client = Client(cluster, timeout=_SECONDS_TO_CONNECT)
  if client is None:
    raise validate.error("cluster", "be the address of a Dask scheduler that answers", cluster)
  with contextlib.ExitStack() as stack:
    stack.enter_context(client)
    _check_workers(client, cluster)
    stack.pop_all()
  return client


def _measured_there(processes: Processes, pickled: bytes) -> Any:
  """Returns what `_measured` makes of its pickled arguments, whose classes may need the modules."""
  import threadpoolctl

  os.environ.update(processes.variables)
  for name in processes.modules:
    importlib.import_module(name)
  threads = processes.variables.get("OMP_NUM_THREADS")
  # What the worker had loaded before does not read the variables again.
  with threadpoolctl.threadpool_limits(threads and int(threads)):
    return _measured(*pickle.loads(pickled))


def _outcomes_of_cluster(
    measure: Callable[..., Any], run: Any, cells: Sequence[Mapping[str, Any]],
    failures: tuple[type[Exception], ...], client: Any, processes: Processes,
) -> Generator[Outcome, None, None]:
  """Yields every cell and its outcome; a cell whose worker dies is measured again by another."""
  import cloudpickle
  import distributed

  closed = distributed.client.ClosedClientError
  cell_of: dict[Any, Mapping[str, Any]] = {}
  try:
    for cell in cells:
      pickled = cloudpickle.dumps((measure, run, cell, failures))
      cell_of[client.submit(_measured_there, processes, pickled, pure=False)] = cell
    for done in distributed.as_completed(cell_of):
      error = done.exception()
      if isinstance(error, ImportError):
        raise ConnectionError(f"a worker of the cluster can't import what it needs ({error})")
      # It has ended several workers.
      if error is not None and not isinstance(error, distributed.KilledWorker):
        raise error
      yield cell_of[done], done.result() if error is None else error
  except (futures.CancelledError, closed) as e:
    raise ConnectionError("the scheduler of the cluster has ended, or can't be reached") from e
  finally:
    with contextlib.suppress(closed):
      client.cancel(list(cell_of))


def call(work: Callable[..., Any], *arguments: Any) -> Any:
  """Returns what a function returns in a process of its own.

  Raises:
    ChildProcessError: If that process dies.
  """
  from joblib.externals import loky  # It takes long to import.

  try:
    with loky.ProcessPoolExecutor(1, initializer=_begin, initargs=(os.getpid(), ())) as pool:
      return pool.submit(work, *arguments).result()
  except loky.process_executor.BrokenProcessPool as e:
    raise ChildProcessError(f"the process of {work.__name__} died; what it said is above.") from e


def outcomes(
    measure: Callable[..., Any], run: Any, cells: Sequence[Mapping[str, Any]],
    failures: tuple[type[Exception], ...], jobs: int, processes: Processes | None = None,
    client: Any = None,
) -> Generator[Outcome, None, None]:
  """Yields every cell with what `measure` returned, or with the exception that failed it.

  Args:
    failures: The exceptions that fail a cell; others end the run.  The end of the process that
      measures a cell fails that cell.
    jobs: How many cells are measured at once.  With 1, they are measured in their order.
    processes: If given, also a single job has a process of its own.
    client: If given, what `connected` returned; the workers of its cluster measure.
  """
  if client is not None:
    yield from _outcomes_of_cluster(
        measure, run, cells, failures, client, processes or Processes()
    )
    return
  if jobs == 1 and processes is None:
    for cell in cells:
      yield cell, _measured(measure, run, cell, failures)
    return
  from joblib.externals import loky  # It takes long to import.

  processes = processes or Processes()
  # By thread, each with one process: of a pool with several, nobody knows whose cell ended it.
  pools: dict[int, Any] = {}
  lock = threading.Lock()

  def measured(cell: Mapping[str, Any]) -> Outcome:
    thread = threading.get_ident()
    try:
      with lock:
        if thread not in pools:
          pools[thread] = loky.ProcessPoolExecutor(
              1, initializer=_begin, initargs=(os.getpid(), processes.modules),
              env=dict(processes.variables),
          )
        found = pools[thread].submit(_measured, measure, run, cell, failures)
        # A pool that is shut down before that fails, and tells of it.
        while not (found.running() or found.done()):
          time.sleep(0.01)
      return cell, found.result()
    except loky.process_executor.BrokenProcessPool as e:
      del pools[thread]
      return cell, e

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
        for pool in list(pools.values()):
          pool.shutdown(kill_workers=True)
