"""Runs Python code in processes of its own, in tests."""

import functools
import os
import subprocess
import sys
import time

import psutil

# What takes longer hangs: also on a busy machine, all of it takes far less.
TIMEOUT_SECONDS = 600


def environment():
  """Returns the environment of a program that finds this project's modules."""
  found = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
  found.pop("TF_CPP_MIN_LOG_LEVEL", None)  # TensorFlow sets it when a test imports it.
  return found


def run(script):
  """Runs Python code in a process of its own; returns its `subprocess.CompletedProcess`."""
  return subprocess.run(
      [sys.executable, "-c", script], check=False, capture_output=True, text=True,
      env=environment(), timeout=TIMEOUT_SECONDS,
  )


@functools.cache
def _refusal(enter):
  """Returns why this machine does not allow what a function of `isolation` does; "" if it does."""
  result = run(f"from fl_clustering.runtime import isolation\nisolation.{enter}()")
  return result.stderr.strip().rpartition("\n")[2] if result.returncode else ""


def skip_where_refused(test, enter="isolate"):
  """Skips a test on a machine that does not allow what a function of `isolation` does."""
  if reason := _refusal(enter):
    test.skipTest(f"this machine refuses `isolation.{enter}()`: {reason}")


def becomes(condition):
  """Returns whether something is so, after a while."""
  deadline = time.monotonic() + TIMEOUT_SECONDS
  while not condition() and time.monotonic() < deadline:
    time.sleep(0.02)
  return condition()


def is_gone(pid):
  """Returns whether a process has ended."""
  try:
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
  except psutil.NoSuchProcess:
    return True
