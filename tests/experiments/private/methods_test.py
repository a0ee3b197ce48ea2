import contextlib
import functools
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


class ClientsTest(absltest.TestCase):

  def test_data_without_clients_are_split_by_the_seed(self):
    dataset = _clusters()
    first, again, other = (dataset.clients(seed) for seed in (1, 1, 2))

    self.assertLen(first, data.NUM_CLIENTS)
    np.testing.assert_array_equal(first["3"], again["3"])
    self.assertFalse(np.array_equal(first["3"], other["3"]))
    np.testing.assert_array_equal(
        np.sort(np.concatenate(list(first.values())), axis=0), np.sort(dataset.points, axis=0)
    )

  def test_clients_of_the_data_keep_their_rows(self):
    clients = _clusters(client_sizes=(1000, 2000, 3000)).clients(1)

    self.assertEqual([len(points) for points in clients.values()], [1000, 2000, 3000])
    np.testing.assert_array_equal(clients["1"], _clusters().points[1000:3000])


class MethodsTest(parameterized.TestCase):

  def _loss(self, method, known=(), **changes):
    dataset = _clusters(**dict(known))
    arguments = {"k": 3, "epsilon": 1.0, "delta": 1e-6, "seed": 0, **changes}
    loaded = methods.load((method,), None, self.enter_context(contextlib.ExitStack()))
    centers = loaded.by_name[method](dataset, *arguments.values()).centers
    self.assertEqual(centers.shape, (arguments["k"], 3))
    points = dataset.points
    return metrics.nonprivate_labels_and_loss(points, centers, 1.0)[1] / len(points)

  @parameterized.parameters(*_IN_PROCESS, *methods.FEDERATED)
  def test_finds_clear_clusters(self, method):
    # The clusters' own loss is 3 * 0.02**2; one center for all would have about 0.5.
    self.assertBetween(self._loss(method, epsilon=8.0), 0.001, 0.01)

  @parameterized.parameters("lsh", "refine", *methods.FEDERATED)
  def test_the_seed_decides(self, method):
    self.assertEqual(self._loss(method), self._loss(method))
    self.assertNotEqual(self._loss(method), self._loss(method, seed=1))

  @parameterized.parameters("lsh", "refine")
  def test_less_privacy_is_less_loss(self, method):
    self.assertLess(self._loss(method, epsilon=8.0), self._loss(method, epsilon=0.05))

  def test_what_is_not_private_has_no_epsilon(self):
    self.assertEqual(self._loss("sklearn", epsilon=0.01), self._loss("sklearn", epsilon=8.0))

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
    dataset = _clusters(300)
    with contextlib.ExitStack() as stack:
      loaded = methods.load(methods.CENTRAL, python, stack)
      self.assertEqual(list(loaded.by_name), list(methods.CENTRAL))
      number = loaded.by_name["diffprivlib"].args[0].pid
      found = loaded.by_name["diffprivlib"](dataset, 3, 1.0, 1e-6, 0)
      self.assertEqual(found.centers.shape, (3, 3))

    with self.assertRaises(ProcessLookupError):
      os.kill(number, 0)

  @parameterized.parameters("lsh", "refine")
  def test_privacy_of_many_points_costs_as_many_times_the_mu(self, method):
    run = functools.partial(methods._private_centers, method)
    together = run(_clusters(unit_points=20), 3, 1.0, 1e-6, 0).ledger
    one = run(_clusters(), 3, 1.0, 1e-6, 0).ledger

    self.assertAlmostEqual(together.mu_spent, one.mu_spent / 20, places=6)

  def test_privacy_of_many_points_of_diffprivlib(self):
    process = mock.Mock()
    methods._diffprivlib_centers(process, _clusters(30, unit_points=20), 3, 1.0, 1e-6, 0)

    self.assertEqual(process.centers.call_args.args[1:], (3, 1 / 20, 0))

  def test_the_ledger_says_that_the_noise_is_seeded(self):
    ledger = methods._private_centers("refine", _clusters(), 3, 2.0, 1e-5, 4).ledger

    self.assertEqual((ledger.epsilon, ledger.delta), (2.0, 1e-5))
    self.assertFalse(ledger.is_private)


if __name__ == "__main__":
  absltest.main()
