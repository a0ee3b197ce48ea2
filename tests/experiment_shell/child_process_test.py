import os
import signal
import subprocess
import sys
import tempfile

from absl.testing import absltest
from absl.testing import parameterized
import psutil

from experiment_shell import child_process

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


def _environment():
  return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


class ChildProcessTest(parameterized.TestCase):

  def test_a_child_ends_when_its_parent_is_killed(self):
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], env=_environment(), stdout=subprocess.PIPE
    ) as parent:
      child = psutil.Process(int(parent.stdout.readline()))
      os.kill(parent.pid, signal.SIGKILL)

    self.assertEqual(psutil.wait_procs([child], timeout=60)[1], [])

  def test_a_child_whose_parent_is_gone_ends_at_once(self):
    script = "from experiment_shell import child_process; child_process.end_with_parent(-1)"
    result = subprocess.run(
        [sys.executable, "-c", f"{script}; print('goes on')"], env=_environment(), check=False,
        capture_output=True, text=True,
    )

    self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)

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
