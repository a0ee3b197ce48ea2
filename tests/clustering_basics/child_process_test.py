import io
import os
import signal
import subprocess
import sys
import traceback

from absl.testing import absltest
from absl.testing import parameterized
import psutil

from clustering_basics import child_process

# Starts a process that ends with it, tells of it, and waits.
_PARENT = """
import os, subprocess, sys

child = "from clustering_basics import child_process; import sys, time; "
child += "child_process.end_with_parent(int(sys.argv[1])); print('ready', flush=True); "
child += "time.sleep(120)"
process = subprocess.Popen([sys.executable, "-c", child, str(os.getpid())], stdout=subprocess.PIPE)
process.stdout.readline()
print(process.pid, flush=True)
process.wait()
"""


def _printed(*names):
  """Returns the traceback of an exception, after which a line may follow."""
  try:
    print(1 / 0)
  except ArithmeticError:
    return traceback.format_exc() + "".join(f"{name}\n" for name in names)


class ChildProcessTest(parameterized.TestCase):

  def test_a_child_ends_when_its_parent_is_killed(self):
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], env={"PYTHONPATH": child_process.PROJECT_FOLDER},
        stdout=subprocess.PIPE,
    ) as parent:
      child = psutil.Process(int(parent.stdout.readline()))
      os.kill(parent.pid, signal.SIGKILL)

    self.assertEqual(psutil.wait_procs([child], timeout=60)[1], [])

  @parameterized.parameters(
      ("", "^$"), ("\n \n", "^$"), ("one\n two \n", "^two$"), ("\udcff\n", "^\ufffd$"),
      (_printed(), r"^ZeroDivisionError: division by zero \(.*child_process_test.py, line \d+\)$"),
      (_printed("Stopped."), r"^Stopped\.$"),
  )
  def test_the_last_line_with_text_and_the_place_that_an_exception_was_raised_at(
      self, text, expected
  ):
    errors = io.BytesIO(text.encode(errors="surrogateescape"))
    self.assertRegex(child_process.last_line(errors), expected)


if __name__ == "__main__":
  absltest.main()
