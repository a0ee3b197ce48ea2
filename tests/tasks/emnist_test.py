import contextlib
import errno
import http.client
import io
import lzma
import os
import pathlib
import shlex
import shutil
import socket
import sqlite3
from unittest import mock
import urllib.error
import urllib.request

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.tasks import emnist
from fl_clustering.tasks import task_options
from tests.tasks import data_files


class _Response(io.BytesIO):
  """A server's answer; an error, if one is given, takes the place of the end."""

  def __init__(self, body, error=None):
    super().__init__(body)
    self.headers = {"content-length": str(len(body))}
    self._error = error

  def read(self, size=-1):
    chunk = super().read(size)
    if not chunk and self._error is not None:
      raise self._error
    return chunk


def _serving(answer):
  """Answers whoever downloads: with a `_Response`, or with an error."""
  return mock.patch.object(urllib.request, "urlopen", side_effect=[answer])


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
    self.enter_context(data_files.no_network())

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

  def _assert_damaged(self):
    with self.assertRaisesRegex(ValueError, "cache of `dataset`='emnist'.*damaged") as caught:
      self._load()
    self.assertIn(f"rm {shlex.quote(self._path)}", str(caught.exception))
    self.assertNotIn("\n", str(caught.exception))
    with self.assertRaisesRegex(ValueError, "damaged"):
      emnist.missing_path(self._folder)

  @parameterized.parameters(1, 4095, 4096, 10_000, 100_000)
  def test_truncated(self, num_bytes):
    # What TFF's own loader leaves behind when it is interrupted.
    shutil.copy(self._file, self._path)
    os.truncate(self._path, os.path.getsize(self._path) - num_bytes)
    self._assert_damaged()

  @parameterized.parameters("", 100 * "<html>Please log in</html>")
  def test_no_database(self, text):
    pathlib.Path(self._path).write_text(text)
    self._assert_damaged()

  def test_folder_in_place_of_the_file(self):
    os.mkdir(self._path)
    self._assert_damaged()


class DownloadTest(EmnistTest):

  def _assert_unavailable(self, answer, cause):
    with _serving(answer):
      with self.assertRaisesRegex(ValueError, f"`dataset` .*{cause}") as caught:
        self._load()
    self.assertIn("digits", str(caught.exception))
    self.assertNotIn("\n", str(caught.exception))
    self.assertEqual(os.listdir(self._folder), [])

  def test_downloads_what_is_not_there(self):
    folder = os.path.join(self._folder, "new", "cache")
    with _serving(_Response(lzma.compress(self._file.read_bytes()))):
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
    part = body[: int(fraction * len(body))]
    self._assert_unavailable(_Response(part), "failed")
    self._assert_unavailable(_Response(part, http.client.IncompleteRead(part)), "IncompleteRead")

  def test_download_without_the_end_of_the_database_leaves_nothing(self):
    self._assert_unavailable(_Response(lzma.compress(self._file.read_bytes()[:-1])), "failed")

  def test_interrupted_by_the_user(self):
    body = lzma.compress(self._file.read_bytes())
    with _serving(_Response(body[:1000], KeyboardInterrupt())):
      with self.assertRaises(KeyboardInterrupt):
        self._load()
    self.assertEqual(os.listdir(self._folder), [])

  @parameterized.named_parameters(
      ("not_compressed", _Response(100 * b"<html>Please log in</html>"), "format"),
      ("something_else", _Response(lzma.compress(b"<html>" * 400)), "not a database"),
      ("not_found", urllib.error.HTTPError("", 404, "Not Found", {}, None), "Not Found"),
      ("no_network", urllib.error.URLError(ConnectionRefusedError(111, "refused")), "refused"),
      ("no_answer", TimeoutError("timed out"), "timed out"),
      ("no_space", OSError(errno.ENOSPC, "No space left on device"), "No space left"),
  )
  def test_fails(self, answer, cause):
    self._assert_unavailable(answer, cause)

  def test_waits_for_no_answer_for_ever(self):
    waited = []
    answer = _Response(lzma.compress(self._file.read_bytes()))
    with mock.patch.object(
        urllib.request, "urlopen",
        side_effect=lambda url: waited.append(socket.getdefaulttimeout()) or answer,
    ):
      self._load()
    self.assertEqual(waited, [emnist.TIMEOUT_SECONDS])
    self.assertIsNone(socket.getdefaulttimeout())

  def test_file_in_place_of_the_folder(self):
    pathlib.Path(self._path).touch()
    with self.assertRaisesRegex(ValueError, f"`dataset` .*{self._path}"):
      self._load(data_dir=self._path)

  def test_default_folder_is_that_of_tff(self):
    with mock.patch.dict(os.environ, {"HOME": self._folder}):
      os.mkdir(os.path.join(self._folder, ".tff"))
      shutil.copy(self._file, os.path.join(self._folder, ".tff"))
      self.assertLen(self._load(data_dir=None).clients, 4)


if __name__ == "__main__":
  absltest.main()
