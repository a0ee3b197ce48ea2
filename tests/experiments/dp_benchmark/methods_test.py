from unittest import mock

from absl.testing import parameterized
import numpy as np
from sklearn import cluster

from dp_clustering import clustering
from dp_clustering import metrics
from dp_clustering import noise
from dp_clustering import privacy_calculator
from experiments.dp_benchmark import data
from experiments.dp_benchmark import methods
from tests import drawn_seeds


def _clusters(num_points=6000, **known):
  """Returns a data set of three small clusters in the unit ball."""
  rng = np.random.default_rng(0)
  centers = np.array([[0.7, 0.0, 0.0], [-0.5, 0.5, 0.0], [0.0, -0.6, 0.5]])
  points = centers[np.arange(num_points) % 3] + rng.normal(0, 0.02, (num_points, 3))
  return data.BenchmarkDataset("synthetic", points, "three clusters", **known)


class MethodsTest(parameterized.TestCase):

  def _loss(self, method, known=(), **changes):
    dataset = _clusters(**dict(known))
    arguments = {"k": 3, "epsilon": 1.0, "delta": 1e-6, "seed": 0, **changes}
    centers = methods.METHODS[method].run(dataset, *arguments.values())
    self.assertEqual(centers.shape, (arguments["k"], 3))
    return metrics.nonprivate_labels_and_loss(dataset.points, centers, 1.0)[1] / 6000

  @parameterized.parameters(*methods.METHODS)
  def test_finds_clear_clusters_as_the_seed_and_the_budget_decide(self, method):
    # The clusters' own loss is 3 * 0.02**2; one center for all would have about 0.5.
    loss = self._loss(method, epsilon=8.0)
    self.assertBetween(loss, 0.001, 0.01)
    self.assertEqual(self._loss(method, epsilon=8.0), loss)
    if method == "sklearn":  # It is not private.
      self.assertEqual(self._loss(method, epsilon=0.01), loss)
      return
    with (
        drawn_seeds.recorded() as seeds,
        mock.patch.object(noise, "SeededNoise", wraps=noise.SeededNoise) as of_noise,
    ):
      self.assertNotEqual(self._loss(method, epsilon=8.0, seed=7), loss)
    self.assertEqual({*seeds, *(call.args[0] for call in of_noise.call_args_list)}, {7})
    self.assertGreater(self._loss(method, epsilon=0.05), loss)

  def test_without_privacy_the_best_of_ten_starts_by_the_seed_is_taken(self):
    with mock.patch.object(cluster, "KMeans", wraps=cluster.KMeans) as kmeans:
      self._loss("sklearn", seed=7)
    kmeans.assert_called_once_with(n_clusters=3, n_init=10, random_state=7)

  def test_privacy_of_clients_costs_more(self):
    clients = {"num_clients": 20}
    self.assertGreater(
        self._loss("refine_server", {**clients, "unit_points": 300}, epsilon=0.5),
        self._loss("refine_server", clients, epsilon=0.5),
    )

  @parameterized.parameters("lsh", "refine")
  def test_privacy_of_many_points_costs_as_many_times_the_mu(self, method):
    budgets, public = [], []

    def found(k, data_, budget, random_state):
      del k, random_state
      budgets.append(budget)
      public.append(data_.public_num_points)
      return mock.Mock()

    with mock.patch.dict(clustering.METHODS, {method: found}):
      for dataset in (_clusters(unit_points=50), _clusters(public_num_points=5000)):
        # At the larger delta, a fiftieth of the mu has no epsilon.
        for delta in (1e-6, 0.01):
          methods.METHODS[method].run(dataset, 3, 1.0, delta, 0)
    self.assertEqual(public, [None, None, 5000, 5000])
    mus = [privacy_calculator.gaussian_mu(own.epsilon, own.delta) for own in budgets]
    np.testing.assert_allclose(mus[:2], np.divide(mus[2:], 50), rtol=1e-6)
    self.assertEqual([(own.epsilon, own.delta) for own in budgets[2:]], [(1.0, 1e-6), (1.0, 0.01)])
