import os
import subprocess
import sys

from absl.testing import absltest

# A benchmark that measures its own flag, or ends.  (The flags of `harness` can't be in a process
# with those of `peers`.)
_PROGRAM = """
from experiment_shell import launch

import os

from absl import flags

from bench import harness

flags.DEFINE_integer("number", 1, "A number.")


def measure():
  print("what a library prints is no answer")
  if flags.FLAGS.number == 13:
    raise launch.RunFailed("thirteen.")
  order = []
  contestants = {name: lambda name=name: order.append(name) for name in "ab"}
  seconds, megabytes = harness.take_turns(contestants, 2, pid=os.getpid())
  assert list(seconds) == list(megabytes) == ["a", "b"] and min(megabytes.values()) > 1
  return {"number": flags.FLAGS.number, "pid": os.getpid(), "order": "".join(order)}


def print_results(runs):
  print(os.getpid() not in {run["pid"] for run in runs}, len({run["pid"] for run in runs}))
  print([run["number"] for run in runs], harness.launched("--number=5")["number"])
  print(runs[0]["order"], harness.shown([3.0, 1.0, 2.5], 1))


launch.run(lambda: harness.run(measure, print_results))
"""


class HarnessTest(absltest.TestCase):

  def _run(self, *arguments):
    program = self.create_tempfile("program.py", _PROGRAM).full_path
    return subprocess.run(
        [sys.executable, program, *arguments], check=False, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )

  def test_every_launch_is_a_process_where_contestants_take_turns(self):
    result = self._run("--launches=3", "--number=2")

    self.assertEqual(
        (result.returncode, result.stdout),
        (0, "True 3\n[2, 2, 2] 5\nababab 2.5 (1.0 - 3.0)\n"),
    )

  def test_a_launch_that_fails_ends_the_program_with_its_last_words(self):
    result = self._run("--number=13")

    self.assertEqual((result.returncode, result.stdout), (1, ""))
    self.assertEqual(
        result.stderr,
        "error: a measuring process failed: it ended with code 1: error: thirteen.\n",
    )


if __name__ == "__main__":
  absltest.main()
