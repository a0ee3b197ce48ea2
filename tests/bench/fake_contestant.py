"""Contestants for tests: they add 1 to every weight in a round, or misbehave.

The environment variable FAKE_CONTESTANT says how: "well", "crash", "hang" and "children"
(hang with a child process) in round 2, "late" and "broken" at the start.
"""

import os
import subprocess
import sys
import time

from bench.contest import contestants

_MINUTES = 300


def contestant(behaviour):
  """Returns the row of a contestant with a behaviour."""
  return contestants.Contestant(
      f"fake, {behaviour}", "tests.bench.fake_contestant", ("numpy",),
      variables={"FAKE_CONTESTANT": behaviour},
  )


def serve(job, answer_requests):
  """Answers requests; see `contestant_process.py`."""
  behaviour = os.environ["FAKE_CONTESTANT"]
  if behaviour == "broken":
    raise ImportError("no module of this name")
  if behaviour == "late":
    time.sleep(_MINUTES)
  print("what a library prints is no answer")
  vector = job.vector

  def prepare(number):
    def run_round():
      nonlocal vector
      if number == 2 and behaviour == "crash":
        raise ArithmeticError("round two")
      if number == 2 and behaviour == "children":
        with subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({_MINUTES})"]):
          time.sleep(_MINUTES)
      if number == 2 and behaviour == "hang":
        time.sleep(_MINUTES)
      vector = vector + 1
      return vector

    return run_round

  answer_requests(prepare)
