import contextlib
import os
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from dp_clustering import metrics
from experiments.private import data
from experiments.private import diffprivlib_process
from experiments.private import methods
from tests.experiments.private import fake_diffprivlib

_IN_PROCESS = ("sklearn", "lsh", "refine")


def _clusters(num_points=6000, **known):
  """Returns a data set of three small clusters in the unit ball."""
  rng = np.random.default_rng(0)
  centers = np.array([[0.7, 0.0, 0.0], [-0.5, 0.5, 0.0], [0.0, -0.6, 0.5]])
  points = centers[np.arange(num_points) % 3] + rng.normal(0, 0.02, (num_points, 3))
  return data.BenchmarkDataset("synthetic", points, "three clusters", **known)


class MethodsTest(parameterized.TestCase):

  def test_data_without_clients_are_split_by_the_seed_and_others_keep_their_rows(self):
    dataset = _clusters()
    first, again, other = (dataset.clients(seed) for seed in (1, 1, 2))

    self.assertLen(first, data.NUM_CLIENTS)
    np.testing.assert_array_equal(first["3"], again["3"])
    self.assertFalse(np.array_equal(first["3"], other["3"]))
    np.testing.assert_array_equal(
        np.sort(np.concatenate(list(first.values())), axis=0), np.sort(dataset.points, axis=0)
    )
    clients = _clusters(client_sizes=(1000, 2000, 3000)).clients(1)
    self.assertEqual([len(points) for points in clients.values()], [1000, 2000, 3000])
    np.testing.assert_array_equal(clients["1"], dataset.points[1000:3000])

  def _loss(self, method, known=(), **changes):
    dataset = _clusters(**dict(known))
    arguments = {"k": 3, "epsilon": 1.0, "delta": 1e-6, "seed": 0, **changes}
    loaded = methods.load((method,), None, self.enter_context(contextlib.ExitStack()))
    centers = loaded.by_name[method](dataset, *arguments.values()).centers
    self.assertEqual(centers.shape, (arguments["k"], 3))
    return metrics.nonprivate_labels_and_loss(dataset.points, centers, 1.0)[1] / 6000

  @parameterized.parameters(*_IN_PROCESS, *methods.FEDERATED)
  def test_finds_clear_clusters_as_the_seed_and_the_budget_decide(self, method):
    # The clusters' own loss is 3 * 0.02**2; one center for all would have about 0.5.
    loss = self._loss(method, epsilon=8.0)
    self.assertBetween(loss, 0.001, 0.01)
    self.assertEqual(self._loss(method, epsilon=8.0), loss)
    if method == "sklearn":  # It is not private.
      self.assertEqual(self._loss(method, epsilon=0.01), loss)
      return
    self.assertNotEqual(self._loss(method, epsilon=8.0, seed=1), loss)
    self.assertGreater(self._loss(method, epsilon=0.05), loss)

  def test_privacy_of_clients_costs_more(self):
    clients = {"client_sizes": (300,) * 20}
    self.assertGreater(
        self._loss("refine_server", {**clients, "unit_points": 300}, epsilon=0.5),
        self._loss("refine_server", clients, epsilon=0.5),
    )

  def test_without_diffprivlib_the_others_are_there(self):
    with mock.patch.object(diffprivlib_process, "default_python", return_value=None):
      loaded = methods.load(methods.CENTRAL, None, self.enter_context(contextlib.ExitStack()))

    self.assertCountEqual(loaded.by_name, _IN_PROCESS)
    self.assertCountEqual(loaded.skipped, ["diffprivlib"])

  def test_diffprivlib_ends_with_the_stack(self):
    python = fake_diffprivlib.write_python(self.create_tempdir().full_path)
    with contextlib.ExitStack() as stack:
      loaded = methods.load(methods.CENTRAL, python, stack)
      self.assertEqual(list(loaded.by_name), list(methods.CENTRAL))
      number = loaded.by_name["diffprivlib"].args[0].pid
      found = loaded.by_name["diffprivlib"](_clusters(300), 3, 1.0, 1e-6, 0)
      self.assertEqual(found.centers.shape, (3, 3))

    with self.assertRaises(ProcessLookupError):
      os.kill(number, 0)

  @parameterized.parameters("lsh", "refine")
  def test_privacy_of_many_points_costs_as_many_times_the_mu(self, method):
    together, one = (
        methods._private_centers(method, dataset, 3, 1.0, 1e-6, 0).ledger
        for dataset in (_clusters(unit_points=20), _clusters())
    )
    self.assertAlmostEqual(together.mu_spent, one.mu_spent / 20, places=6)
    self.assertEqual((one.epsilon, one.delta), (1.0, 1e-6))
    self.assertFalse(one.is_private)  # The noise is seeded.

  def test_privacy_of_many_points_of_diffprivlib(self):
    process = mock.Mock()
    methods._diffprivlib_centers(process, _clusters(30, unit_points=20), 3, 1.0, 1e-6, 0)
    self.assertEqual(process.centers.call_args.args[1:], (3, 1 / 20, 0))


if __name__ == "__main__":
  absltest.main()
