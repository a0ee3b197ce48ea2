"""The bound itself, on scores whose true epsilon is known; all draws are seeded."""

import math

from absl.testing import parameterized
import numpy as np
from scipy import stats

from bench import epsilon_lower_bound
from dp_clustering import privacy_calculator


def _bound(without, with_point, delta=0.01, error_rate=1e-3):
  return epsilon_lower_bound.epsilon_lower_bound(without, with_point, delta, error_rate)


class EpsilonLowerBoundTest(parameterized.TestCase):

  @parameterized.named_parameters(("moved_up", 1), ("moved_down", -1))
  def test_comes_near_the_epsilon_of_a_gaussian(self, sign):
    rng = np.random.default_rng(1)
    mu = privacy_calculator.gaussian_mu(1.0, 0.01)
    found = _bound(rng.normal(size=200_000), rng.normal(sign * mu, size=200_000))
    self.assertBetween(found.epsilon, 0.8, 1.0)

  def test_randomized_response(self):
    rng = np.random.default_rng(1)
    # Tells the truth with probability 3/4: epsilon = log 3.
    found = _bound(rng.random(20_000) < 0.25, rng.random(20_000) < 0.75, delta=0.0)
    self.assertBetween(found.epsilon, 0.9 * math.log(3), math.log(3))

  def test_is_above_the_truth_as_seldom_as_stated(self):
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(500):
      without, with_point = rng.random((2, 400)) < [[0.25], [0.75]]
      found = _bound(without, with_point, delta=0.0, error_rate=0.1)
      wrong += found.epsilon > math.log(3)
    # More than this happens once in a thousand times if the rate is exactly 0.1.
    self.assertLessEqual(wrong, stats.binom.ppf(0.999, 500, 0.1))

  def test_nothing_to_find(self):
    rng = np.random.default_rng(1)
    found = _bound(rng.normal(size=10_000), rng.normal(size=10_000), delta=0.0)
    self.assertLess(found.epsilon, 0.1)

  def test_the_choice_of_the_event_is_no_evidence(self):
    rng = np.random.default_rng(1)
    # Equal distributions: the best of many events looks unequal where it is chosen.
    wrong = sum(
        _bound(*rng.random((2, 200)), delta=0.0, error_rate=0.1).epsilon > 0
        for _ in range(500))
    self.assertLessEqual(wrong, stats.binom.ppf(0.999, 500, 0.1))

  def test_delta_is_allowed_to_leak(self):
    rng = np.random.default_rng(1)
    leaks = np.where(rng.random(100_000) < 0.01, 1.0, 0.0)
    self.assertGreater(_bound(np.zeros(100_000), leaks, delta=1e-6).epsilon, 4)
    self.assertLess(_bound(np.zeros(100_000), leaks, delta=0.01).epsilon, 0.1)

  def test_an_exception_gives_the_largest_bound_there_can_be(self):
    found = _bound(np.zeros(2000), np.full(2000, np.inf), delta=1e-6)
    self.assertEqual(found.event, "an exception")
    self.assertEqual((found.more_often, found.less_often, found.num_runs), (1500, 0, 1500))
    # 1500 of 1500 and 0 of 1500: both probabilities have closed forms.
    lowest = 0.0005 ** (1 / 1500)
    self.assertAlmostEqual(found.epsilon, math.log((lowest - 1e-6) / (1 - lowest)))

  def test_clopper_and_pearson(self):
    # Four times the same, of which the first chooses: 90 and 30 of 300.
    without, with_point = (
        np.tile(np.arange(100) < hits, 4).astype(float) for hits in (10, 30))
    found = _bound(without, with_point, delta=0.02, error_rate=0.1)
    self.assertEqual((found.more_often, found.less_often), (90, 30))
    lowest = stats.binomtest(90, 300).proportion_ci(0.9, "exact").low
    highest = stats.binomtest(30, 300).proportion_ci(0.9, "exact").high
    self.assertAlmostEqual(found.epsilon, math.log((lowest - 0.02) / highest))

  @parameterized.named_parameters(
      ("too_few_runs", [1.0] * 3, [1.0] * 3, 0.1, "scores_without"),
      ("not_as_many", [1.0] * 4, [1.0] * 5, 0.1, "scores_with"),
      ("certainty", [1.0] * 4, [1.0] * 4, 0.0, "error_rate"),
  )
  def test_refuses(self, without, with_point, error_rate, name):
    with self.assertRaisesRegex(ValueError, f"`{name}` must"):
      _bound(without, with_point, error_rate=error_rate)
