"""Tests of clients that draw their images, and of images that are averaged down."""

from absl.testing import absltest
import numpy as np

from fl_clustering.tasks import digits
from fl_clustering.tasks import registry


class DrawnClientsTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.options = {
        "dataset": "digits", "model": "logistic", "num_clients": 12, "partition": "rotated",
        "image_size": 14, "examples_per_client": 50,
    }
    cls.task = registry.load_task(**cls.options)

  def test_every_client_draws_so_many(self):
    self.assertEqual({len(client.train) for client in self.task.clients}, {50})
    self.assertEqual({len(client.test) for client in self.task.clients}, {20})
    self.assertEqual(self.task.model.input_shape, (14, 14, 1))
    self.assertEqual(sorted(self.task.true_groups), sorted([0, 1, 2, 3] * 3))

  def test_images_are_means_of_squares_and_turned_like_their_group(self):
    pool = digits.load().pool
    means = pool.features.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
    for client in self.task.clients[:4]:
      upright = np.rot90(client.train.features[0, :, :, 0], -client.group)
      self.assertLess(np.abs(means - upright).max(axis=(1, 2)).min(), 0.51)

  def test_more_clients_than_there_are_images_for(self):
    task = registry.load_task(**{**self.options, "num_clients": 100})
    self.assertEqual(task.num_examples["train"], 5000)

  def test_labels_have_the_clients_own_proportions(self):
    task = registry.load_task(**{**self.options, "dirichlet_alpha": 0.1})
    most = [np.bincount(client.train.labels).max() for client in task.clients]
    self.assertGreater(np.mean(most), 25)
    for client in task.clients:
      self.assertTrue(set(np.flatnonzero(np.bincount(client.test.labels) > 4)) <= set(
          client.train.labels.tolist()))

  def test_refuses(self):
    for changes, message in (
        ({"image_size": 13}, "`image_size` must divide the sides of square images, of 28 x 28"),
        ({"image_size": 0}, "`image_size` must be an integer >= 1, got 0"),
        ({"examples_per_client": 1}, "`examples_per_client` must be an integer >= 2, got 1"),
        ({"partition": "iid"}, "`examples_per_client` must be left out but for partitions with"),
        ({"dataset": "emnist", "partition": None}, "`image_size` must be left out but with"),
    ):
      with self.assertRaisesRegex(ValueError, f"^{message}"):
        registry.load_task(**{**self.options, **changes})


if __name__ == "__main__":
  absltest.main()
