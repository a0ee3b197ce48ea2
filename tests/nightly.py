"""Long tests run with `bazel test --config=nightly` only, statistical ones then with all seeds."""

from collections.abc import Sequence
import os
from typing import TypeVar
import unittest

_IS_NIGHT = os.environ.get("NIGHTLY") == "1"
_NUM_DAILY_SEEDS = 3
_T = TypeVar("_T")

only = unittest.skipUnless(_IS_NIGHT, "runs with --config=nightly only")


def seeds(num_seeds: int) -> Sequence[int]:
  """Returns the seeds of this run: all of them, or the first three by day."""
  return range(num_seeds if _IS_NIGHT else min(num_seeds, _NUM_DAILY_SEEDS))


def either(by_day: _T, by_night: _T) -> _T:
  """Returns what this run takes, such as how often it draws something."""
  return by_night if _IS_NIGHT else by_day


def skip_by_day(test: unittest.TestCase, is_long: bool) -> None:
  """Skips a test by day if its parameters make it a long one."""
  if is_long and not _IS_NIGHT:
    test.skipTest("long: runs with --config=nightly only")
