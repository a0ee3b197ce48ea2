"""Runs a worker for programs on other machines, without TFF in the memory of this process."""

import contextlib

from fl_clustering.distribution import announcement
from fl_clustering.distribution import worker_process


class WorkerNotStarted(RuntimeError):
  """The worker ended at once, or never answered."""


def end_text(code):
  """Returns how a worker ended, in words.

  Args:
    code: Its exit code.
  """
  return f"the worker ended with code {code} (-9 is often a lack of memory)."


def _check_answers(process, port):
  with worker_process.channel(f"127.0.0.1:{port}") as channel:
    if worker_process.answers(process, channel):
      return
  if process.poll() is not None:
    raise WorkerNotStarted(end_text(process.returncode))
  raise WorkerNotStarted(
      f"the worker did not answer within {worker_process.START_TIMEOUT_SECONDS} s."
  )


@contextlib.contextmanager
def worker(entrance, folder, num_cores, site=None):
  """Runs a worker that answers; it ends with the block, or with the thread that started it.

  Args:
    entrance: The `entrance.Entrance` at which programs reach it.
    folder: The folder of its files.
    num_cores: How many clients it computes at a time.
    site: What it says of the clients that it owns, a dict for JSON; None if it owns none.

  Yields:
    Its process, a `subprocess.Popen`.

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
