import contextlib
import errno
import functools
import http.client
import io
import lzma
import os
import pathlib
import shutil
import socket
import sqlite3
import tempfile
from unittest import mock
import urllib.error
import urllib.request

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.tasks import emnist
from fl_clustering.tasks import held_out
from fl_clustering.tasks import registry
from tests import drawn_seeds
from tests.tasks import data_files

_SPLITS = data_files.writer_examples()
_WRITERS = list(_SPLITS["digits_only_train"])


@functools.cache
def _file():
  folder = tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())
  return pathlib.Path(data_files.write_emnist_file(folder, _SPLITS))


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


class _EmnistTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self._folder = self.create_tempdir().full_path
    self._path = os.path.join(self._folder, "emnist_all.sqlite")
    self.enter_context(data_files.no_network())

  def _load(self, **options):
    data_dir, fold = options.pop("data_dir", self._folder), options.pop("fold", None)
    options = registry.TaskOptions(**{"dataset": "emnist", "num_clients": 4, **options})
    return registry.load_task(options, data_dir, fold=fold)


class ReadTest(_EmnistTest):

  def setUp(self):
    super().setUp()
    shutil.copy(_file(), self._path)
    os.chmod(self._path, 0o444)  # The cache is read, and never written.

  def _assert_is(self, examples, split, writer):
    pixels, labels = _SPLITS[split][writer]
    np.testing.assert_array_equal(
        examples.features[..., 0], 255 - np.rint(255 * pixels).astype(int)
    )
    np.testing.assert_array_equal(examples.labels, labels)

  @parameterized.parameters(100, 3)
  def test_clients_are_writers_and_ink_is_bright(self, writers_per_pipeline):
    with mock.patch.object(emnist, "WRITERS_PER_PIPELINE", writers_per_pipeline):
      task = self._load()
    self.assertEqual((task.name, task.partition), ("emnist", "natural"))
    self.assertLen(task.clients, 4)
    self.assertEqual(list(task.client_ids), sorted(task.client_ids))
    self.assertIsNone(task.true_groups)
    for client in task.clients:
      self._assert_is(client.train, "digits_only_train", client.client_id)
      self._assert_is(client.test, "digits_only_test", client.client_id)
    others = set(_WRITERS) - set(task.client_ids)
    expected = np.concatenate([_SPLITS["digits_only_test"][w][1] for w in others])
    self.assertCountEqual(task.global_test.labels, expected)
    self.assertLen(task.warnings, 1)  # Of the missing writers.
    self.assertEqual(os.listdir(self._folder), ["emnist_all.sqlite"])

  def test_every_writer_may_be_a_client(self):
    with mock.patch.object(emnist, "NUM_WRITERS", 6):
      task = self._load(num_clients=6)
    np.testing.assert_array_equal(
        task.global_test.features, np.concatenate([c.test.features for c in task.clients])
    )
    self.assertEmpty(task.warnings)

  def test_with_folds_nobody_trains_on_the_global_test_set(self):
    fold = {"fold": held_out.Fold(0, 2)}
    self.assertLen(self._load(num_clients=5, **fold).clients, 5)
    with self.assertRaisesRegex(ValueError, "num_clients"):
      self._load(num_clients=6, **fold)

  def test_global_test_is_bounded(self):
    with mock.patch.object(emnist, "MAX_GLOBAL_TEST_EXAMPLES", 4):
      self.assertLen(self._load(num_clients=1).global_test, 4)

  def test_seed_draws_the_writers(self):
    with drawn_seeds.recorded() as seeds:
      drawn = [self._load(num_clients=3, seed=seed).client_ids for seed in (7, 7, 3, 1, 2)]
    self.assertEqual(seeds, {7, 3, 1, 2})
    self.assertEqual(drawn[0], drawn[1])
    self.assertGreater(len(set(drawn)), 1)

  def test_writers_without_test_data_are_no_clients(self):
    os.chmod(self._path, 0o644)
    with contextlib.closing(sqlite3.connect(self._path)) as database, database:
      database.execute(
          "DELETE FROM client_metadata WHERE client_id = ? AND split_name = 'digits_only_test'",
          (_WRITERS[0],),
      )
    self.assertEqual(list(self._load(num_clients=5).client_ids), _WRITERS[1:])
    with self.assertRaisesRegex(ValueError, "num_clients"):
      self._load(num_clients=6)

  def test_default_folder_is_that_of_tff(self):
    folder = os.path.join(self._folder, ".tff")
    os.mkdir(folder)
    shutil.copy(_file(), folder)
    with mock.patch.dict(os.environ, {"HOME": self._folder}):
      self.assertLen(self._load(data_dir=None, num_clients=3).clients, 3)


class DamagedTest(_EmnistTest):

  @parameterized.parameters(
      # What TFF's own loader leaves behind when it is interrupted.
      *(lambda path, n=n: path.write_bytes(_file().read_bytes()[:-n])
        for n in (1, 4095, 4096, 100_000)),
      lambda path: path.write_text(""), lambda path: path.write_text("<html>Please log in</html>"),
      lambda path: path.mkdir(),
  )
  def test_refuses(self, damage):
    damage(pathlib.Path(self._path))
    with self.assertRaisesRegex(ValueError, "dataset") as caught:
      self._load()
    self.assertIn(self._path, str(caught.exception))
    self.assertNotIn("\n", str(caught.exception))


class DownloadTest(_EmnistTest):

  def test_downloads_what_is_not_there_and_waits_for_no_answer_for_ever(self):
    folder, waited = os.path.join(self._folder, "new", "cache"), []
    answer = _Response(lzma.compress(_file().read_bytes()))
    with mock.patch.object(
        urllib.request, "urlopen",
        side_effect=lambda url: waited.append(socket.getdefaulttimeout()) or answer,
    ):
      task = self._load(data_dir=folder)
    self.assertEqual(waited, [emnist.TIMEOUT_SECONDS])
    self.assertIsNone(socket.getdefaulttimeout())
    self.assertEqual(os.listdir(folder), ["emnist_all.sqlite"])
    path = pathlib.Path(folder, "emnist_all.sqlite")
    self.assertEqual(path.read_bytes(), _file().read_bytes())
    # Now it is there, and no server is asked.
    self.assertEqual(self._load(data_dir=folder).fingerprint(), task.fingerprint())

  @parameterized.named_parameters(
      ("not_compressed", lambda body: _Response(100 * b"<html>Please log in</html>")),
      ("something_else", lambda body: _Response(lzma.compress(b"<html>" * 400))),
      ("not_found", lambda body: urllib.error.HTTPError("", 404, "Not Found", {}, None)),
      ("no_answer", lambda body: TimeoutError("timed out")),
      ("no_space", lambda body: OSError(errno.ENOSPC, "No space left on device")),
      ("nothing", lambda body: _Response(b"")),
      ("a_part", lambda body: _Response(lzma.compress(body)[:-200])),
      ("an_error_in_between",
       lambda body: _Response(lzma.compress(body)[:-200], http.client.IncompleteRead(b""))),
      ("a_database_without_its_end", lambda body: _Response(lzma.compress(body[:-1]))),
  )
  def test_fails_and_leaves_nothing(self, answer):
    with _serving(answer(_file().read_bytes())):
      with self.assertRaisesRegex(ValueError, "dataset") as caught:
        self._load()
    self.assertNotIn("\n", str(caught.exception))
    self.assertEqual(os.listdir(self._folder), [])

  def test_file_in_place_of_the_folder(self):
    pathlib.Path(self._path).touch()
    with self.assertRaisesRegex(ValueError, f"dataset.*{self._path}"):
      self._load(data_dir=self._path)

  def test_interrupted_by_the_user(self):
    body = lzma.compress(_file().read_bytes())
    with _serving(_Response(body[:1000], KeyboardInterrupt())):
      with self.assertRaises(KeyboardInterrupt):
        self._load()
    self.assertEqual(os.listdir(self._folder), [])
