"""Tests of clients that draw their images, and of images that are averaged down."""

import dataclasses
import functools
import multiprocessing
from unittest import mock

from absl.testing import parameterized
from joblib.externals import loky
import numpy as np

from fl_clustering.tasks import digits
from fl_clustering.tasks import drawn_clients
from fl_clustering.tasks import held_out
from fl_clustering.tasks import partition
from fl_clustering.tasks import registry

_OPTIONS = {
    "dataset": "digits", "model": "logistic", "num_clients": 12, "partition": "rotated",
    "image_size": 14, "examples_per_client": 50,
}


def _load(fold=None, **changes):
  options = registry.TaskOptions(**{**_OPTIONS, **changes})
  return registry.load_task(options, fold=fold)


class DrawnClientsTest(parameterized.TestCase):

  def test_every_client_draws_so_many_and_turns_means_of_squares(self):
    task = _load()
    self.assertEqual({(len(one.train), len(one.test)) for one in task.clients}, {(50, 20)})
    self.assertEqual(task.model.input_shape, (14, 14, 1))
    self.assertLen({one.train.features.tobytes() for one in task.clients}, 12)
    self.assertCountEqual(task.true_groups, [0, 1, 2, 3] * 3)
    means = digits.load().pool.features.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
    for client in task.clients[:4]:
      upright = np.rot90(client.train.features[0, :, :, 0], -client.group)
      self.assertLess(np.abs(means - upright).max(axis=(1, 2)).min(), 0.51)
    # The global test set is a mix of the groups.
    upright = digits.load().of_size(14).global_test.features
    for turns in range(4):
      turned = np.rot90(upright, turns, axes=(1, 2))
      are_turned = np.all(turned == task.global_test.features, axis=(1, 2, 3))
      self.assertGreater(are_turned.mean(), 0.15)

  def test_more_clients_than_there_are_images_for(self):
    self.assertEqual(_load(num_clients=100).num_examples["train"], 5000)

  def test_labels_have_the_clients_own_proportions(self):
    task = _load(dirichlet_alpha=0.1)
    most = [np.bincount(client.train.labels).max() for client in task.clients]
    self.assertGreater(np.mean(most), 25)
    for client in task.clients:
      often = np.flatnonzero(np.bincount(client.test.labels) > 4)
      self.assertContainsSubset(often.tolist(), client.train.labels.tolist())

  def test_many_clients_are_drawn_by_several_processes_as_by_one(self):
    prints = [_load(dirichlet_alpha=0.3).fingerprint()]
    with mock.patch.object(drawn_clients, "_CLIENTS_AT_ONCE", 5):
      prints.append(_load(dirichlet_alpha=0.3).fingerprint())
    self.assertEqual(*prints)

  def test_a_daemonic_process_draws_in_turn(self):
    with mock.patch.object(multiprocessing, "current_process") as process:
      process.return_value.daemon = True
      with mock.patch.object(drawn_clients, "_CLIENTS_AT_ONCE", 5), mock.patch.object(
          loky, "ProcessPoolExecutor"
      ) as pool:
        _load()
    pool.assert_not_called()

  def test_refuses_a_client_that_has_none_of_the_labels(self):
    images = digits.load()
    zeros = dataclasses.replace(images, pool=images.pool.take(images.pool.labels == 0))
    drawn = functools.partial(partition.Rotated, examples_per_client=20)
    drawn(dirichlet_alpha=1.0)(zeros, 12, seed=0)
    with self.assertRaisesRegex(ValueError, "^`dirichlet_alpha`.*0.0001"):
      drawn(dirichlet_alpha=1e-4)(zeros, 12, seed=0)

  @parameterized.parameters(
      ("image_size", {"image_size": 13}), ("image_size", {"image_size": 0}),
      ("examples_per_client", {"examples_per_client": 1}),
      ("examples_per_client", {"partition": "iid"}),
      ("examples_per_client", {"partition": None}),
      ("examples_per_client", {"fold": held_out.Fold(0, 2)}),
      ("image_size", {"dataset": "emnist", "partition": None}),
  )
  def test_refuses(self, name, changes):
    with self.assertRaisesRegex(ValueError, f"^`{name}`"):
      _load(**changes)
