"""Measuring in several processes of a benchmark.

The same code differs more from launch to launch than from call to call.
"""

import json
import os
import statistics
import subprocess
import sys

from absl import flags

from experiment_shell import launch

_LAUNCHES = flags.DEFINE_integer("launches", 5, "Processes to launch.", lower_bound=1)
_CHILD = flags.DEFINE_bool("child", False, "Internal: measure in this process.")


def run(measure, print_results):
  """Measures in several processes one after another, and prints.

  Args:
    measure: A function that measures in the process that it is called in, and returns
      a value for JSON.
    print_results: A function of the list of these values, one per process.
  """
  if _CHILD.value:
    print(json.dumps(measure()))
  else:
    print_results(measured())


def is_child():
  """Returns whether this process is one that `measured` or `run` launched."""
  return _CHILD.value


def measured(*more_flags):
  """Measures in several processes of this program, which call `run`.

  Args:
    *more_flags: Flags of theirs, beside those of this process.

  Returns:
    A list of what they measured, one value per process.
  """
  return [_launch_child(more_flags) for _ in range(_LAUNCHES.value)]


def _launch_child(more_flags):
  environment = {
      **os.environ,
      "BUILD_WORKING_DIRECTORY": os.getcwd(),
      # The child is started by its file's path, and finds this project's packages here.
      "PYTHONPATH": os.pathsep.join(sys.path),
  }
  result = subprocess.run(
      [sys.executable, *sys.argv, *more_flags, "--child"],
      check=False, stdout=subprocess.PIPE, env=environment)
  if result.returncode:
    raise launch.RunFailed(f"a measuring process ended with code {result.returncode}.")
  return json.loads(result.stdout)


def shown(values, digits):
  """Returns the median of the launches with the lowest and the highest, as text."""
  median, low, high = (
      f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values))
  )
  return f"{median} ({low} - {high})"
