from concurrent import futures
import os
import signal
import subprocess
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

from fl_clustering import runtime
from fl_clustering.runtime import worker_process
from fl_clustering.runtime import worker_watch
from tests.runtime import scripts


class LocalRuntimeTest(absltest.TestCase):

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
    with self.assertRaises(runtime.WorkerLost):
      tff.federated_computation(lambda: 3)()

  def test_a_worker_computes_so_many_clients_at_a_time_with_a_thread_each(self):
    users = {"TF_NUM_INTRAOP_THREADS": "7", "GLIBC_TUNABLES": "glibc.malloc.check=0", "OWN": "own"}
    with mock.patch.dict(os.environ, users), mock.patch.object(subprocess, "Popen") as started:
      worker_process.start(1, 3)
    self.assertIn("--max_concurrent_computation_calls=3", started.call_args.args[0])
    found = started.call_args.kwargs["env"]
    self.assertEqual((found["TF_NUM_INTRAOP_THREADS"], found["OWN"]), ("1", "own"))
    self.assertStartsWith(found["GLIBC_TUNABLES"], "glibc.malloc.check=0:glibc.pthread.")

  def test_closing_ends_a_call_that_is_under_way(self):
    @tff.tensorflow.computation
    def endless():
      return tf.while_loop(lambda i: i >= 0, lambda i: 1 - i, [tf.constant(0)])[0]

    def compute(context):
      with tff.framework.get_context_stack().install(context):
        endless()

    local = runtime.LocalRuntime(num_cores=1)
    worker = psutil.Process(local.worker_pid)
    before = worker.cpu_times().user
    with futures.ThreadPoolExecutor() as threads:
      call = threads.submit(compute, local.context)
      self.assertTrue(scripts.becomes(lambda: worker.cpu_times().user > before + 0.2))
      local.close()
      with self.assertRaises((grpc.RpcError, runtime.WorkerLost)):
        call.result(scripts.TIMEOUT_SECONDS)

  def test_a_worker_that_dies_is_an_error(self):
    @tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
    def total(values):
      return tff.federated_sum(values)

    with runtime.LocalRuntime(num_cores=1) as local:
      self.assertEqual(runtime.num_cores(), 1)
      self.assertEqual(total([1.0, 2.0]), 3.0)
      os.kill(local.worker_pid, signal.SIGKILL)
      with self.assertRaisesRegex(runtime.WorkerLost, "-9"):
        total([1.0, 2.0])

  def test_a_worker_that_is_stopped_is_an_error(self):
    @tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
    def largest(values):
      return tff.federated_max(values)

    with runtime.LocalRuntime(num_cores=1) as local:
      self.assertEqual(largest([1.0, 2.0]), 2.0)
      os.kill(local.worker_pid, signal.SIGSTOP)
      self.enter_context(mock.patch.object(worker_watch, "_POLL_SECONDS", 0.02))
      with self.assertRaises(runtime.WorkerLost):
        largest([1.0, 2.0])
      self.assertTrue(scripts.becomes(lambda: scripts.is_gone(local.worker_pid)))

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
      for unreadable in (path, folder):
        with self.assertRaises(OSError) as raised:
          sizes([os.fsencode(unreadable)] * 2)
        self.assertIn(repr(unreadable), str(raised.exception))

  def test_a_socket_that_is_lost_is_an_error(self):
    scripts.skip_where_refused(self)
    with runtime.LocalRuntime(num_cores=1) as local:
      psutil.Process(local._socket.pid).kill()
      with self.assertRaises(runtime.WorkerLost):
        tff.federated_computation(lambda: 3)()
