"""Tests of the verdict; error rates are those of 4,000 seeded draws."""

import math

from absl.testing import parameterized
import numpy as np
from scipy import stats

from clustering_basics import intervals
from fl_clustering.three_phase import gains
from tests import nightly


def _verdict(found):
  return intervals.verdict(found.low, found.high)


def _verdicts(sd_clients, sd_control, sd_method, method_repeats, gain=0.0):
  """Returns how often a method of such a gain is called better or worse, and those gains."""
  rng = np.random.default_rng(0)
  found, num_draws = [], 4000
  for _ in range(num_draws):
    control = rng.normal(0, sd_control, 5)
    method = gain + rng.normal(0, sd_method, method_repeats + 1)
    differences = method[0] - control[0] + rng.normal(0, sd_clients, 40)
    found.append(gains.gain(differences, control, method, 1))
  return sum(_verdict(one) != intervals.UNCLEAR for one in found) / num_draws, found


class GainTest(parameterized.TestCase):

  @parameterized.parameters(
      ([0.3, 0.32, 0.35, 0.37], [0.9], "better"),
      ([3e-9, 3.2e-9, 3.5e-9, 3.7e-9], [9e-9], "better"),
      ([-0.2, -0.21, -0.19], [], "worse"), ([0, 0, 0, 0, 0], [0.5, 0.5], "unclear"),
  )
  def test_verdict(self, differences, control, expected):
    self.assertEqual(_verdict(gains.gain(np.array(differences), control, [], 1)), expected)

  def test_paired_interval_by_hand(self):
    found = gains.gain(np.array([0.1, 0.3, 0.2, 0.2]), [0.5], [], 1)
    # The standard error is sqrt(.02 / 3) / 2, the quantile t(3, .975) = 3.1824.
    self.assertAlmostEqual(found.mean, 0.2)
    self.assertAlmostEqual(found.low, 0.2 - 3.1824 * np.sqrt(0.02 / 3) / 2, places=5)
    self.assertAlmostEqual(found.high, 0.2 + 3.1824 * np.sqrt(0.02 / 3) / 2, places=5)
    self.assertEqual(_verdict(found), "better")

  def test_repeats_add_twice_their_variance(self):
    differences, repeated = np.array([0.1, 0.3, 0.2, 0.2]), [0.4, 0.5, 0.6]
    found = gains.gain(differences, repeated, [], 1)
    clients, training = 0.02 / 3 / 4, 2 * 0.01
    freedom = (clients + training) ** 2 / (clients**2 / 3 + training**2 / 2)
    self.assertBetween(freedom, 2, 3)
    # t(2.335..., .975), between the quantiles of 2 and 3 degrees.
    half = found.high - found.mean
    self.assertBetween(half / np.sqrt(clients + training), 3.1824, 4.3027)
    self.assertAlmostEqual(found.mean - found.low, half)
    self.assertEqual(_verdict(found), "unclear")

  def test_repeats_of_the_method_add_its_own_variance(self):
    differences = np.array([0.01, 0.03, 0.02, 0.02])
    found = gains.gain(differences, [0.44, 0.45, 0.46, 0.45], [0.45, 0.47], 3)
    # (variance of a mean or of one training, degrees of freedom)
    parts = [(0.0002 / 3 / 4, 3), (0.0002 / 3, 3), (0.0002, 1)]
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)
    half_width = stats.t.ppf(1 - 0.05 / 6, freedom) * np.sqrt(variance)
    self.assertAlmostEqual(found.low, 0.02 - half_width)
    self.assertAlmostEqual(found.high, 0.02 + half_width)

  def test_more_comparisons_widen_the_interval_and_hide_more(self):
    differences = np.array([0.1, 0.3, 0.2, 0.2])
    one, five = (gains.gain(differences, [0.5], [], number) for number in (1, 5))
    self.assertLess(five.low, one.low)
    self.assertGreater(five.high, one.high)
    self.assertGreater(five.detectable, one.detectable)

  def _assert_no_interval(self, found):
    self.assertTrue(math.isnan(found.low) and math.isnan(found.high), found)
    self.assertEqual(_verdict(found), "unclear")

  def test_one_client_and_equal_differences_do_not_say_how_much_they_vary(self):
    found = gains.gain(np.array([0.4]), [0.5, 0.6], [], 1)
    self._assert_no_interval(found)
    # Two clients of ten examples, one more right each; up to rounding the same.
    for repeated in ([0.5], [0.5, 0.5, 0.5], [0.5, 0.501]):
      found = gains.gain(np.array([0.8 - 0.7, 0.3 - 0.2]), repeated, [], 1)
      self.assertAlmostEqual(found.mean, 0.1)
      self._assert_no_interval(found)

  def test_no_gain_exceeds_what_accuracies_can_differ(self):
    found = gains.gain(np.array([-0.5, 0.4]), [0.5, 0.6], [], 10)
    self.assertEqual((found.low, found.high), (-1, 1))

  @parameterized.product(
      chance=((0.1, 0.001), (0.1, 0.02), (0.01, 0.02)), ratio=(0.3, 1.0, 2.0, 3.0)
  )
  def test_calls_a_winner_in_at_most_one_of_twenty(self, chance, ratio):
    # By day, the least and the largest ratio.
    nightly.skip_by_day(self, ratio in (1.0, 2.0))
    # Whichever chance is larger, and however much more than the control the method varies.
    sd_clients, sd_control = chance
    rate, _ = _verdicts(sd_clients, sd_control, ratio * sd_control, 2)
    # The standard error of a rate is .0035.
    self.assertLess(rate, 0.05 + 3 * 0.0035)
    self.assertGreater(rate, 0.005)

  def test_a_method_without_repeats_is_taken_to_vary_as_the_control(self):
    self.assertLess(_verdicts(0.01, 0.02, 0.02, 0)[0], 0.05 + 3 * 0.0035)
    self.assertGreater(_verdicts(0.01, 0.02, 0.06, 0)[0], 0.15)

  def test_sees_what_it_says_that_it_would(self):
    # Of that gain, four in five.  The degrees of freedom are estimated, so it is near that.
    _, found = _verdicts(0.1, 0.01, 0.01, 2)
    detectable = float(np.median([one.detectable for one in found]))
    rate, _ = _verdicts(0.1, 0.01, 0.01, 2, gain=detectable)
    self.assertBetween(rate, 0.7, 0.9)

  def test_without_repeats_training_is_taken_for_a_gain(self):
    # That is why the control is repeated.
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(500):
      differences = rng.normal(0, 0.03) + rng.normal(0, 0.1, 40)
      wrong += _verdict(gains.gain(differences, [0.5], [], 1)) != intervals.UNCLEAR
    self.assertGreater(wrong / 500, 0.2)
