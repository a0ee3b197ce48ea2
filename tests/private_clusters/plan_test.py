"""Tests of how the budget is spent."""

import math
from unittest import mock

from absl.testing import parameterized

from dp_clustering import noise
from dp_clustering import privacy_calculator
from fl_clustering.points import privacy
from fl_clustering.private_clusters import plan


class BudgetTest(parameterized.TestCase):

  @parameterized.parameters(
      (1, 25, None, 25), (4, 25, None, 25), (4, 1, None, 1), (12, 300, None, 300),
      # 100 clients: in four rounds each one takes part once; of 34 or fewer, in three.
      (4, 24, 25, 6), (4, 24, 34, 8), (1, 4, 25, 1),
  )
  def test_the_parts_add_up_to_the_budget_and_not_more(
      self, num_clusters, rounds, clients_per_round, own_rounds
  ):
    budget = plan.PrivateClusters(num_clusters, 8.0, 1e-5, rounds, clients_per_round).budget(100)
    self.assertEqual(budget.own_rounds, own_rounds)
    spent = math.hypot(
        budget.mean_sketch, budget.kmeans, budget.norms, budget.report,
        *[budget.round_] * own_rounds,
    )
    self.assertLess(spent, budget.total)
    self.assertGreater(spent, budget.total * (1 - 1e-8))
    self.assertAlmostEqual(sum(budget.shares.values()), 1)

  def test_the_budget_is_that_of_the_gaussian_mechanism(self):
    budget = plan.PrivateClusters(4, 8.0, 1e-5).budget(9)
    self.assertEqual(budget.total, privacy_calculator.gaussian_mu(8.0, 1e-5))
    self.assertAlmostEqual(budget.total, 1.67, places=2)

  def test_training_gets_three_quarters_of_it_and_with_one_cluster_the_rest(self):
    for num_clusters, share in ((4, 0.75), (1, 0.95)):
      budget = plan.PrivateClusters(num_clusters, 2.0, 1e-5).budget(9)
      self.assertAlmostEqual(25 * budget.round_**2 / budget.total**2, share)

  @parameterized.parameters((8.0, 1200, 0.10), (2.0, 1200, 0.34), (2.0, 3400, 0.12))
  def test_the_planning_number(self, epsilon, num_clients, expected):
    for rounds in (25, 100):
      settings = plan.PrivateClusters(4, epsilon, 1e-5, rounds)
      self.assertAlmostEqual(settings.planning_number(1970, num_clients), expected, places=2)

  @parameterized.parameters((400, None), (400, 100), (400, 40))
  def test_the_planning_number_of_rounds_over_some(self, num_clients, clients_per_round):
    asked = clients_per_round or num_clients
    for passes in (1, 3):
      rounds = passes * num_clients // asked
      settings = plan.PrivateClusters(3, 2.0, 1e-5, rounds, clients_per_round)
      # The noise of a sum of P numbers, over B / K updates, is added up over the rounds; the signal
      # is one for each round.
      noise_of_sum = math.sqrt(500) / settings.budget(num_clients).round_
      expected = noise_of_sum * math.sqrt(rounds) / (asked / 3) / rounds
      found = settings.planning_number(500, num_clients)
      self.assertAlmostEqual(found / expected, 1)
      # K sqrt(P) / (mu sqrt(B N)), with the mu of all rounds.
      mu = settings.budget(num_clients).total * math.sqrt(0.75)
      self.assertAlmostEqual(found * mu * math.sqrt(asked * num_clients), 3 * math.sqrt(500), 5)

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


class CheckClientsTest(parameterized.TestCase):

  @parameterized.product(
      name=("num_clusters", "rounds", "local_steps", "clients_per_round"), value=(0, -3, 1.5)
  )
  def test_numbers_are_positive_integers(self, name, value):
    with self.assertRaisesRegex(ValueError, f"^`{name}`"):
      plan.PrivateClusters(**{"num_clusters": 4, "epsilon": 8.0, "delta": 1e-5, name: value})

  @parameterized.parameters(
      ({"num_clusters": 11}, "num_clusters"), ({"num_clusters": 10}, None),
      ({"clients_per_round": 11}, "clients_per_round"), ({"clients_per_round": 10}, None),
      ({"clients_per_round": 5}, "rounds"), ({"clients_per_round": 5, "rounds": 4}, None),
      # Four rounds of two or three.
      ({"clients_per_round": 3, "rounds": 6}, "rounds"),
      ({"clients_per_round": 3, "rounds": 4}, None),
      ({"trust": "none", "min_clients": 11}, "min_clients"),
      ({"trust": "none", "min_clients": 10}, None),
      ({"trust": "none", "min_clients": 3, "clients_per_round": 3, "rounds": 4}, "min_clients"),
      ({"trust": "none", "min_clients": 2, "clients_per_round": 3, "rounds": 4}, None),
  )
  def test_rounds_are_whole_passes_of_enough_clients(self, changes, refused):
    settings = plan.PrivateClusters(**{
        "num_clusters": 4, "epsilon": 8.0, "delta": 1e-5, "rounds": 25, **changes
    })
    if refused is None:
      settings.check_clients(10)
      return
    with self.assertRaisesRegex(ValueError, f"^`{refused}`"):
      settings.check_clients(10)


class BadInputTest(parameterized.TestCase):

  @parameterized.parameters(
      ("num_clusters", 0), ("num_clusters", 2.0), ("epsilon", 0.0),
      ("epsilon", 1e-9), ("epsilon", 1e101), ("epsilon", math.nan), ("delta", 0.0),
      ("delta", 1.0), ("rounds", 0),
      ("trust", "everyone"), ("min_clients", 0), ("min_clients", 3), ("local_steps", 0),
      ("learning_rate", -1.0), ("learning_rate", math.inf), ("target_unclipped_quantile", 0.95),
  )
  def test_is_refused(self, name, value):
    settings = {"num_clusters": 4, "epsilon": 8.0, "delta": 1e-5} | {name: value}
    with self.assertRaisesRegex(ValueError, f"^`{name}`"):
      plan.PrivateClusters(**settings)
