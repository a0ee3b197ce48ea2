from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import scipy.optimize
import scipy.stats

from fl_clustering import aggregation
from fl_clustering import config as config_lib


def _gaussian_epsilon(noise_multiplier, delta):
  """Returns the exact epsilon of one Gaussian release (Balle and Wang, 2018)."""

  def excess(epsilon):
    a, b = 1 / (2 * noise_multiplier), epsilon * noise_multiplier
    return (
        scipy.stats.norm.cdf(a - b) - np.exp(epsilon) * scipy.stats.norm.cdf(-a - b) - delta
    )

  return scipy.optimize.brentq(excess, 0, 100)


def _spent(**settings):
  return aggregation.privacy_spent(
      config_lib.ThreePhaseConfig(aggregator="dp", **settings)
  )


class PrivacySpentTest(parameterized.TestCase):

  @parameterized.parameters((1, 1.0), (16, 4.0), (20, 10.0))
  def test_composed_gaussians_are_one_with_less_noise(self, rounds, noise_multiplier):
    spent = _spent(
        pretrain_rounds=rounds, noise_multiplier=noise_multiplier, dp_delta=1e-3
    )
    exact = _gaussian_epsilon(noise_multiplier / np.sqrt(rounds), 1e-3)
    self.assertAlmostEqual(spent["epsilon"], exact, delta=0.005 * exact)
    self.assertGreaterEqual(spent["epsilon"], exact - 1e-9)
    self.assertEqual(spent["neighboring_relation"], "add_or_remove_one")

  def test_everyone_by_number_is_everyone(self):
    self.assertEqual(_spent(clients_per_round=100), _spent())

  def test_sampling_is_accounted_for_replaced_clients(self):
    few = _spent(clients_per_round=5, noise_multiplier=4.0)
    many = _spent(clients_per_round=50, noise_multiplier=4.0)
    self.assertEqual(few["neighboring_relation"], "replace_one")
    self.assertLess(few["epsilon"], many["epsilon"])
    # Replacing a client moves the sum by twice the norm: without any gain from
    # sampling, that is the epsilon of half the noise.
    bound = _gaussian_epsilon(2.0 / np.sqrt(20), few["delta"])
    self.assertLess(few["epsilon"], bound)

  def test_more_rounds_cost_more(self):
    self.assertGreater(
        _spent(pretrain_rounds=21)["epsilon"], _spent(pretrain_rounds=20)["epsilon"]
    )


class AggregatorsTest(absltest.TestCase):

  def test_every_option_is_a_setting(self):
    fields = config_lib.ThreePhaseConfig.__dataclass_fields__
    for entry in aggregation.AGGREGATORS.values():
      self.assertContainsSubset(entry.defaults, fields)


if __name__ == "__main__":
  absltest.main()
