"""Launches, turns and times of the benchmarks.

The same code differs more from launch to launch than from call to call.
"""

import json
import runpy
import statistics
import sys
import time
from typing import Any, Callable, Iterator, Mapping, Sequence

from absl import flags

from experiment_shell import child_process
from experiment_shell import launch

_LAUNCHES = flags.DEFINE_integer("launches", 5, "Processes to launch.", lower_bound=1)

_answer_to_parent: Callable[[Any], None] | None = None


def serve(requests: Iterator[Any], answer_to_parent: Callable[[Any], None]) -> None:
  """Runs a benchmark, given by its arguments, in a process that `launched` has launched."""
  global _answer_to_parent
  _answer_to_parent = answer_to_parent
  sys.argv = next(requests)
  runpy.run_path(sys.argv[0], run_name="__main__")


def is_launched() -> bool:
  """Returns whether this process is one that `launched` has launched."""
  return _answer_to_parent is not None


def answer(value: Any) -> None:
  """Gives what this process has measured, for JSON, to the one that launched it; or prints it."""
  if _answer_to_parent is None:
    print(json.dumps(value))
  else:
    _answer_to_parent(value)


def launched(*more_flags: str) -> Any:
  """Returns what another process of this program answers, with other flags beside this one's."""
  names = {flag.partition("=")[0].removeprefix("--") for flag in more_flags}
  given = (flags.FLAGS[name] for name in flags.FLAGS if name not in names)
  texts = dict.fromkeys(flag.serialize() for flag in given if flag.present)
  with child_process.ChildProcess(child_process.serving(__name__)) as child:
    child.send([sys.argv[0], *texts, *more_flags])
    try:
      return child.answer()
    except child_process.Failed as e:
      raise launch.RunFailed(f"a measuring process failed: {str(e).rstrip('.')}.") from e


def measured(*more_flags: str) -> list[Any]:
  """Returns the answers of --launches processes of this program, one after another."""
  return [launched(*more_flags) for _ in range(_LAUNCHES.value)]


def run(measure: Callable[[], Any], print_results: Callable[[list[Any]], None]) -> None:
  """Measures in several processes, by a function that returns a value for JSON, and prints."""
  if is_launched():
    answer(measure())
  else:
    print_results(measured())


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
  """Returns the seconds that a call took, and what it returned."""
  start = time.perf_counter()
  result = call()
  return time.perf_counter() - start, result


def take_turns(
    contestants: Mapping[str, Callable[[], Any]],
    repetitions: int,
    warm_up: bool = True,
    pid: int | None = None,
) -> tuple[dict[str, float], dict[str, float]]:
  """Has every contestant run once in each turn.

  Args:
    contestants: Functions by name.
    repetitions: Number of turns.
    warm_up: Whether there is one more turn before, which is not timed.
    pid: A process whose memory is measured, too.

  Returns:
    The median seconds of every contestant; and the most megabytes of that process during any of
    its turns.
  """
  seconds: dict[str, list[float]] = {name: [] for name in contestants}
  megabytes = dict.fromkeys(contestants, 0.0)
  for turn in range(repetitions + warm_up):
    for name, call in contestants.items():
      if pid is not None:
        child_process.forget_peak(pid)
      one, _ = timed(call)
      if turn >= warm_up:
        seconds[name].append(one)
      if pid is not None:
        megabytes[name] = max(megabytes[name], child_process.peak_megabytes(pid))
  return {name: statistics.median(values) for name, values in seconds.items()}, megabytes


def shown(values: Sequence[float], digits: int) -> str:
  """Returns the median of the launches with the lowest and the highest, as text."""
  median, low, high = (
      f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values))
  )
  return f"{median} ({low} - {high})"
