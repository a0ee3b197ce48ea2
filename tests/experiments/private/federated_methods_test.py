"""Tests of the federated methods of the benchmark."""

import contextlib

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from dp_clustering import metrics
from experiments.private import data
from experiments.private import methods


def _dataset(**known):
  """Returns a data set of three small clusters in the unit ball."""
  rng = np.random.default_rng(0)
  centers = np.array([[0.7, 0.0, 0.0], [-0.5, 0.5, 0.0], [0.0, -0.6, 0.5]])
  points = centers[np.arange(6000) % 3] + rng.normal(0, 0.02, (6000, 3))
  return data.BenchmarkDataset("synthetic", points, "three clusters", **known)


class ClientsTest(absltest.TestCase):

  def test_data_without_clients_are_split_by_the_seed(self):
    dataset = _dataset()
    first, again, other = (dataset.clients(seed) for seed in (1, 1, 2))

    self.assertLen(first, data.NUM_CLIENTS)
    np.testing.assert_array_equal(first["3"], again["3"])
    self.assertFalse(np.array_equal(first["3"], other["3"]))
    np.testing.assert_array_equal(
        np.sort(np.concatenate(list(first.values())), axis=0), np.sort(dataset.points, axis=0)
    )

  def test_clients_of_the_data_keep_their_rows(self):
    clients = _dataset(client_sizes=(1000, 2000, 3000)).clients(1)

    self.assertEqual([len(points) for points in clients.values()], [1000, 2000, 3000])
    np.testing.assert_array_equal(clients["1"], _dataset().points[1000:3000])


class FederatedMethodsTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    stack = contextlib.ExitStack()
    cls.addClassCleanup(stack.close)
    cls.methods = methods.load(methods.FEDERATED, None, stack).by_name

  def _loss(self, method, epsilon=8.0, seed=0, **known):
    dataset = _dataset(**known)
    centers = self.methods[method](dataset, 3, epsilon, 1e-6, seed).centers
    self.assertEqual(centers.shape, (3, 3))
    return metrics.nonprivate_labels_and_loss(dataset.points, centers, 1.0)[1] / 6000

  @parameterized.parameters(*methods.FEDERATED)
  def test_finds_clear_clusters(self, method):
    # The clusters' own loss is 3 * 0.02**2; one center for all would have about 0.5.
    self.assertBetween(self._loss(method), 0.001, 0.002)

  @parameterized.parameters(*methods.FEDERATED)
  def test_the_seed_decides(self, method):
    self.assertEqual(self._loss(method), self._loss(method))
    self.assertNotEqual(self._loss(method), self._loss(method, seed=1))

  def test_privacy_of_clients_costs_more(self):
    clients = {"client_sizes": (300,) * 20}

    self.assertGreater(
        self._loss("refine_server", epsilon=0.5, **clients, unit_points=300),
        self._loss("refine_server", epsilon=0.5, **clients),
    )


if __name__ == "__main__":
  absltest.main()
