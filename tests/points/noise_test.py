"""Tests for fl_clustering.points.noise."""

from absl.testing import absltest
from absl.testing import parameterized
import dp_accounting
from dp_accounting import rdp

from fl_clustering.points import noise as noise_lib


def _noise(epsilon, delta, num_rounds, sensitivity=1.0):
  return noise_lib.round_noise(epsilon, delta, num_rounds, sensitivity, covers="all sums")


class RoundNoiseTest(parameterized.TestCase):

  @parameterized.named_parameters(("one", 1.0, 1e-6, 1), ("many", 0.5, 1e-5, 20))
  def test_noise_is_what_the_budget_takes_and_no_more(self, epsilon, delta, num_rounds):
    # The accountants look at the noise that is added, in sensitivities.
    multiplier = _noise(epsilon, delta, num_rounds, sensitivity=3.0).std / 3.0
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(multiplier), num_rounds)
    self.assertAlmostEqual(accountant.get_epsilon(delta), epsilon, delta=2e-3 * epsilon)
    # An accountant that is valid but not tight.
    accountant = rdp.RdpAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(multiplier), num_rounds)
    self.assertGreaterEqual(accountant.get_epsilon(delta), epsilon)

  def test_what_is_stated_is_what_is_added(self):
    noise = _noise(2.0, 1e-6, 8, sensitivity=3.0)
    spent = noise.spent
    self.assertEqual((spent["epsilon"], spent["delta"], spent["num_rounds"]), (2.0, 1e-6, 8))
    self.assertEqual(noise.std, 3.0 * spent["noise_multiplier"])
    self.assertEqual(spent["covers"], "all sums")

  @parameterized.parameters((1.0, 7, 2e-3), (2.0, 8, 0.02))
  def test_a_second_accountant_confirms_the_budget(self, epsilon, num_rounds, tolerance):
    spent = _noise(epsilon, 1e-6, num_rounds).spent
    self.assertAlmostEqual(spent["accounted_epsilon"], epsilon, delta=tolerance)


if __name__ == "__main__":
  absltest.main()
