from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from dp_clustering import metrics
from experiments.private import clusterers

_IN_PROCESS = ("sklearn", "lsh", "refine")


def _clusters(num_points=6000):
  """Returns three small clusters in the unit ball, and their centers."""
  rng = np.random.default_rng(0)
  centers = np.array([[0.7, 0.0, 0.0], [-0.5, 0.5, 0.0], [0.0, -0.6, 0.5]])
  points = centers[np.arange(num_points) % 3] + rng.normal(0, 0.02, (num_points, 3))
  return points, centers


class ClusterersTest(parameterized.TestCase):

  def _loss(self, method, **changes):
    points, _ = _clusters()
    arguments = {"k": 3, "epsilon": 1.0, "delta": 1e-6, "seed": 0, **changes}
    centers = clusterers.build_clusterers()[method](points, *arguments.values())
    self.assertEqual(centers.shape, (arguments["k"], 3))
    return metrics.nonprivate_labels_and_loss(points, centers, 1.0)[1] / len(points)

  @parameterized.parameters(*_IN_PROCESS)
  def test_finds_clear_clusters(self, method):
    # The clusters' own loss is 3 * 0.02**2; one center for all would have about 0.5.
    self.assertBetween(self._loss(method, epsilon=8.0), 0.001, 0.01)

  @parameterized.parameters("lsh", "refine")
  def test_the_seed_decides(self, method):
    self.assertEqual(self._loss(method), self._loss(method))
    self.assertNotEqual(self._loss(method), self._loss(method, seed=1))

  @parameterized.parameters("lsh", "refine")
  def test_less_privacy_is_less_loss(self, method):
    self.assertLess(self._loss(method, epsilon=8.0), self._loss(method, epsilon=0.05))

  def test_what_is_not_private_has_no_epsilon(self):
    self.assertEqual(self._loss("sklearn", epsilon=0.01), self._loss("sklearn", epsilon=8.0))

  def test_diffprivlib_is_there_with_its_process(self):
    class Process:
      def centers(self):
        pass

    process = Process()

    self.assertCountEqual(clusterers.build_clusterers(), _IN_PROCESS)
    with_process = clusterers.build_clusterers(process)
    self.assertCountEqual(with_process, clusterers.METHODS)
    self.assertEqual(with_process["diffprivlib"], process.centers)

  def test_the_ledger_says_that_the_noise_is_seeded(self):
    points, _ = _clusters()

    ledger = clusterers.private_result("refine", points, 3, 2.0, 1e-5, 4).ledger

    self.assertEqual((ledger.epsilon, ledger.delta), (2.0, 1e-5))
    self.assertFalse(ledger.is_private)


if __name__ == "__main__":
  absltest.main()
