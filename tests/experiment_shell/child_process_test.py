import os
import signal
import subprocess
import sys
import tempfile

from absl.testing import absltest
from absl.testing import parameterized
import psutil

from experiment_shell import child_process
from tests.experiment_shell import run_folder

# Starts a process that ends with it, tells of it, and waits.
_PARENT = """
import os, subprocess, sys

child = "from experiment_shell import child_process; import sys, time; "
child += "child_process.end_with_parent(int(sys.argv[1])); print('ready', flush=True); "
child += "time.sleep(120)"
process = subprocess.Popen([sys.executable, "-c", child, str(os.getpid())], stdout=subprocess.PIPE)
process.stdout.readline()
print(process.pid, flush=True)
process.wait()
"""
_RAISES = "import traceback\ntry:\n  print(1 / 0)\nexcept ArithmeticError:\n  traceback.print_exc()"


class ChildProcessTest(parameterized.TestCase):

  def test_a_child_ends_when_its_parent_is_killed(self):
    with run_folder.started("-c", _PARENT) as parent:
      child = psutil.Process(int(parent.stdout.readline()))
      os.kill(parent.pid, signal.SIGKILL)

    self.assertEqual(psutil.wait_procs([child], timeout=60)[1], [])

  @parameterized.parameters(
      ("", ""), ("print('\\n ', file=sys.stderr)", ""),
      ("print('one\\n two \\n', file=sys.stderr)", "two"),
      ("sys.stderr.buffer.write(b'\\xff\\n')", "\ufffd"),
      (_RAISES, "ZeroDivisionError: division by zero (<string>, line 3)"),
      (f"{_RAISES}; sys.exit('Stopped.')", "Stopped."),
  )
  def test_the_last_line_with_text_and_the_place_that_an_exception_was_raised_at(
      self, script, expected
  ):
    with tempfile.TemporaryFile() as errors:
      subprocess.run([sys.executable, "-c", f"import sys; {script}"], check=False, stderr=errors)

      self.assertEqual(child_process.last_line(errors), expected)


if __name__ == "__main__":
  absltest.main()
