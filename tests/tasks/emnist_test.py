import contextlib
import http.server
import lzma
import os
import pathlib
import shlex
import shutil
import sqlite3
import threading
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.tasks import emnist
from fl_clustering.tasks import task_options
from tests.tasks import data_files

_CLOSED_PORT = "http://127.0.0.1:9/emnist_all.sqlite.lzma"


class _Server(http.server.ThreadingHTTPServer):
  """Serves `body`, of which it leaves out what is after `num_bytes`."""

  def __init__(self, body, num_bytes=None, status=200, delay=None):
    super().__init__(("127.0.0.1", 0), _Handler)
    self.body, self.status, self.delay = body, status, delay
    self.num_bytes = len(body) if num_bytes is None else num_bytes
    self.url = f"http://127.0.0.1:{self.server_port}/emnist_all.sqlite.lzma"


class _Handler(http.server.BaseHTTPRequestHandler):

  def do_GET(self):
    if self.server.delay:
      self.server.delay.wait(30)
    self.send_response(self.server.status)
    self.send_header("Content-Length", str(len(self.server.body)))
    self.end_headers()
    with contextlib.suppress(ConnectionError):
      self.wfile.write(self.server.body[: self.server.num_bytes])

  def log_message(self, *args):
    pass


@contextlib.contextmanager
def _serving(*args, **kwargs):
  server = _Server(*args, **kwargs)
  thread = threading.Thread(target=server.serve_forever, daemon=True)
  thread.start()
  try:
    yield server
  finally:
    server.shutdown()
    server.server_close()
    thread.join()


class EmnistTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls._splits = data_files.writer_examples()
    cls._writers = list(cls._splits["digits_only_train"])
    cls._file = pathlib.Path(
        data_files.write_emnist_file(absltest.get_default_test_tmpdir(), cls._splits)
    )
    cls.addClassCleanup(cls._file.unlink)

  def setUp(self):
    super().setUp()
    self._folder = self.create_tempdir().full_path
    self._path = os.path.join(self._folder, "emnist_all.sqlite")
    self.enter_context(mock.patch.dict(os.environ, {"no_proxy": "127.0.0.1"}))
    # No test asks the real server.
    self.enter_context(mock.patch.object(emnist, "URL", _CLOSED_PORT))

  def _load(self, **options):
    options = {"dataset": "emnist", "data_dir": self._folder, "num_clients": 4, **options}
    return emnist.load_task(task_options.TaskOptions(**options))

  def _assert_is(self, examples, split, writer):
    pixels, labels = self._splits[split][writer]
    inverted = 255 - np.rint(255 * pixels).astype(int)
    np.testing.assert_array_equal(examples.features[..., 0], inverted)
    np.testing.assert_array_equal(examples.labels, labels)


class ReadTest(EmnistTest):

  def setUp(self):
    super().setUp()
    shutil.copy(self._file, self._path)

  def test_clients_are_writers_and_ink_is_bright(self):
    task = self._load()
    self.assertEqual((task.name, task.partition), ("emnist", "natural"))
    self.assertLen(task.clients, 4)
    self.assertEqual(list(task.client_ids), sorted(task.client_ids))
    self.assertIsNone(task.true_groups)
    for client in task.clients:
      self._assert_is(client.train, "digits_only_train", client.client_id)
      self._assert_is(client.test, "digits_only_test", client.client_id)
    self.assertIn(self._path, task.source)

  def test_global_test_is_of_writers_who_are_not_clients(self):
    task = self._load()
    others = set(self._writers) - set(task.client_ids)
    expected = np.concatenate([self._splits["digits_only_test"][w][1] for w in others])
    self.assertCountEqual(task.global_test.labels, expected)
    self.assertEqual(task.global_test_source, "test data of 2 writers who are not clients")

  def test_global_test_is_pooled_where_every_writer_is_a_client(self):
    task = self._load(num_clients=6)
    np.testing.assert_array_equal(
        task.global_test.features, np.concatenate([c.test.features for c in task.clients])
    )
    self.assertIn("clients' pooled test data", task.global_test_source)

  def test_global_test_is_bounded(self):
    with mock.patch.object(emnist, "MAX_GLOBAL_TEST_EXAMPLES", 4):
      task = self._load(num_clients=1)
    # Of 15 examples of five writers, the first two writers' first four.
    self.assertLen(task.global_test, 4)
    self.assertEqual(task.global_test_source, "test data of 2 writers who are not clients")

  def test_seed_draws_the_writers(self):
    drawn = {self._load(num_clients=3, seed=seed).client_ids for seed in range(5)}
    self.assertGreater(len(drawn), 1)
    self.assertEqual(self._load(seed=7).fingerprint(), self._load(seed=7).fingerprint())

  def test_warns_of_missing_writers(self):
    (warning,) = self._load().warnings
    self.assertRegex(warning, "has 6 writers .*has 3,383")
    with mock.patch.object(emnist, "NUM_WRITERS", 6):
      self.assertEqual(self._load().warnings, ())

  def test_writers_without_test_data_are_no_clients(self):
    with contextlib.closing(sqlite3.connect(self._path)) as database, database:
      database.execute(
          "DELETE FROM client_metadata WHERE client_id = ? AND split_name = 'digits_only_test'",
          (self._writers[0],),
      )
    task = self._load(num_clients=5)
    self.assertEqual(list(task.client_ids), self._writers[1:])
    with self.assertRaisesRegex(ValueError, "`num_clients` must be at most 5, .*got 6"):
      self._load(num_clients=6)

  def test_cache_is_read_only(self):
    before = pathlib.Path(self._path).read_bytes()
    os.chmod(self._path, 0o444)
    self._load()
    self.assertEqual(os.listdir(self._folder), ["emnist_all.sqlite"])
    self.assertEqual(pathlib.Path(self._path).read_bytes(), before)

  def test_reads_more_writers_than_one_pipeline_takes(self):
    with mock.patch.object(emnist, "WRITERS_PER_PIPELINE", 4):
      task = self._load(num_clients=6)
    self.assertLen(task.clients, 6)
    for client in task.clients:
      self._assert_is(client.train, "digits_only_train", client.client_id)

  def test_is_in_the_cache_or_missing(self):
    self.assertIsNone(emnist.missing_path(self._folder))
    folder = self.create_tempdir().full_path
    self.assertEqual(emnist.missing_path(folder), os.path.join(folder, "emnist_all.sqlite"))


class DamagedTest(EmnistTest):

  def _assert_damaged(self, cause):
    message = (
        f"^The cache of `dataset`='emnist' .*{self._path}, which is damaged .*{cause}.*"
        f"Remove it .rm {shlex.quote(self._path)}."
    )
    with self.assertRaisesRegex(ValueError, message) as caught:
      self._load()
    self.assertNotIsInstance(caught.exception, emnist.EmnistUnavailable)
    self.assertNotIn("\n", str(caught.exception))

  @parameterized.parameters(1, 4095, 4096, 10_000, 100_000)
  def test_truncated(self, num_bytes):
    # What TFF's own loader leaves behind when it is interrupted.
    shutil.copy(self._file, self._path)
    os.truncate(self._path, os.path.getsize(self._path) - num_bytes)
    self._assert_damaged("malformed|whole number of pages")

  def test_empty(self):
    pathlib.Path(self._path).touch()
    self._assert_damaged("no such table")

  def test_not_a_database(self):
    pathlib.Path(self._path).write_text("<html>Please log in</html>" * 100)
    self._assert_damaged("not a database")

  def test_other_tables(self):
    with contextlib.closing(sqlite3.connect(self._path)) as database, database:
      database.execute("CREATE TABLE examples (id INTEGER)")
    self._assert_damaged("no such column")

  @parameterized.parameters("digits_only_train", "digits_only_test")
  def test_split_missing(self, split):
    shutil.copy(self._file, self._path)
    with contextlib.closing(sqlite3.connect(self._path)) as database, database:
      database.execute("DELETE FROM client_metadata WHERE split_name = ?", (split,))
    self._assert_damaged(f"no {split}")

  def test_examples_of_a_writer_missing(self):
    shutil.copy(self._file, self._path)
    with contextlib.closing(sqlite3.connect(self._path)) as database, database:
      database.execute("DELETE FROM examples WHERE split_name = 'digits_only_train'")
    self._assert_damaged("writer .* has no examples")

  def test_examples_that_are_none(self):
    shutil.copy(self._file, self._path)
    with contextlib.closing(sqlite3.connect(self._path)) as database, database:
      database.execute("UPDATE examples SET serialized_example_proto = x'00ff'")
    self._assert_damaged("pars")

  @parameterized.parameters(("pixels", 1.5), ("pixels", float("nan")), ("label", 10))
  def test_values_out_of_range(self, what, value):
    splits = data_files.writer_examples(num_writers=4)
    for pixels, labels in splits["digits_only_test"].values():
      (pixels if what == "pixels" else labels)[0] = value
    data_files.write_emnist_file(self._folder, splits)
    self._assert_damaged(f"it has {what}.* outside")

  @parameterized.parameters(os.mkdir, lambda path: os.symlink(os.devnull, path))
  def test_no_file_in_place_of_the_file(self, make):
    make(self._path)
    message = f"^The cache of `dataset`='emnist' .*readable.*{self._path}, .*not a regular file"
    with self.assertRaisesRegex(ValueError, message):
      self._load()

  def test_file_in_place_of_the_folder(self):
    pathlib.Path(self._path).touch()
    with self.assertRaisesRegex(ValueError, "^The cache of `dataset`='emnist' must be a folder"):
      self._load(data_dir=self._path)


class DownloadTest(EmnistTest):

  def _assert_unavailable(self, cause, url):
    with mock.patch.object(emnist, "URL", url):
      with self.assertRaisesRegex(emnist.EmnistUnavailable, f"`dataset` .*{cause}") as caught:
        self._load()
    self.assertRegex(caught.exception.reason, cause)
    self.assertRegex(
        str(caught.exception), "into the cache folder, or use .*digits, which needs no network"
    )
    self.assertNotIn("\n", str(caught.exception))
    self.assertEqual(os.listdir(self._folder), [])

  def test_downloads_what_is_not_there(self):
    folder = os.path.join(self._folder, "new", "cache")
    body = lzma.compress(self._file.read_bytes())
    with _serving(body) as server, mock.patch.object(emnist, "URL", server.url):
      task = self._load(data_dir=folder)
    self.assertLen(task.clients, 4)
    self.assertEqual(os.listdir(folder), ["emnist_all.sqlite"])
    with open(os.path.join(folder, "emnist_all.sqlite"), "rb") as file:
      self.assertEqual(file.read(), self._file.read_bytes())
    # Now it is there, and no server is asked.
    self.assertEqual(self._load(data_dir=folder).fingerprint(), task.fingerprint())

  @parameterized.parameters(0.0, 0.5, 0.99)
  def test_interrupted_download_leaves_nothing(self, fraction):
    body = lzma.compress(self._file.read_bytes())
    with _serving(body, num_bytes=int(fraction * len(body))) as server:
      self._assert_unavailable("failed .*(ended after|IncompleteRead)", server.url)

  def test_interrupted_by_the_user(self):
    def unpack(response, file):
      file.write(response.read(1000))
      raise KeyboardInterrupt

    self.enter_context(mock.patch.object(emnist, "unpack", unpack))
    with _serving(bytes(2000)) as server, mock.patch.object(emnist, "URL", server.url):
      with self.assertRaises(KeyboardInterrupt):
        self._load()
    self.assertEqual(os.listdir(self._folder), [])

  def test_not_compressed(self):
    with _serving(b"<html>Please log in</html>" * 100) as server:
      self._assert_unavailable("failed .*format", server.url)

  def test_something_else(self):
    with _serving(lzma.compress(b"<html>Please log in</html>" * 100)) as server:
      self._assert_unavailable("not the data set .*not a database", server.url)

  def test_not_found(self):
    with _serving(b"", status=404) as server:
      self._assert_unavailable("failed .*Not Found", server.url)

  def test_no_network(self):
    self._assert_unavailable("failed .*refused", _CLOSED_PORT)

  def test_server_that_does_not_answer(self):
    self.enter_context(mock.patch.object(emnist, "TIMEOUT_SECONDS", 0.2))
    delay = threading.Event()
    with _serving(b"late", delay=delay) as server:
      self._assert_unavailable("timed out", server.url)
      delay.set()

  def test_no_space_left(self):
    error = OSError(28, "No space left on device")
    with mock.patch.object(emnist, "unpack", side_effect=error), _serving(b"") as server:
      self._assert_unavailable("No space left", server.url)

  def test_default_folder_is_that_of_tff(self):
    with mock.patch.dict(os.environ, {"HOME": self._folder}):
      os.mkdir(os.path.join(self._folder, ".tff"))
      shutil.copy(self._file, os.path.join(self._folder, ".tff"))
      self.assertLen(self._load(data_dir=None).clients, 4)


if __name__ == "__main__":
  absltest.main()
