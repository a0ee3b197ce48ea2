import concurrent.futures
import errno
import hashlib
import os
import socket
import struct
import tempfile
import threading

from absl.testing import absltest

from fl_clustering.runtime import relay
from tests.runtime import scripts

_LARGE = 50_000_000


class _TooManyFiles:
  """A listener that fails once, as where the process has no more file descriptors."""

  def __init__(self, listener):
    self._listener = listener
    self._failed = False

  def accept(self):
    if not self._failed:
      self._failed = True
      raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return self._listener.accept()

  def fileno(self):
    return self._listener.fileno()


def _read_to_the_end(connection):
  """Returns the digest of what a connection gets until the other side ends it."""
  digest = hashlib.sha256()
  while content := connection.recv(2**20):
    digest.update(content)
  return digest.digest()


class RelayTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.worker = self.enter_context(socket.create_server(("127.0.0.1", 0)))
    self.listener = self.enter_context(socket.socket(socket.AF_UNIX))
    # A path must be short.
    self.path = os.path.join(self.enter_context(tempfile.TemporaryDirectory(dir="/tmp")), "socket")
    self.listener.bind(self.path)
    self.listener.listen(200)

  def _start(self, listener=None):
    arguments = listener or self.listener, self.worker.getsockname()[1]
    threading.Thread(target=relay.serve, args=arguments, daemon=True).start()

  def _connect(self):
    client = self.enter_context(socket.socket(socket.AF_UNIX))
    client.settimeout(scripts.TIMEOUT_SECONDS)
    client.connect(self.path)
    return client

  def _pair(self):
    """Returns both ends of a connection: the client's and the worker's."""
    client = self._connect()
    self.worker.settimeout(scripts.TIMEOUT_SECONDS)
    worker, _ = self.worker.accept()
    worker.settimeout(scripts.TIMEOUT_SECONDS)
    return client, self.enter_context(worker)

  def _echo(self):
    """Starts a worker that returns what it gets."""

    def answer(connection):
      with connection:
        while content := connection.recv(2**20):
          connection.sendall(content)

    def accept():
      while True:
        try:
          connection, _ = self.worker.accept()
        except OSError:
          return
        threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()

  def test_the_way_back_stays_open_when_a_client_has_sent_all(self):
    self._start()
    client, worker = self._pair()
    content = os.urandom(_LARGE // 100) * 100
    digest = hashlib.sha256(content).digest()

    with concurrent.futures.ThreadPoolExecutor() as threads:
      received = threads.submit(_read_to_the_end, worker)
      client.sendall(content)
      client.shutdown(socket.SHUT_WR)
      self.assertEqual(received.result(), digest)
      answer = threads.submit(_read_to_the_end, client)
      worker.sendall(content)
      worker.close()
      self.assertEqual(answer.result(), digest)

  def test_the_way_there_stays_open_when_the_worker_has_sent_all(self):
    self._start()
    client, worker = self._pair()

    worker.shutdown(socket.SHUT_WR)
    self.assertEqual(client.recv(1), b"")
    client.sendall(b"still there")

    self.assertEqual(worker.recv(100), b"still there")

  def test_many_connections(self):
    self._start()
    self._echo()

    def send(number):
      content = bytes([number]) * 100_000
      with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(scripts.TIMEOUT_SECONDS)
        client.connect(self.path)
        client.sendall(content)
        client.shutdown(socket.SHUT_WR)
        return _read_to_the_end(client) == hashlib.sha256(content).digest()

    with concurrent.futures.ThreadPoolExecutor(100) as threads:
      self.assertEqual(list(threads.map(send, range(200))), [True] * 200)

  def test_a_client_that_is_gone_is_gone_for_the_worker(self):
    self._start()
    client, worker = self._pair()
    client.close()

    self.assertEqual(worker.recv(1), b"")

  def test_a_worker_that_is_gone_is_gone_for_a_client_that_sends(self):
    self._start()
    client, worker = self._pair()
    worker.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    worker.close()

    with self.assertRaises((BrokenPipeError, ConnectionResetError)):
      while True:
        client.sendall(b"x" * 2**20)

  def test_too_many_open_files_for_a_while(self):
    self._start(_TooManyFiles(self.listener))

    client, worker = self._pair()
    client.sendall(b"later")

    self.assertEqual(worker.recv(100), b"later")
