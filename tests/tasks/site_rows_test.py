"""Tests for fl_clustering.tasks.site_rows, and of tasks of sites by fl_clustering.tasks.files."""

import dataclasses
import os
import tempfile
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd

from fl_clustering.distribution import pool
from fl_clustering.distribution import site_folder
from fl_clustering.distribution import site_paths
from fl_clustering.distribution import sites as sites_lib
from fl_clustering.engine import client_files
from fl_clustering.tables import table_options
from fl_clustering.tasks import files
from fl_clustering.tasks import held_out
from fl_clustering.tasks import site_rows
from fl_clustering.tasks import task_options
from tests.distribution import started_sites

_DRAWN = table_options.TableOptions(label_column="y", exclude=("part",))
_SPLIT = table_options.TableOptions(label_column="y", split_column="part")


def _frame(i):
  rng = np.random.default_rng(i)
  # The last client has no row for training.
  return pd.DataFrame({
      "a": rng.normal(10 * i, 1 + i, 12 + i).round(3), "b": 7.0,
      "big": 1e6 + rng.random(12 + i), "y": np.arange(12 + i) % 3,
      "part": ["train" if i < 5 else "test"] * 8 + ["test"] * (4 + i),
  })


def _options(data_dir=None, sites=None, **changes):
  rows = None if sites is None else site_rows.open_rows(sites)
  return task_options.TaskOptions(
      dataset="files", data_dir=data_dir, rows=rows, model="mlp", **changes
  )


class SiteTaskTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    files.open_folder.cache_clear()

  def _folder(self, clients):
    folder = tempfile.TemporaryDirectory()
    self.addCleanup(folder.cleanup)
    for i in clients:
      _frame(i).to_csv(os.path.join(folder.name, f"c{i}.csv"), index=False)
    return folder.name

  def _open(self, tables, *shares):
    """Starts a site for each list of clients; returns their `Sites`."""
    self.started = {
        site.address: site for site in (
            started_sites.StartedSite(self, self._folder(share), tables) for share in shares
        )
    }
    opened = self.enter_context(pool.Pool(list(self.started), timeout=10))
    return sites_lib.join(opened.sites)

  def _rows(self, examples):
    """Returns the rows of a client's file at a site, features and label."""
    path = site_paths.parse(examples.path)
    content = np.fromfile(os.path.join(self.started[path.address].folder, path.name), np.float32)
    return content.reshape(len(examples), -1)

  def _assert_same(self, task, expected):
    self.assertEqual(
        [client.client_id for client in task.clients],
        [client.client_id for client in expected.clients],
    )
    for client, here in zip(task.clients, expected.clients):
      for part in ("train", "validation", "test"):
        if getattr(here, part) is None:
          self.assertIsNone(getattr(client, part))
          continue
        rows, examples = self._rows(getattr(client, part)), getattr(here, part)
        np.testing.assert_allclose(rows[:, :-1], examples.features, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(rows[:, -1], examples.labels)
    pooled = np.concatenate([self._rows(part) for part in task.global_test])
    np.testing.assert_array_equal(pooled[:, -1], expected.global_test.labels)
    for name in ("name", "class_names", "feature_names", "num_classes"):
      self.assertEqual(getattr(task, name), getattr(expected, name))
    # Sites don't tell what is odd about their rows.
    odd = "the column b has the same value everywhere."
    self.assertEqual((*task.warnings, odd), expected.warnings)
    encoding, known = task.table_format.encoding, expected.table_format.encoding
    np.testing.assert_allclose(encoding.shift, known.shift, rtol=1e-12)
    np.testing.assert_allclose(encoding.factor, known.factor, rtol=1e-6)

  @parameterized.named_parameters(
      ("drawn", _DRAWN, {"test_share": 0.3, "seed": 4}),
      ("of a column", _SPLIT, {}),
      ("with new clients", _SPLIT, {"num_new_clients": 2}),
      ("new clients and drawn", _DRAWN, {"num_new_clients": 2, "seed": 1}),
      ("with validation", _DRAWN, {"validation_share": 0.2, "num_new_clients": 2}),
      ("with validation, of a column", _SPLIT, {"validation_share": 0.5, "seed": 3}),
  )
  def test_is_the_task_of_one_machine(self, tables, settings):
    self.enter_context(mock.patch.object(held_out, "MIN_TRAIN_TO_VALIDATE", 5))
    folder = self._folder(range(6))
    expected = files.load_task(_options(folder, tables=tables, **settings))
    sites = self._open(tables, (0, 2, 5), (1, 3, 4))
    share, seed = settings.get("test_share"), settings.get("seed", 0)
    self.assertEqual(
        files.num_clients(site_rows.open_rows(sites), share, seed),
        files.num_clients(files.open_folder(folder, tables), share, seed),
    )
    task = files.load_task(_options(**settings, sites=sites))
    self._assert_same(task, expected)
    self.assertEqual(
        task.num_validation_examples > 0, settings.get("validation_share", 0) > 0
    )
    self.assertEqual(task.num_sites, 2)
    self.assertIn("at 2 sites: 3 features, and 3 classes in the column y", task.source)

  def test_client_files_are_those_of_one_machine(self):
    tables = _DRAWN
    expected = files.load_task(_options(self._folder(range(4)), tables=tables))
    task = files.load_task(_options(sites=self._open(tables, (0, 1), (2, 3))))
    folder = self.create_tempdir().full_path
    found = client_files.write_client_files(task, folder)
    self.assertEmpty(os.listdir(folder))
    for client_id, file in client_files.write_client_files(expected, folder).train.items():
      path = site_paths.parse(os.fsdecode(found.train[client_id].path))
      self.assertEqual(found.train[client_id].site, path.address)
      np.testing.assert_allclose(
          np.fromfile(os.path.join(self.started[path.address].folder, path.name), np.float32),
          np.fromfile(file.path, np.float32), rtol=1e-6, atol=1e-6,
      )

  def _times(self):
    """Returns when the files of all sites were written, by path."""
    return {
        entry.path: entry.stat().st_mtime_ns
        for site in self.started.values() for entry in os.scandir(site.folder)
    }

  def test_the_same_again_is_the_same_files_and_another_seed_others(self):
    sites = self._open(_DRAWN, (0, 1), (2, 3))
    first = files.load_task(_options(sites=sites))
    before = self._times()
    again = files.load_task(_options(sites=sites))
    self.assertEqual(again.fingerprint(), first.fingerprint())
    self.assertEqual(self._times(), before)
    other = files.load_task(_options(seed=1, sites=sites))
    self.assertNotEqual(other.fingerprint(), first.fingerprint())
    after = self._times()
    self.assertLen(after, len(before) + 3 * 4)
    self.assertEqual({path: after[path] for path in before}, before)

  def test_labels_of_other_codes_have_another_digest(self):
    folder, cache = (self.create_tempdir().full_path for _ in range(2))
    pd.DataFrame({"a": [1, 2], "y": ["yes", "no"]}).to_csv(
        os.path.join(folder, "c.csv"), index=False
    )
    tests = held_out.TestRows({"c": np.zeros(2, bool)}, {"c": 0})

    def digest(*classes):
      options = table_options.TableOptions(label_column="y")
      site = site_folder.open_site(folder, cache, options, classes).to_json()
      rows = site_rows.open_rows(sites_lib.join({"h:1": site}))
      return rows._digest(tests, "c", rows.format.encoding, np.zeros(2, bool))

    digests = [digest("yes", "no", last) for last in ("Unknown", "unknown", "Unknown")]
    self.assertEqual(digests[0], digests[2])
    self.assertNotEqual(digests[0], digests[1])

  def test_a_file_that_was_cut_off_is_written_again(self):
    sites = self._open(_DRAWN, (0, 1))
    task = files.load_task(_options(sites=sites))
    path = site_paths.parse(task.clients[0].train.path)
    path = os.path.join(self.started[path.address].folder, path.name)
    with open(path, "rb") as file:
      content = file.read()
    os.truncate(path, 10)
    files.load_task(_options(sites=sites))
    with open(path, "rb") as file:
      self.assertEqual(file.read(), content)

  def test_rows_that_are_not_as_announced(self):
    sites = self._open(_SPLIT, (0, 1))
    clients = {
        client_id: dataclasses.replace(client, num_test=client.num_test - 1)
        for client_id, client in sites.clients.items()
    }
    with self.assertRaisesRegex(ValueError, "the site at .* must have the rows that it says"):
      files.load_task(_options(sites=dataclasses.replace(sites, clients=clients)))

  @parameterized.named_parameters(
      ("no labels", table_options.TableOptions(exclude=("part", "y")), {}, (0, 1),
       "`workers` must be sites that were started with `label_column`, got '127.0.0.1:"),
      ("one class", table_options.TableOptions(label_column="b", exclude=("part", "y")), {},
       (0, 1), "`label_column` must hold at least two classes"),
      ("one client", _SPLIT, {}, (0, 5), "`workers` must hold two clients or more"),
  )
  def test_is_refused(self, tables, settings, clients, message):
    sites = self._open(tables, clients)
    with self.assertRaisesRegex(ValueError, message):
      files.num_clients(site_rows.open_rows(sites), None, 0)

  def test_too_many_clients_left_out(self):
    sites = self._open(_SPLIT, (0, 1, 5))
    with self.assertRaisesRegex(ValueError, "`clients` must hold .* got .1 of 3 without"):
      files.load_task(_options(sites=sites))


if __name__ == "__main__":
  absltest.main()
