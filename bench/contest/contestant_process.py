"""A contestant in a process of its own, which is asked for one round at a time.

The process's working folder holds the job.  The contestant's module has a function `serve(job,
answer_requests)`.  It prepares itself and then calls `answer_requests(prepare)`, where
`prepare(number)` does what a round needs and nobody would time, and returns a function
without arguments that runs the round and returns the model after it, a float32 vector.
"""

from __future__ import annotations

import importlib
import os
import time
from types import ModuleType
from typing import Any, Callable, Iterator, TYPE_CHECKING

import numpy as np

from bench.contest import job as job_lib
from experiment_shell import child_process

if TYPE_CHECKING:
  from bench.contest import contestants


def serve(requests: Iterator[Any], answer: Callable[[Any], None]) -> None:
  """Runs the contestant whose module the first request names, then a round for each."""
  module = importlib.import_module(next(requests))

  def answer_requests(prepare: Callable[[int], Callable[[], np.ndarray]]) -> None:
    answer("ready")
    for request in requests:
      run_round = prepare(request["round"])
      start = time.perf_counter()
      vector = run_round()
      seconds = time.perf_counter() - start
      np.save(request["save_to"], vector)
      answer(seconds)

  module.serve(job_lib.read("."), answer_requests)


def limit_threads(tf: ModuleType) -> int:
  """Gives every operation of TensorFlow one thread; returns the number of cores.

  For contestants that compute as many clients at a time as there are cores.  It comes before
  TensorFlow's first operation.
  """
  num_cores = len(os.sched_getaffinity(0))
  tf.config.threading.set_intra_op_parallelism_threads(1)
  tf.config.threading.set_inter_op_parallelism_threads(num_cores)
  return num_cores


class ContestantProcess:
  """The process; a context manager that ends it.

  Attributes:
    answer_seconds: How long it may take for each answer.
    start_seconds: Time from the start of the process to its first answer.
    child: The `ChildProcess`.
  """

  def __init__(
      self, contestant: contestants.Contestant, python: str, job_folder: str, answer_seconds: float
  ) -> None:
    """Starts the process and waits until it is ready; `Failed` if that does not work in time.

    Args:
      contestant: Who runs.
      python: Path of the Python of its environment.
      job_folder: A folder with a job; the process's working folder.
      answer_seconds: How long it may take for each answer.
    """
    self.answer_seconds = answer_seconds
    self._vector = os.path.join(job_folder, "vector.npy")
    start = time.perf_counter()
    try:
      self.child = child_process.ChildProcess(
          child_process.serving(__name__, python),
          {
              "TF_CPP_MIN_LOG_LEVEL": "3",
              # For what it starts: this project's modules, without its packages, which that
              # Python may lack.
              "PYTHONPATH": child_process.PROJECT_FOLDER,
              **contestant.variables,
          },
          job_folder,
      )
    except OSError as e:
      raise child_process.Failed(f"{python} can't be run ({e.strerror})") from e
    try:
      self.child.send(contestant.module)
      self.child.answer(answer_seconds)
    except BaseException:
      self.close()
      raise
    self.start_seconds = time.perf_counter() - start

  def __enter__(self) -> ContestantProcess:
    return self

  def __exit__(self, *unused_exception: object) -> None:
    self.close()

  def close(self) -> None:
    """Ends the process and all that it has started."""
    self.child.close()

  def run_round(self, number: int) -> tuple[float, np.ndarray]:
    """Has it run a round; `Failed` if it ends or does not answer in time.

    Args:
      number: The round, from 1, in ascending order.

    Returns:
      The seconds that the round took, and the model after it, float32 of shape (P,).
    """
    self.child.send({"round": number, "save_to": self._vector})
    return self.child.answer(self.answer_seconds), np.load(self._vector)
