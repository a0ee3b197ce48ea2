"""Tests of how many rounds the matched control has; no client trains."""

import types

from absl.testing import parameterized
import numpy as np

from fl_clustering.engine import cost
from fl_clustering.engine import participation
from fl_clustering.three_phase import config as config_lib
from fl_clustering.three_phase import matched_control

_STEPS = np.array([1, 2, 30])


class _Engine:
  clients = np.arange(3)

  def training_cost(self, clients, num_epochs):
    return cost.Cost(num_epochs * int(_STEPS[clients].sum()))


def _config(**settings):
  return config_lib.ThreePhaseConfig(
      num_clients=3, methods=(), pretrain_rounds=2, cluster_rounds=3,
      client_epochs_per_round=2, **settings,
  )


def _numbers(config, fedavg_steps, most_steps, least_steps=0):
  results = {
      name: types.SimpleNamespace(cost=cost.Cost(steps))
      for name, steps in (("fedavg", fedavg_steps), ("other", most_steps))
  }
  return matched_control.numbers(config, results, _Engine(), least_steps)


class NumbersTest(parameterized.TestCase):

  def test_a_little_more_work_needs_no_control(self):
    self.assertEqual(_numbers(_config(), 1000, 1050), [])
    self.assertEqual(_numbers(_config(), 1000, 1051), [7])

  def test_rounds_follow_those_of_fedavg(self):
    # Rounds 1 and 2 are phase 1's, 3 is kept for the grouping epochs; a round has 66 steps.
    self.assertEqual(_numbers(_config(), 1000, 1000 + 2 * 66), [7, 8])
    self.assertEqual(_numbers(_config(), 1000, 1000 + 2 * 66 + 1), [7, 8, 9])

  def test_methods_of_other_runs_count(self):
    self.assertEqual(_numbers(_config(), 1000, 1000, 1000 + 2 * 66), [7, 8])
    self.assertEqual(_numbers(_config(), 1000, 1000 + 66, 1000 + 2 * 66), [7, 8])

  def test_epochs_before_the_grouping_are_no_rounds(self):
    # Without them, FedAvg would have 5 * 66 steps.
    config = _config(grouping_epochs=20)
    self.assertEqual(_numbers(config, 5 * 66 + 660, 5 * 66 + 660 + 3 * 66), [7, 8, 9])

  @parameterized.parameters(range(5))
  def test_has_enough_steps_whoever_takes_part(self, seed):
    config = _config(clients_per_round=1, seed=seed)
    numbers = _numbers(config, 100, 300)
    engine = _Engine()
    steps = [
        engine.training_cost(participation.round_of(config, 3, n).clients, 2)
        .steps
        for n in numbers
    ]
    self.assertEqual(numbers, list(range(7, 7 + len(numbers))))
    self.assertGreaterEqual(sum(steps), 200)
    self.assertLess(sum(steps[:-1]), 200)
