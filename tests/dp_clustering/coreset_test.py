import math
import tracemalloc

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from bench import lsh_tree_reference
from dp_clustering import clustering_params
from dp_clustering import coreset
from dp_clustering import ledger as ledger_lib
from dp_clustering import noise
from dp_clustering import privacy_calculator
from dp_clustering import private_sums


def _points(num_points=1000, dim=4, seed=0):
  return np.random.default_rng(seed).normal(0, 0.4, (num_points, dim))


def _coreset(points, epsilon, tree_param, lsh_noise, seed=0, k=8):
  source = noise.build_noise_source(epsilon, seed)
  ledger = ledger_lib.Ledger(epsilon, 1e-6, source)
  sums = private_sums.PrivateSums(points, 1.0, source, ledger)
  rng = np.random.default_rng(seed)
  return coreset.private_lsh_coreset(sums, k, tree_param, lsh_noise, rng), ledger


def _sorted(points):
  return points[np.lexsort(points.T)]


class PrivateLshCoresetTest(parameterized.TestCase):

  def test_without_noise_equals_the_source_node_by_node(self):
    tree_param = clustering_params.TreeParam(60, 20, 10)
    private, _ = _coreset(
        _points(), math.inf, tree_param, privacy_calculator.LshNoise(0.0, 0.0)
    )
    hyperplanes = np.random.default_rng(0).normal(size=(10, 4))
    expected, weights = lsh_tree_reference.coreset(
        _points(), 1.0, hyperplanes, tree_param, 1000, lambda c: c, lambda s: s
    )
    self.assertLen(expected, len(private.points))
    np.testing.assert_allclose(_sorted(private.points), _sorted(expected), atol=1e-5)
    self.assertCountEqual(private.weights, weights)

  @parameterized.product(
      epsilon=[0.1, 10.0],
      split=[
          None, clustering_params.PrivacyBudgetSplit(0.2, 0.8),
          clustering_params.PrivacyBudgetSplit(0.1, 0.1),
          clustering_params.PrivacyBudgetSplit(1e-7, 0.9),
      ],
      tree_param=[None, clustering_params.TreeParam(1, 1, 3), clustering_params.TreeParam(9, 1, 0)],
  )
  def test_costs_the_whole_budget(self, epsilon, split, tree_param):
    budget = clustering_params.DifferentialPrivacyParam(epsilon, 1e-6)
    max_depth = tree_param.max_depth if tree_param else 20
    lsh_noise = privacy_calculator.lsh_noise(budget, split, None, max_depth)
    private, ledger = _coreset(_points(), epsilon, tree_param, lsh_noise)
    self.assertAlmostEqual(ledger.mu_spent / ledger.mu, 1, places=9)
    self.assertLessEqual(
        ledger.releases[-1].std, lsh_noise.sum_noise_multiplier * (1 + 1e-9))
    self.assertLessEqual(np.linalg.norm(private.points, axis=1).max(), 1 + 1e-12)

  def test_a_tree_too_deep_is_refused_before_anything_is_spent(self):
    tree_param = clustering_params.TreeParam(3, 1, 25)
    with self.assertRaisesRegex(ValueError, "`max_depth` must be an integer in .0, 24."):
      _coreset(_points(), 1.0, tree_param, privacy_calculator.LshNoise(9.0, 90.0))


class FitCoresetTest(absltest.TestCase):

  def test_weights_count_as_repetitions(self):
    points = np.array([[0.0, 0], [0.1, 0], [1, 0], [1.2, 0]])
    weights = np.array([3, 1, 1, 4])
    rng = np.random.default_rng
    centers = coreset.fit_coreset(points, weights, 2, rng(0))
    repeated = coreset.fit_coreset(np.repeat(points, weights, axis=0), np.ones(9), 2, rng(0))
    np.testing.assert_allclose(_sorted(centers), [[0.025, 0], [1.16, 0]])
    np.testing.assert_allclose(_sorted(repeated), _sorted(centers))
    same = coreset.fit_coreset(np.ones((9, 2)), np.ones(9), 3, rng(0))
    np.testing.assert_array_equal(same, np.ones((3, 2)))


class ExactlyKCentersTest(parameterized.TestCase):

  def test_the_noise_of_a_center_is_that_of_all_of_its_leaves(self):
    points = np.array([[0.9, 0.0], [0.8, 0.1], [0.8, -0.1], [-0.9, 0.0]])
    private = coreset.Coreset(points, np.array([100.0, 200.0, 300.0, 400.0]), 3.0, 5.0)
    found = coreset.exactly_k_centers(private, 2, 1.0, np.random.default_rng(0))
    order = np.argsort(found.centers[:, 0])
    np.testing.assert_allclose(found.noisy_counts[order], [400, 600])
    np.testing.assert_allclose(found.count_sd[order], [5, 5 * math.sqrt(3)])
    np.testing.assert_allclose(
        found.noise_sd[order],
        [[math.hypot(3, 5 * 0.9) / 400, 3 / 400],
         [math.sqrt(3) * math.hypot(3, 5 * x) / 600 for x in (49 / 60, 1 / 60)]],
    )

  @parameterized.parameters(1, 2, 3, 4, 30)
  def test_gives_k_centers_in_the_ball(self, k):
    points = np.array([[1.0, 0], [0, 1], [-1, 0]])
    private = coreset.Coreset(points, np.ones(3), 0.0, 0.0)
    centers = coreset.exactly_k_centers(private, k, 1.0, np.random.default_rng(0)).centers
    self.assertEqual(centers.shape, (k, 2))
    self.assertLessEqual(np.linalg.norm(centers, axis=1).max(), 1 + 1e-12)
    for point in points[: 3 if k >= 3 else 0]:
      self.assertLess(np.linalg.norm(centers - point, axis=1).min(), 1e-9)


class FillCentersTest(absltest.TestCase):

  def test_midpoints_of_the_closest_pairs_come_first(self):
    centers = np.array([[0.0], [0.2], [1.0]])
    filled = coreset.fill_centers(centers, 5, 0.1, 1.0, np.random.default_rng(0))
    np.testing.assert_allclose(filled.ravel(), [0.0, 0.2, 1.0, 0.1, 0.6])

  def test_many_centers_have_no_matrix_of_differences(self):
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(800, 20))
    centers[700] = centers[3] + 1e-3
    tracemalloc.start()
    self.addCleanup(tracemalloc.stop)
    filled = coreset.fill_centers(centers, 801, 0.1, 100.0, rng)
    np.testing.assert_array_equal(filled[800], (centers[3] + centers[700]) / 2)
    _, most = tracemalloc.get_traced_memory()
    self.assertLess(most, 8 * 800**2)

  def test_then_random_directions_and_k_centers_are_left_alone(self):
    rng = np.random.default_rng(0)
    filled = coreset.fill_centers(np.zeros((1, 3)), 4, 0.1, 1.0, rng)
    np.testing.assert_allclose(np.linalg.norm(filled, axis=1), [0, 0.1, 0.1, 0.1])
    np.testing.assert_array_equal(coreset.fill_centers(filled, 4, 0.1, 9.0, rng), filled)
