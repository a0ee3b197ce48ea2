"""Tests of the verdict; error rates are those of 4,000 seeded draws."""

from absl.testing import absltest
import numpy as np

from fl_clustering.three_phase import gains


def _false_verdicts(num_clients, num_repeats, sd_clients, sd_training, num_comparisons=1):
  """Returns how often a method that is the control again is called better or worse."""
  rng = np.random.default_rng(0)
  wrong, num_draws = 0, 4000
  for _ in range(num_draws):
    shifts = rng.normal(0, sd_training, num_repeats + 2)
    differences = shifts[0] - shifts[1] + rng.normal(0, sd_clients, num_clients)
    found = gains.gain(differences, shifts[1:], num_comparisons)
    wrong += found.verdict != gains.UNCLEAR
  return wrong / num_draws


class GainTest(absltest.TestCase):

  def test_paired_interval_by_hand(self):
    found = gains.gain(np.array([0.1, 0.3, 0.2, 0.2]), [0.5], 1)
    # The standard error is sqrt(.02 / 3) / 2, the quantile t(3, .975) = 3.1824.
    self.assertAlmostEqual(found.mean, 0.2)
    self.assertAlmostEqual(found.low, 0.2 - 3.1824 * np.sqrt(0.02 / 3) / 2, places=5)
    self.assertAlmostEqual(found.high, 0.2 + 3.1824 * np.sqrt(0.02 / 3) / 2, places=5)
    self.assertEqual(found.verdict, "better")

  def test_repeats_add_twice_their_variance(self):
    differences, repeated = np.array([0.1, 0.3, 0.2, 0.2]), [0.4, 0.5, 0.6]
    found = gains.gain(differences, repeated, 1)
    clients, training = 0.02 / 3 / 4, 2 * 0.01
    freedom = (clients + training) ** 2 / (clients**2 / 3 + training**2 / 2)
    self.assertBetween(freedom, 2, 3)
    # t(2.335..., .975), between the quantiles of 2 and 3 degrees.
    half = found.high - found.mean
    self.assertBetween(half / np.sqrt(clients + training), 3.1824, 4.3027)
    self.assertAlmostEqual(found.mean - found.low, half)
    self.assertEqual(found.verdict, "unclear")

  def test_worse(self):
    self.assertEqual(gains.gain(np.array([-0.2, -0.21, -0.19]), [], 1).verdict, "worse")

  def test_more_comparisons_widen_the_interval(self):
    differences = np.array([0.1, 0.3, 0.2, 0.2])
    one, five = (gains.gain(differences, [0.5], number) for number in (1, 5))
    self.assertLess(five.low, one.low)
    self.assertGreater(five.high, one.high)

  def test_equal_models_are_unclear(self):
    found = gains.gain(np.zeros(5), [0.5, 0.5], 3)
    self.assertEqual((found.low, found.mean, found.high), (0, 0, 0))
    self.assertEqual(found.verdict, "unclear")

  def test_one_client_tells_nothing(self):
    found = gains.gain(np.array([0.4]), [0.5, 0.6], 1)
    self.assertEqual((found.low, found.high, found.verdict), (None, None, "unclear"))

  def test_equal_differences_do_not_say_how_much_they_vary(self):
    # Two clients of ten examples, one more right each; up to rounding the same.
    for repeated in ([0.5], [0.5, 0.5, 0.5], [0.5, 0.501]):
      found = gains.gain(np.array([0.8 - 0.7, 0.3 - 0.2]), repeated, 1)
      self.assertAlmostEqual(found.mean, 0.1)
      self.assertEqual((found.low, found.high, found.verdict), (None, None, "unclear"))

  def test_no_gain_exceeds_what_accuracies_can_differ(self):
    found = gains.gain(np.array([-0.5, 0.4]), [0.5, 0.6], 10)
    self.assertEqual((found.low, found.high, found.verdict), (-1, 1, "unclear"))

  def test_calls_a_winner_in_at_most_one_of_twenty(self):
    # Whichever chance is larger.  The standard error of a rate is .0035.
    for sd_clients, sd_training in ((0.1, 0.001), (0.1, 0.02), (0.01, 0.02)):
      rate = _false_verdicts(40, 4, sd_clients, sd_training)
      self.assertLess(rate, 0.05 + 3 * 0.0035)
      self.assertGreater(rate, 0.01)

  def test_without_repeats_training_is_taken_for_a_gain(self):
    # That is why the control is repeated.
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(500):
      differences = rng.normal(0, 0.03) + rng.normal(0, 0.1, 40)
      wrong += gains.gain(differences, [0.5], 1).verdict != gains.UNCLEAR
    self.assertGreater(wrong / 500, 0.2)


if __name__ == "__main__":
  absltest.main()
