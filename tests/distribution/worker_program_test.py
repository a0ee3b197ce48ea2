"""The program `tools:worker`, with real processes on this machine's own addresses."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import portpicker
import psutil
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering import runtime
from fl_clustering.distribution import pool
from fl_clustering.distribution import remote_worker
from fl_clustering.distribution import token_file
from tests import nightly
from tests.distribution import worker_program

_LARGE = 300_000_000
_SECONDS_TO_END = 20
_VECTORS = tff.FederatedType(tff.TensorType(np.float32, [None]), tff.CLIENTS)


@tff.tensorflow.computation(tff.TensorType(np.float32, [None]))
def _halve(values):
  return values / 2


@tff.federated_computation(_VECTORS)
def _halves(clients):
  return tff.federated_map(_halve, clients)


@tff.tensorflow.computation(tff.TensorType(np.float32, [None]))
def _norm(values):
  return tf.norm(tf.sin(values))


@tff.federated_computation(_VECTORS)
def _mean_norm(clients):
  return tff.federated_mean(tff.federated_map(_norm, clients))


def _answers(host, port):
  try:
    with socket.create_connection((host, port), timeout=5):
      return True
  except OSError:
    return False


def _other_addresses():
  """Returns this machine's IPv4 addresses, without the one at which workers are asked for."""
  found = {
      address.address
      for addresses in psutil.net_if_addrs().values()
      for address in addresses
      if address.family == socket.AF_INET
  }
  # Every address in 127.0.0.0/8 is this machine's.
  return (found | {"127.0.0.2"}) - {"127.0.0.1"}


def _is_running(pid):
  try:
    return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
  except psutil.NoSuchProcess:
    return False


class RunningWorkerTest(absltest.TestCase):
  """One worker for all these tests."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    folder = tempfile.TemporaryDirectory()
    cls.addClassCleanup(folder.cleanup)
    cls.folder = folder.name
    cls.program = worker_program.WorkerProgram(cls.folder, "--num_cores=1")
    cls.addClassCleanup(cls.program.__exit__)
    cls.line = cls.program.first_line()

  def test_says_where_it_is(self):
    self.assertEqual(
        self.line,
        f"worker at {self.program.address}, 1 core, files in {self.folder}; end it with Ctrl-C",
    )

  def test_computes_what_the_local_worker_does(self):
    rng = np.random.default_rng(7)
    clients = [rng.normal(size=1000 + i).astype(np.float32) for i in range(9)]
    with runtime.LocalRuntime(num_cores=1):
      norm, halves = _mean_norm(clients), _halves(clients)

    with pool.Pool([self.program.address]):
      self.assertAlmostEqual(_mean_norm(clients), norm, delta=1e-5 * norm)
      for found, expected in zip(_halves(clients), halves, strict=True):
        np.testing.assert_array_equal(found, expected)

  @nightly.only
  def test_large_messages(self):
    values = np.arange(_LARGE // 4, dtype=np.float32)

    with pool.Pool([self.program.address]):
      (halves,) = _halves([values])

    self.assertTrue(np.array_equal(halves, values / 2))

  def test_can_be_reached_at_its_address_only(self):
    worker_program.skip_where_refused(self)
    self.assertTrue(_answers("127.0.0.1", self.program.port))
    for host in _other_addresses():
      self.assertFalse(_answers(host, self.program.port), host)
    # As the worker listens at all addresses, it must have none of this machine's.
    namespaces = [
        os.readlink(f"/proc/{pid}/ns/net") for pid in ("self", self.program.worker().pid)
    ]
    self.assertNotEqual(*namespaces)

  def test_its_folder_is_its_own(self):
    with worker_program.WorkerProgram(self.folder) as second:
      code, errors = second.end()
    self.assertEqual(code, 2)
    self.assertEqual(
        errors,
        ["error: `cache_dir` must be a folder that no other worker uses, got "
         f"{self.folder!r}."],
    )

  def test_its_port_is_its_own(self):
    other = self.create_tempdir().full_path
    with worker_program.WorkerProgram(other, port=self.program.port) as second:
      code, errors = second.end()
    self.assertEqual(code, 2)
    self.assertEqual(
        errors,
        [f"error: `port` must be one that no other program uses, got {self.program.port}."],
    )


class TokenTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    worker_program.skip_where_refused(self)

  def _token_file(self, content):
    path = self.create_tempfile(content=content).full_path
    os.chmod(path, 0o600)
    return path

  def _start(self, *flags):
    program = self.enter_context(
        worker_program.WorkerProgram(self.create_tempdir().full_path, *flags)
    )
    self.assertStartsWith(program.first_line(), "worker at ")
    return program.address

  def _check_is_unusable(self, address, token, reason):
    with (
        mock.patch.object(pool, "_CONNECT_SECONDS", 2),
        self.assertRaises(remote_worker.WorkerUnusable) as raised,
    ):
      pool.Pool([address], token=token)
    self.assertEqual(str(raised.exception), f"the worker at {address} {reason}.")

  def _check_does_not_answer(self, address, token, to_whom):
    self._check_is_unusable(address, token, f"does not answer{to_whom}")

  def test_only_who_has_it_is_answered(self):
    address = self._start(f"--token_file={self._token_file('the secret')}")
    token = token_file.read(self._token_file(" the secret\n"))
    values = np.arange(5_000_000, dtype=np.float32)

    for _ in range(2):  # As two programs, one after the other.
      with pool.Pool([address], token=token):
        self.assertTrue(np.array_equal(_halves([values])[0], values / 2))
    self._check_does_not_answer(address, b"", "")
    self._check_does_not_answer(address, b"x" * len(token), " to the token")
    self._check_does_not_answer(address, token[:-1], " to the token")

  def test_a_worker_without_one(self):
    self._check_does_not_answer(self._start(), b"1" * 32, " to the token")

  def test_no_worker(self):
    address = f"127.0.0.1:{portpicker.pick_unused_port()}"
    self._check_is_unusable(address, b"1" * 32, "refused the connection")


class EndTest(parameterized.TestCase):

  def _start(self, **arguments):
    folder = self.create_tempdir().full_path
    program = self.enter_context(worker_program.WorkerProgram(folder, **arguments))
    self.assertStartsWith(program.first_line(), "worker at ")
    return program, program.worker().pid

  def _check_ended(self, pid):
    deadline = time.monotonic() + _SECONDS_TO_END
    while _is_running(pid) and time.monotonic() < deadline:
      time.sleep(0.05)
    self.assertFalse(_is_running(pid), "The worker outlived its program.")

  @parameterized.named_parameters(("ctrl_c", signal.SIGINT), ("terminated", signal.SIGTERM))
  def test_ends_on(self, number):
    program, worker = self._start()
    program.process.send_signal(number)
    self.assertEqual(program.end(), (0, []))
    self._check_ended(worker)

  def test_killed(self):
    program, worker = self._start()
    client = self.enter_context(socket.create_connection(("127.0.0.1", program.port), 60))
    self.assertNotEmpty(client.recv(1000))  # The worker speaks first.
    program.process.kill()
    program.process.wait()
    self._check_ended(worker)
    with contextlib.suppress(ConnectionResetError):  # Also an end.
      while client.recv(1000):
        pass
    # The last of its threads to end closes the port.
    deadline = time.monotonic() + _SECONDS_TO_END
    while _answers("127.0.0.1", program.port) and time.monotonic() < deadline:
      time.sleep(0.05)
    self.assertFalse(_answers("127.0.0.1", program.port))

  def test_the_worker_dies(self):
    program, worker = self._start()
    os.kill(worker, signal.SIGKILL)
    self.assertEqual(
        program.end(),
        (1, ["error: the worker ended with code -9 (-9 is often a lack of memory)."]),
    )

  def test_refuses_to_be_open_unless_told(self):
    folder = self.create_tempdir().full_path
    with worker_program.WorkerProgram(folder, may_isolate=False, may_be_open=False) as program:
      self.assertEqual(program.first_line(), "")
      code, (error,) = program.end()
    self.assertEqual(code, 2)
    self.assertStartsWith(error, "error: `allow_open_port` must be given where this machine does ")
    self.assertEmpty(program.warnings)
    self.assertFalse(_answers("127.0.0.1", program.port))

  def test_where_namespaces_are_not_allowed(self):
    program, worker = self._start(may_isolate=False)
    for host in _other_addresses():
      self.assertTrue(_answers(host, program.port), host)
    with pool.Pool([program.address]):
      self.assertEqual(_halves([np.ones(2, np.float32)])[0].tolist(), [0.5, 0.5])
    program.process.send_signal(signal.SIGTERM)
    self.assertEqual(program.end(), (0, []))
    self.assertLen(program.warnings, 1)
    self.assertRegex(program.warnings[0], "warning: this machine does not allow .* open on all its interf")
    self._check_ended(worker)


class BadInputTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("no_port", ["--cache_dir=w"], "`port` must be given, got None"),
      ("no_folder", ["--port=8000"], "`cache_dir` must be given, got None"),
      ("port_too_high", ["--port=65536", "--cache_dir=w"],
       r"`port` must be an integer in \[1, 65535\], got 65536"),
      ("port_zero", ["--port=0", "--cache_dir=w"], r"`port` must be .*\[1, 65535\], got 0"),
      ("no_cores", ["--port=8000", "--cache_dir=w", "--num_cores=0"],
       r"`num_cores` must be an integer in \[1, 1024\], got 0"),
      ("folder_below_a_file", ["--port=8000", "--cache_dir=file/w"],
       r"`cache_dir` must be a folder that can be written \(Not a directory\), got 'file/w'"),
      ("address_of_another_machine", ["--port=8000", "--cache_dir=w", "--address=192.0.2.1"],
       "`address` must be one of this machine's, got '192.0.2.1'"),
      ("address_that_is_none", ["--port=8000", "--cache_dir=w", "--address=256.0.0.1"],
       "`address` must be one of this machine's, got '256.0.0.1'"),
      ("no_token", ["--port=8000", "--cache_dir=w", "--token_file=none"],
       r"`token_file` must be a file that can be read \(No such file or directory\), got 'none'"),
      ("empty_address", ["--port=8000", "--cache_dir=w", "--address="],
       "`address` must be one of this machine's, got ''"),
  )
  def test_one_line(self, flags, message):
    folder = self.create_tempdir()
    folder.create_file("file")
    result = subprocess.run(
        [sys.executable, "-m", "tools.worker", *flags],
        check=False, capture_output=True, text=True,
        env={**worker_program.environment(), "BUILD_WORKING_DIRECTORY": folder.full_path},
    )
    self.assertEqual(result.returncode, 2, result.stderr)
    self.assertLen(result.stderr.splitlines(), 1, result.stderr)
    self.assertRegex(result.stderr, f"^error: {message}")


if __name__ == "__main__":
  absltest.main()
