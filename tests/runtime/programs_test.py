"""What is left of a program that uses a `LocalRuntime` when it ends, in whatever way."""

import os
import signal
import subprocess
import sys

from absl.testing import absltest
from absl.testing import parameterized

from tests.runtime import scripts

# Imports TensorFlow Federated once, and forks a program for each script, whose standard streams are
# the pipes of its number.  Prints the numbers and codes of those that end.
_FORK = """
import gc, os, signal, sys
gc.disable()  # It would take a quarter of the time of the import.
from fl_clustering.runtime import local_runtime
gc.enable()
signal.signal(signal.SIGINT, signal.default_int_handler)  # Shells ignore it in the background.
folder, *scripts = sys.argv[1:]
print("imported", flush=True)
numbers = {}
for number, script in enumerate(scripts):
  pid = os.fork()
  if not pid:
    for fd, mode in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
      os.dup2(os.open(f"{folder}/{number}.{fd}", mode), fd)
    exec(script, {"__name__": "__main__"})
    sys.exit()
  numbers[pid] = number
while numbers:
  pid, status = os.wait()
  print(numbers.pop(pid), os.waitstatus_to_exitcode(status), flush=True)
"""
# Each says its own process id, its worker's, the socket's and another word, and waits.
_COMPUTES = """
import atexit, os, sys, threading
# Nobody answers at this port.
os.environ.update(dict.fromkeys(("http_proxy", "https_proxy", "grpc_proxy"), "http://127.0.0.1:9"))
os.environ.update(no_proxy="", no_grpc_proxy="")
import numpy as np
import tensorflow_federated as tff
from fl_clustering import runtime
before = threading.enumerate()
atexit.register(lambda: print([t for t in threading.enumerate() if t not in before]))
local = runtime.LocalRuntime()

@tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
def mean(values):
  return tff.federated_mean(values)

print(os.getpid(), local.worker_pid, local.worker_pid, float(mean([1.0, 2.0, 6.0])), flush=True)
sys.stdin.readline()
"""
_OPEN_PORT = """
from tests.runtime import bare_machine
bare_machine.refuse_unshare()
import os, psutil, sys
import tensorflow_federated as tff
from fl_clustering import runtime
ports = []
for _ in range(2):
  local = runtime.LocalRuntime(num_cores=1)
  assert tff.federated_computation(lambda: 3)() == 3
  connections = psutil.Process(local.worker_pid).connections()
  ports += [each.laddr.port for each in connections if each.status == "LISTEN"]
print(os.getpid(), local.worker_pid, local.worker_pid, ports[0], flush=True)
sys.stdin.readline()
"""
_SOCKET = """
import os, sys
from fl_clustering import runtime
local = runtime.LocalRuntime(num_cores=1)
print(os.getpid(), local.worker_pid, local._socket.pid, local._socket.path, flush=True)
sys.stdin.readline()
"""
_SIGNALS = signal.SIGKILL, signal.SIGINT, signal.SIGTERM


class ProgramsTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    programs = [_COMPUTES, _OPEN_PORT, *[_SOCKET] * len(_SIGNALS)]
    cls._folder = absltest.get_default_test_tmpdir()
    for number in range(len(programs)):
      for fd in range(3):
        path = os.path.join(cls._folder, f"{number}.{fd}")
        os.mkfifo(path)
        cls.addClassCleanup(os.remove, path)
    cls._process = cls.enterClassContext(subprocess.Popen(
        [sys.executable, "-c", _FORK, cls._folder, *programs], stdout=subprocess.PIPE, text=True,
        env={**scripts.environment(), "TF_CPP_MIN_LOG_LEVEL": "3"}, start_new_session=True,
    ))
    # With the programs that no test has asked for.
    cls.addClassCleanup(os.killpg, cls._process.pid, signal.SIGKILL)
    if not cls._process.stdout.readline():
      raise RuntimeError("no program could be forked; its error is above.")

  def _start(self, number):
    """Lets a program run; returns its streams, its process ids and its other word."""
    streams = [
        self.enter_context(open(os.path.join(self._folder, f"{number}.{fd}"), mode))
        for fd, mode in enumerate("wrr")
    ]
    *pids, other = streams[1].readline().rstrip("\n").split(" ", 3)
    pids = [int(pid) for pid in pids]
    for pid in pids:
      self.addCleanup(self._kill, pid)
      self.assertFalse(scripts.is_gone(pid))
    return streams, pids, other

  def _kill(self, pid):
    if not scripts.is_gone(pid):
      os.kill(pid, signal.SIGKILL)

  def test_the_worker_ends_with_the_program_and_a_proxy_is_no_obstacle(self):
    (stdin, stdout, stderr), pids, mean = self._start(0)
    self.assertEqual(mean, "3.0")
    stdin.write("\n")
    stdin.flush()
    # The pipe closes only when nobody holds it any more, the worker included.  All threads of the
    # runtime ended before Python did.
    self.assertEqual(stdout.read(), "[]\n")
    self.assertNotIn("Error", stderr.read())  # Such as one that Python ignores.
    ended = iter(self._process.stdout.readline, "")  # Others, too.
    self.assertIn("0 0\n", ended)
    for pid in pids:
      self.assertTrue(scripts.becomes(lambda: scripts.is_gone(pid)))

  def test_warns_once_of_ports_that_are_open_and_the_worker_ends_when_the_program_is_killed(self):
    (_, _, stderr), (program, worker, _), port = self._start(1)
    os.kill(program, signal.SIGKILL)
    self.assertTrue(scripts.becomes(lambda: scripts.is_gone(worker)))
    (line,) = [line for line in stderr.read().splitlines() if "WARNING" in line]
    self.assertIn(f"at port {port}", line)

  @parameterized.parameters(*enumerate(_SIGNALS, 2))
  def test_nothing_is_left_of_a_program_that_was_ended(self, number, how):
    scripts.skip_where_refused(self)
    _, pids, path = self._start(number)
    os.kill(pids[0], how)
    for pid in pids:
      self.assertTrue(scripts.becomes(lambda: scripts.is_gone(pid)))
    self.assertTrue(scripts.becomes(lambda: not os.path.exists(os.path.dirname(path))))
