"""Tests of how the budget is spent."""

import math
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

from dp_clustering import noise
from dp_clustering import privacy_calculator
from fl_clustering.points import privacy
from fl_clustering.private_clusters import plan


class BudgetTest(parameterized.TestCase):

  @parameterized.parameters((1, 25), (4, 25), (4, 1), (12, 300))
  def test_the_parts_add_up_to_the_budget_and_not_more(self, num_clusters, rounds):
    budget = plan.PrivateClusters(num_clusters, 8.0, 1e-5, rounds).budget
    spent = math.hypot(
        budget.mean_sketch, budget.kmeans, budget.norms, budget.report,
        *[budget.round_] * rounds,
    )
    self.assertLess(spent, budget.total)
    self.assertGreater(spent, budget.total * (1 - 1e-8))

  def test_the_budget_is_that_of_the_gaussian_mechanism(self):
    budget = plan.PrivateClusters(4, 8.0, 1e-5).budget
    self.assertEqual(budget.total, privacy_calculator.gaussian_mu(8.0, 1e-5))
    self.assertAlmostEqual(budget.total, 1.67, places=2)

  def test_training_gets_three_quarters_of_it_and_with_one_cluster_the_rest(self):
    for num_clusters, share in ((4, 0.75), (1, 0.95)):
      budget = plan.PrivateClusters(num_clusters, 2.0, 1e-5).budget
      self.assertAlmostEqual(25 * budget.round_**2 / budget.total**2, share)

  @parameterized.parameters((8.0, 1200, 0.10), (2.0, 1200, 0.34), (2.0, 3400, 0.12))
  def test_the_planning_number(self, epsilon, num_clients, expected):
    for rounds in (25, 100):
      settings = plan.PrivateClusters(4, epsilon, 1e-5, rounds)
      self.assertAlmostEqual(settings.planning_number(1970, num_clients), expected, places=2)

  def test_noise_grows_with_the_shares_that_need_not_count(self):
    def noise(**trust):
      return plan.PrivateClusters(4, 8.0, 1e-5, **trust).planning_number(1970, 1200)

    self.assertAlmostEqual(noise(trust="none", min_clients=600) / noise(), math.sqrt(2))
    self.assertEqual(noise(trust="none", min_clients=1200), noise())
    self.assertEqual(noise(trust="none"), noise())


class PrivacyTest(parameterized.TestCase):

  @parameterized.parameters((8.0, 0.5, 2.0, {"counts": 1.0}), (math.inf, math.inf, 0.0, None))
  def test_a_client_is_limited_as_one_point_unless_there_is_no_budget(
      self, epsilon, mu, std, limits
  ):
    settings = plan.PrivateClusters(4, epsilon, 1e-5)
    self.assertEqual(settings.unit_norm, 1.0)
    points = mock.Mock(**{"totals.return_value": 0})
    query = mock.Mock(**{"noise.return_value": 0})
    privacy.noisy_totals(settings, points, 5, noise.NoNoise())(mu, query, {"counts": std})
    self.assertEqual(points.totals.call_args.args[2], limits)


class BadInputTest(parameterized.TestCase):

  @parameterized.parameters(
      ("num_clusters", 0), ("num_clusters", 2.0), ("epsilon", 0.0),
      ("epsilon", 1e-9), ("epsilon", 1e101), ("epsilon", math.nan), ("delta", 0.0),
      ("delta", 1.0), ("rounds", 0),
      ("trust", "everyone"), ("min_clients", 0), ("min_clients", 3), ("local_steps", 0),
      ("learning_rate", -1.0),
      ("learning_rate", math.inf),
  )
  def test_is_refused(self, name, value):
    settings = {"num_clusters": 4, "epsilon": 8.0, "delta": 1e-5} | {name: value}
    with self.assertRaisesRegex(ValueError, f"^`{name}`"):
      plan.PrivateClusters(**settings)


if __name__ == "__main__":
  absltest.main()
