from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import dp_accounting
from dp_accounting import pld
import numpy as np

from fl_clustering.engine import aggregation
from fl_clustering.engine import participation
from fl_clustering.three_phase import client_privacy
from fl_clustering.three_phase import config as config_lib


def _spent(**settings):
  return client_privacy.spent(config_lib.ThreePhaseConfig(aggregator="dp", **settings))


def _accounted(noise_multiplier, rounds, delta):
  """Returns epsilon by numerical composition of the rounds' privacy losses."""
  accountant = pld.PLDAccountant(value_discretization_interval=1e-3)
  accountant.compose(dp_accounting.GaussianDpEvent(noise_multiplier), rounds)
  return accountant.get_epsilon(delta)


class ClientPrivacyTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("one_round", {"pretrain_rounds": 1}),
      ("much_noise", {"pretrain_rounds": 20, "noise_multiplier": 10.0}),
      ("small_delta", {"pretrain_rounds": 5, "noise_multiplier": 4.0, "dp_delta": 1e-9}),
      ("few_take_part", {"clients_per_round": 5, "noise_multiplier": 4.0}),
      ("many_take_part", {"clients_per_round": 60, "noise_multiplier": 8.0, "seed": 2}),
  )
  def test_agrees_with_a_second_accountant(self, settings):
    config = config_lib.ThreePhaseConfig(aggregator="dp", **settings)
    spent = client_privacy.spent(config)
    rounds, delta = spent["rounds_per_client"], config.dp_delta
    for name, noise_multiplier in (
        ("epsilon", config.noise_multiplier),
        # Twice the sensitivity is half the noise.
        ("epsilon_replace_one", config.noise_multiplier / 2),
    ):
      # The accountant rounds every loss up by at most its interval of 1e-3.
      accounted = _accounted(noise_multiplier, rounds, delta)
      self.assertBetween(accounted - spent[name], -1e-9, 1e-3 * (rounds + 1), name)

  def test_the_draw_of_clients_is_taken_as_known(self):
    settings = {"clients_per_round": 5, "pretrain_rounds": 20, "seed": 4}
    spent = _spent(**settings)
    rounds = participation.most_rounds_of_a_client(4, 100, 5, 20)
    self.assertEqual(spent["rounds_per_client"], rounds)
    # What that client would spend if it were known that it takes part in these rounds.
    alone = _spent(pretrain_rounds=rounds, seed=4)
    self.assertEqual(spent["epsilon"], alone["epsilon"])
    self.assertLess(spent["epsilon"], _spent(pretrain_rounds=20)["epsilon"])
    self.assertEqual(_spent(clients_per_round=100), _spent())

  def test_more_rounds_and_less_noise_cost_more(self):
    base = _spent()["epsilon"]
    self.assertGreater(_spent(pretrain_rounds=21)["epsilon"], base)
    self.assertGreater(_spent(noise_multiplier=0.9)["epsilon"], base)
    self.assertGreater(_spent(dp_delta=1e-6)["epsilon"], base)

  @parameterized.product(
      noise_multiplier=[1e-3, 1.0, 1e6],
      dp_delta=[5e-324, 1e-300, 1e-5, 1 - 1e-16],
      pretrain_rounds=[1, 100_000],
  )
  def test_is_a_number_for_all_settings(self, **settings):
    spent = _spent(**settings)
    for name in ("epsilon", "epsilon_replace_one"):
      self.assertTrue(np.isfinite(spent[name]) and spent[name] >= 0, spent[name])

  def test_the_aggregator_says_what_it_guarantees(self):
    config = config_lib.ThreePhaseConfig(pretrain_rounds=7)
    self.assertIsNone(client_privacy.spent(config))
    guarantee = lambda self, rounds: {"epsilon": rounds / 2}
    with mock.patch.object(aggregation.Mean, "guarantee", guarantee):
      spent = client_privacy.spent(config)
    self.assertEqual(spent["epsilon"], 3.5)
    self.assertEqual(list(spent), ["epsilon", "rounds_per_client", "covers"])


if __name__ == "__main__":
  absltest.main()
