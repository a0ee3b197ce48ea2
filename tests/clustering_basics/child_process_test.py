import os
import signal
import subprocess
import sys

from absl.testing import absltest
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


class ChildProcessTest(absltest.TestCase):

  def test_a_child_ends_when_its_parent_is_killed(self):
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], env={"PYTHONPATH": child_process.PROJECT_FOLDER},
        stdout=subprocess.PIPE,
    ) as parent:
      child = psutil.Process(int(parent.stdout.readline()))
      os.kill(parent.pid, signal.SIGKILL)

    self.assertEqual(psutil.wait_procs([child], timeout=60)[1], [])


if __name__ == "__main__":
  absltest.main()
