"""Runs a worker for programs on other machines, without TFF in the memory of this process."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Mapping, TYPE_CHECKING

from fl_clustering.distribution import announcement
from fl_clustering.distribution import worker_process

if TYPE_CHECKING:
  import subprocess

  from fl_clustering.distribution import entrance as entrance_lib


class WorkerNotStarted(RuntimeError):
  """The worker ended at once, or never answered."""


def end_text(code: int) -> str:
  """Returns how a worker ended, in words, from its exit code."""
  return f"the worker ended with code {code} (-9 is often a lack of memory)."


def _check_answers(process: subprocess.Popen, port: int) -> None:
  with worker_process.channel(f"127.0.0.1:{port}") as channel:
    if worker_process.answers(process, channel):
      return
  if process.poll() is not None:
    raise WorkerNotStarted(end_text(process.returncode))
  raise WorkerNotStarted(
      f"the worker did not answer within {worker_process.START_TIMEOUT_SECONDS} s."
  )


@contextlib.contextmanager
def worker(
    entrance: entrance_lib.Entrance,
    folder: str,
    num_cores: int,
    site: Mapping[str, Any] | None = None,
) -> Iterator[subprocess.Popen]:
  """Runs a worker that answers; it ends with the block, or with the thread that started it.

  Args:
    entrance: Where programs reach it.
    folder: The folder of its files.
    num_cores: How many clients it computes at a time.
    site: What it says of the clients that it owns, for JSON; None if it owns none.

  Yields:
    Its process.

  Raises:
    WorkerNotStarted: If it does not start.
  """
  announcement.write(folder, num_cores, site)
  process = worker_process.start(entrance.port, num_cores, folder)
  try:
    _check_answers(process, entrance.port)
    entrance.open()
    yield process
  finally:
    process.kill()
    process.wait()
