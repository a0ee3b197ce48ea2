import os
from unittest import mock

from absl.testing import parameterized
import numpy as np
import pandas as pd
import psutil

from fl_clustering.tables import read
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tasks import files
from fl_clustering.tasks import held_out
from fl_clustering.tasks import registry
from tests import drawn_seeds


class FilesTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    rng = np.random.default_rng(0)
    self.frames = {}
    for i in range(5):
      frame = pd.DataFrame({
          "a": rng.normal(10 * i, 1 + i, 12).round(3), "b": 7.0, "y": np.arange(12) % 3,
          "part": ["train"] * 8 + ["test"] * 4,
      })
      frame.loc[[0, 9], "a"] = np.nan
      self.frames[f"c{i}"] = frame
      frame.to_csv(os.path.join(self.folder, f"c{i}.csv"), index=False)

  _schema = schema_lib.Schema(
      (
          schema_lib.Field("a"), schema_lib.Field("b"), schema_lib.Field("y", "string"),
          schema_lib.Field("part", "string"),
      ), label="y", split="part", missing="mean",
  )

  def _load(self, split_column="part", seed=0, **held):
    schema = self._schema if split_column else self._schema.without("split")
    options = registry.TaskOptions(dataset="files", model="mlp", schema=schema, seed=seed)
    return registry.load_task(options, self.folder, held_out.HeldOut(**held))

  @parameterized.parameters(0, 2)
  def test_means_are_those_of_the_rows_that_train(self, num_new_clients):
    task = self._load(num_new_clients=num_new_clients)
    self.assertLen(task.new_clients, num_new_clients)
    rows = np.concatenate([self.frames[c]["a"].iloc[:8] for c in task.client_ids])
    scaling = task.tables.scaling
    self.assertAlmostEqual(scaling.fill[0], np.nanmean(rows), places=9)
    filled = np.where(np.isnan(rows), np.nanmean(rows), rows)
    np.testing.assert_allclose(scaling.shift, [filled.mean(), 7])
    np.testing.assert_allclose(scaling.factor, [1 / filled.std(), 0])
    train = np.concatenate([client.train.features for client in task.clients])
    np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(train.std(axis=0), [1, 0], rtol=1e-5)

  def test_rows_are_where_their_column_says(self):
    task = self._load()
    for client in task.clients:
      np.testing.assert_array_equal(client.train.labels, np.arange(8) % 3)
      np.testing.assert_array_equal(client.test.labels, np.arange(8, 12) % 3)
    np.testing.assert_array_equal(
        task.global_test.features, np.concatenate([one.test.features for one in task.clients])
    )
    self.assertEqual(task.class_names, ("0", "1", "2"))
    self.assertEqual(task.tables.schema.classes, ("0", "1", "2"))
    self.assertEqual(task.tables.schema.feature_names, ("a", "b"))

  def test_a_share_of_every_client_is_drawn(self):
    tasks = [self._load(split_column=None, seed=seed, test_share=0.25) for seed in (0, 0, 1)]
    for client in tasks[0].clients:
      self.assertEqual((len(client.train), len(client.test)), (9, 3))
    self.assertEqual(tasks[0].fingerprint(), tasks[1].fingerprint())
    self.assertNotEqual(tasks[0].fingerprint(), tasks[2].fingerprint())

  @parameterized.parameters(None, held_out.Fold(1, 3))
  def test_all_is_drawn_by_the_seed(self, fold):
    options = registry.TaskOptions(dataset="files", schema=self._schema.without("split"), seed=3)
    with drawn_seeds.recorded() as seeds:
      registry.load_task(options, self.folder, held_out.HeldOut(num_new_clients=2), fold)
    self.assertEqual(seeds, {3})

  def test_a_client_that_can_not_be_tested_is_left_out(self):
    self.frames["c1"].assign(part="train").to_csv(os.path.join(self.folder, "c1.csv"), index=False)
    task = self._load()
    self.assertEqual(task.client_ids, ("c0", "c2", "c3", "c4"))
    self.assertIn("(c1)", task.warnings[0])
    self.assertEqual(files.num_clients(self.folder, self._schema), 4)

  def test_the_clients_whose_rows_changed_are_known(self):
    before = self._load().row_digests
    self.assertEqual(list(before), list(self.frames))
    self.frames["c1"].assign(a=range(12)).to_csv(os.path.join(self.folder, "c1.csv"), index=False)
    now = self._load().row_digests
    self.assertEqual([name for name in now if before[name] != now[name]], ["c1"])

  def test_every_file_is_read_once(self):
    with mock.patch.object(read, "_opened", wraps=read._opened) as opened:
      self.assertEqual(files.num_clients(self.folder, self._schema), 5)
      self.assertLen(self._load(num_new_clients=1).row_digests, 5)
    self.assertCountEqual(
        [os.path.basename(call.args[0]) for call in opened.call_args_list],
        [f"{name}.csv" for name in self.frames],
    )

  def test_images(self):
    folder, rng, images = self.create_tempdir().full_path, np.random.default_rng(0), {}
    for name in "ab":
      images[name] = rng.integers(0, 17, (20, 6, 7), np.uint8)
      np.savez(os.path.join(folder, f"{name}.npz"), x=images[name], y=np.arange(20) % 2)
    task = registry.load_task(registry.TaskOptions(
        dataset="files", model="cnn",
        schema=schema_lib.strict(read.header(os.path.join(folder, "a.npz")), label="y"),
    ), folder)
    self.assertEqual(task.model.input_shape, (6, 7, 1))
    scaling = task.tables.scaling
    for client in task.clients:
      own = images[client.client_id].reshape(20, 42)
      scaled = ((own - scaling.shift) * scaling.factor).reshape(20, 6, 7, 1)
      found = np.concatenate([client.train.features, client.test.features])
      np.testing.assert_array_equal(
          np.unique(found, axis=0), np.unique(scaled.astype(np.float32), axis=0)
      )

  def test_more_features_than_memory(self):
    self._load()  # The files have been looked at.
    memory = mock.Mock(available=4 * 5 * 12 * 2 - 1)
    with mock.patch.object(psutil, "virtual_memory", return_value=memory):
      with self.assertRaisesRegex(ValueError, "^`data_dir`"):
        self._load()
