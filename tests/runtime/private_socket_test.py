"""Who reaches the worker of a `LocalRuntime`."""

import errno
import gc
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from unittest import mock

from absl.testing import absltest
import psutil
import tensorflow_federated as tff

from fl_clustering import runtime
from fl_clustering.runtime import private_socket
from fl_clustering.runtime import worker_process
from tests.runtime import scripts

# Run in another network namespace than the worker's, or in none of its own.
_CONNECT = """
import socket, sys
try:
  socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
except OSError as e:
  print(type(e).__name__)
else:
  print("connected")
"""


class LocalRuntimeTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    scripts.skip_where_refused(self)

  def test_nobody_else_reaches_the_worker(self):
    with runtime.LocalRuntime(num_cores=1) as local:
      # In this namespace; other programs of this machine may open ports meanwhile.
      for pid in (local.worker_pid, local._socket.pid):
        statuses = [each.status for each in psutil.Process(pid).connections("inet")]
        self.assertNotIn("LISTEN", statuses)
      addresses = {
          address.address
          for addresses in psutil.net_if_addrs().values()
          for address in addresses
          if address.family == socket.AF_INET
      }
      for address in addresses | {"127.0.0.1"}:
        self.assertEqual(self._connect(address), "ConnectionRefusedError", address)
      self.assertEqual(self._connect("127.0.0.1", "isolation.isolate()"), "ConnectionRefusedError")
      # In the worker's own one, it would be reached.
      within = self._connect("127.0.0.1", f"isolation.join({local.worker_pid})")
      self.assertEqual(within, "connected")

  def _connect(self, address, before=""):
    script = f"from fl_clustering.runtime import isolation\n{before}\n{_CONNECT}"
    result = subprocess.run(
        [sys.executable, "-c", script, address, str(private_socket.PORT)], check=False,
        capture_output=True, text=True, env=scripts.environment(),
    )
    self.assertEqual(result.returncode, 0, result.stderr)
    return result.stdout.strip()

  def test_the_socket_is_for_this_user_alone_and_ends_with_the_runtime(self):
    with runtime.LocalRuntime(num_cores=1) as local:
      path = local._socket.path
      found, folder = os.stat(path), os.stat(os.path.dirname(path))
      self.assertTrue(stat.S_ISSOCK(found.st_mode))
      self.assertEqual([stat.S_IMODE(each.st_mode) for each in (found, folder)], [0o600, 0o700])
      self.assertEqual([found.st_uid, folder.st_uid], [os.getuid()] * 2)
      pids = local.worker_pid, local._socket.pid
    self.assertFalse(os.path.exists(os.path.dirname(path)))
    for pid in pids:
      self.assertFalse(psutil.pid_exists(pid))

  def test_a_long_path_of_temporary_files(self):
    short = self.enter_context(tempfile.TemporaryDirectory(dir="/tmp"))
    folder = os.path.join(short, "\u4e2d" * 40)  # Of three bytes each.
    os.mkdir(folder)
    with mock.patch.object(tempfile, "tempdir", folder), runtime.LocalRuntime(num_cores=1):
      self.assertEqual(tff.federated_computation(lambda: 3)(), 3)

  def test_many_runtimes_leave_nothing(self):
    def open_files():
      gc.collect()  # TFF's event loops.
      return len(os.listdir("/proc/self/fd"))

    with runtime.LocalRuntime(num_cores=1):  # What gRPC keeps.
      pass
    files_before, children_before = open_files(), psutil.Process().children()
    for _ in range(2):
      with runtime.LocalRuntime(num_cores=1):
        self.assertEqual(tff.federated_computation(lambda: 3)(), 3)
    # Fewer: what earlier tests left may go meanwhile.
    self.assertLessEqual(open_files(), files_before)
    self.assertEqual(psutil.Process().children(), children_before)

  def test_a_worker_that_was_killed_leaves_no_folder(self):
    with runtime.LocalRuntime(num_cores=1) as local:
      os.kill(local.worker_pid, signal.SIGKILL)
    self.assertFalse(os.path.exists(os.path.dirname(local._socket.path)))

  def test_a_worker_never_starts_outside(self):
    process = worker_process.start(1, 1, network=2**22 + 1)  # No process has such a number.
    self.assertEqual(process.wait(scripts.TIMEOUT_SECONDS), 1)


class RefusedTest(absltest.TestCase):

  def test_another_error_opens_no_port(self):
    no_room = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with (
        mock.patch.object(private_socket, "PrivateSocket", side_effect=no_room),
        mock.patch.object(worker_process, "start", side_effect=AssertionError("a port is open")),
        self.assertRaisesRegex(runtime.WorkerLost, no_room.strerror),
    ):
      runtime.LocalRuntime(num_cores=1)

  def test_nothing_is_left_where_namespaces_are_not_allowed(self):
    result = scripts.run("""
import os, tempfile
from fl_clustering.runtime import private_socket
from tests.runtime import bare_machine
bare_machine.refuse_unshare()
with tempfile.TemporaryDirectory() as tempfile.tempdir:
  try:
    private_socket.PrivateSocket()
  except OSError as e:
    print(e.strerror, os.listdir(tempfile.tempdir))
""")
    self.assertEqual(result.stdout, "Operation not permitted []\n", result.stderr)
