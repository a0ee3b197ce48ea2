import types

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.engine import participation


class ParticipationTest(absltest.TestCase):

  def test_everyone_by_default(self):
    np.testing.assert_array_equal(participation.participants(0, 4, None, 7), range(4))
    np.testing.assert_array_equal(participation.participants(0, 4, 4, 7), range(4))

  def test_draws_different_clients_in_order(self):
    for round_num in range(50):
      chosen = participation.participants(3, 10, 4, round_num)
      self.assertLen(set(chosen), 4)
      self.assertEqual(list(chosen), sorted(chosen))
      self.assertContainsSubset(chosen, range(10))

  def test_the_draw_follows_from_seed_and_round(self):
    draws = {
        (seed, round_num): tuple(participation.participants(seed, 50, 10, round_num))
        for seed in range(3) for round_num in range(3)
    }
    self.assertLen(set(draws.values()), 9)
    self.assertEqual(draws[2, 1], tuple(participation.participants(2, 50, 10, 1)))

  def test_every_client_is_drawn_as_often(self):
    counts = np.bincount(
        np.concatenate([participation.participants(0, 10, 3, r) for r in range(2000)])
    )
    # Binomial(2000, .3): a standard deviation of 20.5. Five of them for ten clients: the
    # draws of one seed in 10^5 would fail.
    self.assertLess(np.abs(counts - 600).max(), 103)


def _settings(seed):
  return types.SimpleNamespace(
      seed=seed, clients_per_round=10, client_epochs_per_round=2, evaluated_clients=10
  )


class RunTest(absltest.TestCase):

  def test_a_rounds_draw_follows_from_the_runs_seed(self):
    for seed in (0, 7):
      round_ = participation.round_of(_settings(seed), 50, 3)
      np.testing.assert_array_equal(round_.clients, participation.participants(seed, 50, 10, 3))
      self.assertEqual((round_.number, round_.num_epochs), (3, 2))

  def test_who_is_evaluated_follows_from_the_runs_seed(self):
    found = [participation.evaluated(_settings(seed), 50) for seed in range(3)]
    self.assertLen({tuple(clients) for clients in found}, 3)
    for clients in found:
      self.assertLen(clients, 10)
      self.assertTrue((np.diff(clients, append=50) > 0).all())
    np.testing.assert_array_equal(participation.evaluated(_settings(1), 9), range(9))


class RoundRobinTest(parameterized.TestCase):

  @parameterized.parameters(
      (12, 4, 3), (13, 4, 4), (10, 10, 1), (10, 9, 2), (7, 1, 7), (7, None, 1)
  )
  def test_every_client_is_in_one_round_of_a_pass(self, num_clients, clients_per_round, length):
    self.assertEqual(participation.pass_rounds(num_clients, clients_per_round), length)
    rounds = [
        participation.round_robin(3, num_clients, clients_per_round, number)
        for number in range(2 * length)
    ]
    for one_pass in (rounds[:length], rounds[length:]):
      self.assertCountEqual(np.concatenate(one_pass), range(num_clients))
      sizes = list(map(len, one_pass))
      self.assertLessEqual(max(sizes), clients_per_round or num_clients)
      self.assertLessEqual(max(sizes) - min(sizes), 1)
      for clients in one_pass:
        np.testing.assert_array_equal(clients, np.sort(clients))

  def test_the_schedule_follows_from_the_seed_and_the_pass(self):
    schedules = {
        (seed, number): tuple(participation.round_robin(seed, 50, 10, number))
        for seed in range(3) for number in range(10)
    }
    self.assertLen(set(schedules.values()), 30)
    self.assertEqual(schedules[2, 7], tuple(participation.round_robin(2, 50, 10, 7)))
