from concurrent import futures
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from unittest import mock

from absl.testing import absltest
import grpc
import numpy as np
import psutil
import tensorflow as tf
import tensorflow_federated as tff

from clustering_basics import core_count
from fl_clustering import runtime
from fl_clustering.runtime import worker_watch
from tests.runtime import scripts

# Starts a runtime, uses it, says the worker's process id, and waits.
_PROGRAM = """
import atexit
import sys
import threading
import numpy as np
import tensorflow_federated as tff
from fl_clustering import runtime

before = threading.enumerate()
atexit.register(lambda: print([t for t in threading.enumerate() if t not in before]))
local = runtime.LocalRuntime()

@tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
def mean(values):
  return tff.federated_mean(values)

print(local.worker_pid, float(mean([1.0, 2.0, 6.0])), flush=True)
sys.stdin.readline()
"""


def _is_running(pid):
  try:
    return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
  except psutil.NoSuchProcess:
    return False


class LocalRuntimeTest(absltest.TestCase):

  def _start_program(self, script, **environment):
    """Starts a program, which first says its worker's process id and another number."""
    program = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TF_CPP_MIN_LOG_LEVEL": "3",
            **environment,
        },
    )
    self.addCleanup(program.stderr.close)
    self.addCleanup(program.stdout.close)
    self.addCleanup(program.stdin.close)
    self.addCleanup(program.kill)
    pid, number = program.stdout.readline().split()
    self.assertTrue(_is_running(int(pid)))
    return program, int(pid), float(number)

  def _check_ended(self, pid):
    deadline = time.monotonic() + 10
    while _is_running(pid) and time.monotonic() < deadline:
      time.sleep(0.05)
    self.assertFalse(_is_running(pid), "The worker outlived its program.")

  def test_the_worker_ends_with_the_program_and_a_proxy_is_no_obstacle(self):
    # Nobody answers at this port.
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "grpc_proxy"), "http://127.0.0.1:9")
    program, pid, mean = self._start_program(
        _PROGRAM, no_proxy="", no_grpc_proxy="", **proxies
    )
    self.assertEqual(mean, 3.0)
    program.stdin.write("\n")
    program.stdin.flush()
    # The pipe closes only when nobody holds it any more, the worker included.  All threads of the
    # runtime ended before Python did.
    self.assertEqual(program.stdout.read(), "[]\n")
    self.assertNotIn("Error", program.stderr.read())  # Such as one that Python ignores.
    self.assertEqual(program.wait(), 0)
    self._check_ended(pid)

  def test_closing_ends_all_threads_and_starts_none(self):
    # A thread that starts while Python exits is what crashes (CPython's issue 87135).
    before = threading.enumerate()
    local = runtime.LocalRuntime(num_cores=1)
    self.assertEqual(tff.federated_computation(lambda: 3)(), 3)
    self.assertGreater(threading.active_count(), len(before))
    with mock.patch.object(threading.Thread, "start") as start:
      local.close()
      time.sleep(0.5)  # gRPC's threads looked at a channel every .2 s.
    start.assert_not_called()
    self.assertEqual(threading.enumerate(), before)
    local.close()
    with self.assertRaisesRegex(runtime.WorkerLost, "was ended with its runtime"):
      tff.federated_computation(lambda: 3)()

  def test_closing_ends_a_call_that_is_under_way(self):
    @tff.tensorflow.computation
    def endless():
      return tf.while_loop(lambda i: i >= 0, lambda i: 1 - i, [tf.constant(0)])[0]

    def compute(context):
      with tff.framework.get_context_stack().install(context):
        endless()

    local = runtime.LocalRuntime(num_cores=1)
    worker = psutil.Process(local.worker_pid)
    before, deadline = worker.cpu_times().user, time.monotonic() + 60
    with futures.ThreadPoolExecutor() as threads:
      call = threads.submit(compute, local.context)
      while worker.cpu_times().user < before + 0.5 and time.monotonic() < deadline:
        time.sleep(0.05)
      local.close()
      with self.assertRaises((grpc.RpcError, runtime.WorkerLost)):
        call.result(timeout=30)

  def test_a_worker_that_dies_is_an_error(self):
    @tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
    def total(values):
      return tff.federated_sum(values)

    with runtime.LocalRuntime(num_cores=1) as local:
      self.assertEqual(runtime.num_cores(), 1)
      self.assertEqual(total([1.0, 2.0]), 3.0)
      os.kill(local.worker_pid, signal.SIGKILL)
      with self.assertRaisesRegex(runtime.WorkerLost, "ended with code -9"):
        total([1.0, 2.0])

  def test_a_worker_that_is_stopped_is_an_error(self):
    @tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
    def largest(values):
      return tff.federated_max(values)

    with runtime.LocalRuntime(num_cores=1) as local:
      self.assertEqual(largest([1.0, 2.0]), 2.0)
      os.kill(local.worker_pid, signal.SIGSTOP)
      self.enter_context(mock.patch.object(worker_watch, "_POLL_SECONDS", 0.02))
      with self.assertRaisesRegex(
          runtime.WorkerLost, "computed nothing for 1.2 s, because it was stopped"
      ):
        largest([1.0, 2.0])
      self._check_ended(local.worker_pid)

  def test_a_file_that_a_client_can_t_read_is_named(self):
    @tff.tensorflow.computation(np.str_)
    def size(path):
      return tf.strings.length(tf.io.read_file(path))

    @tff.federated_computation(tff.FederatedType(np.str_, tff.CLIENTS))
    def sizes(paths):
      return tff.federated_sum(tff.federated_map(size, paths))

    with tempfile.TemporaryDirectory() as folder, runtime.LocalRuntime(num_cores=1):
      path = os.path.join(folder, "client's: file; a.train")
      with open(path, "w", encoding="utf-8") as file:
        file.write("1234")
      self.assertEqual(sizes([os.fsencode(path)] * 2), 8)
      os.remove(path)
      for unreadable, reason in ((path, "No such file or directory"), (folder, "Is a directory")):
        with self.assertRaises(runtime.ClientFileUnreadable) as raised:
          sizes([os.fsencode(unreadable)] * 2)
        self.assertEqual(
            str(raised.exception), f"the clients' file {unreadable!r} can't be read ({reason})."
        )


  def test_a_socket_that_is_lost_is_an_error(self):
    scripts.skip_where_refused(self)
    with runtime.LocalRuntime(num_cores=1) as local:
      psutil.Process(local._socket.pid).kill()
      with self.assertRaisesRegex(runtime.WorkerLost, "process that leads to .* ended"):
        tff.federated_computation(lambda: 3)()

  def test_warns_once_of_ports_that_are_open_and_the_worker_ends_when_the_program_is_killed(self):
    # In a namespace, `private_socket_test` kills the program.
    program, pid, port = self._start_program("""
from tests.runtime import bare_machine
bare_machine.refuse_unshare()
import psutil
import sys
import tensorflow_federated as tff
from fl_clustering import runtime
ports = []
for _ in range(2):
  local = runtime.LocalRuntime(num_cores=1)
  assert tff.federated_computation(lambda: 3)() == 3
  connections = psutil.Process(local.worker_pid).connections()
  ports += [each.laddr.port for each in connections if each.status == "LISTEN"]
print(local.worker_pid, ports[0], flush=True)
sys.stdin.readline()
""")
    program.send_signal(signal.SIGKILL)
    errors = program.stderr.read()
    program.wait()
    self._check_ended(pid)
    (line,) = [line for line in errors.splitlines() if "WARNING" in line]
    self.assertRegex(
        line, f"all network interfaces, now at port {port:.0f}, .*Operation not permitted"
    )


class OfTheCallerOrOwnTest(absltest.TestCase):

  def _current(self):
    return tff.framework.get_context_stack().current

  def test_a_context_of_tff_s_own_is_replaced_and_put_back(self):
    tff.backends.native.set_sync_local_cpp_execution_context()
    before = self._current()
    with runtime.of_the_caller_or_own():
      self.assertEqual(tff.federated_computation(lambda: 3)(), 3)
      within = self._current()
      with runtime.of_the_caller_or_own():
        self.assertIs(self._current(), within)
    self.assertIsNot(within, before)
    self.assertIs(self._current(), before)

  def test_the_caller_s_context_stays(self):
    with runtime.LocalRuntime(num_cores=1):
      before = self._current()
      with runtime.of_the_caller_or_own():
        self.assertIs(self._current(), before)
    with runtime.of_the_caller_or_own():  # That one was ended.
      self.assertIsNot(self._current(), before)

  def test_a_context_that_the_caller_made_stays(self):
    made = tff.framework.SyncExecutionContext(
        tff.framework.ResourceManagingExecutorFactory(lambda unused_cardinalities: None)
    )
    with tff.framework.get_context_stack().install(made), runtime.of_the_caller_or_own():
      self.assertIs(self._current(), made)
      self.assertEqual(runtime.num_cores(), core_count.usable())

  def test_in_another_thread(self):
    def compute():
      with runtime.of_the_caller_or_own():
        return tff.federated_computation(lambda: 3)()

    with futures.ThreadPoolExecutor() as threads:
      self.assertEqual(threads.submit(compute).result(), 3)


if __name__ == "__main__":
  absltest.main()
