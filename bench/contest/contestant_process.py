"""A contestant in a process of its own, which is asked for one round at a time."""

import json
import os
import select
import subprocess
import time

import numpy as np
import psutil

from bench.contest import environments
from experiment_shell import child_process

_SECONDS_TO_END = 10


class ContestantFailed(Exception):
  """The contestant does not start, ended or does not answer; the message says why."""


class ContestantProcess:
  """The process; a context manager that ends it.

  Attributes:
    start_seconds: Time from the start of the process to its first answer.
  """

  def __init__(self, contestant, python, job_folder, answer_seconds):
    """Starts the process and waits until it is ready.

    Args:
      contestant: A `contestants.Contestant`.
      python: Path of the Python of its environment.
      job_folder: A folder with a job; the process's working folder.
      answer_seconds: How long it may take for each answer.

    Raises:
      ContestantFailed: If it does not start or is not ready in time.
    """
    self._answer_seconds = answer_seconds
    self._folder = job_folder
    self._unread = b""
    self._errors = open(os.path.join(job_folder, "errors.txt"), "w+b")
    start = time.perf_counter()
    try:
      self._process = subprocess.Popen(
          [
              python, "-s", "-m", "bench.contest.contestant_worker", contestant.module,
              str(os.getpid()),
          ],
          stdin=subprocess.PIPE,
          stdout=subprocess.PIPE,
          stderr=self._errors,
          cwd=job_folder,
          env={
              **os.environ,
              "TF_CPP_MIN_LOG_LEVEL": "3",
              **contestant.variables,
              # This project's modules, without its packages, which that Python may lack.
              "PYTHONPATH": environments.project_folder(),
          },
      )
    except OSError as e:
      self._errors.close()
      raise ContestantFailed(f"{python} can't be run ({e.strerror})") from e
    try:
      self._answer()
    except BaseException:
      self.close()
      raise
    self.start_seconds = time.perf_counter() - start

  def __enter__(self):
    return self

  def __exit__(self, *unused_exception):
    self.close()

  def _processes(self):
    """Returns the process and all that it has started, as `psutil.Process`es."""
    try:
      root = psutil.Process(self._process.pid)
      return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
      return []

  def close(self):
    """Ends the process and all that it has started."""
    if self._errors.closed:
      return
    processes = self._processes()
    for process in processes:
      try:
        process.kill()
      except psutil.NoSuchProcess:
        pass
    self._process.kill()
    self._process.communicate()
    psutil.wait_procs(processes, timeout=_SECONDS_TO_END)
    self._errors.close()

  def peak_megabytes(self):
    """Returns the sum of the highest memory of each of its processes, in MB."""
    return sum(map(_peak_bytes, self._processes())) / 1e6

  def run_round(self, number):
    """Has it run a round.

    Args:
      number: The round, from 1, in ascending order.

    Returns:
      The seconds that the round took, and the model after it, float32 of shape (P,).

    Raises:
      ContestantFailed: If it ends or does not answer in time.
    """
    path = os.path.join(self._folder, "vector.npy")
    request = json.dumps({"round": number, "save_to": path}) + "\n"
    try:
      self._process.stdin.write(request.encode())
      self._process.stdin.flush()
    except OSError as e:
      raise ContestantFailed(self._ending()) from e
    seconds = self._answer()["seconds"]
    return seconds, np.load(path)

  def _answer(self):
    end = time.monotonic() + self._answer_seconds
    while b"\n" not in self._unread:
      left = end - time.monotonic()
      if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
        raise ContestantFailed(f"no answer in {self._answer_seconds:g} s")
      some = os.read(self._process.stdout.fileno(), 2**16)
      if not some:
        raise ContestantFailed(self._ending())
      self._unread += some
    line, self._unread = self._unread.split(b"\n", 1)
    try:
      return json.loads(line)
    except ValueError as e:
      raise ContestantFailed(f"its answer is no JSON: {line[:80]!r}") from e

  def _ending(self):
    """Returns how the process ended: its code and the last line that it printed."""
    try:
      code = self._process.wait(timeout=_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
      return "it closed its output"
    parts = f"it ended with code {code}", child_process.last_line(self._errors)
    return ": ".join(filter(None, parts))


def _peak_bytes(process):
  try:
    with open(f"/proc/{process.pid}/status", encoding="ascii", errors="replace") as f:
      (peak,) = (line.split()[1] for line in f if line.startswith("VmHWM:"))
  except (OSError, ValueError):  # It ended, or has no memory anymore.
    return 0
  return int(peak) * 1024
