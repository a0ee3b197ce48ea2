import math

from absl.testing import parameterized
import dp_accounting
import mpmath
import numpy as np

from dp_clustering import clustering_params
from dp_clustering import privacy_calculator

# Steps of the grid to a unit of sensitivity, as in the private sums.
_GRID = 2**20

_BUDGETS = (
    ("spec", 1.0, 1e-6),
    ("small", 0.01, 1e-9),
    ("smaller_than_delta", 1e-3, 0.1),
    ("large", 10.0, 1e-6),
    ("very_large", 1000.0, 1e-6),
    ("tiny_delta", 1.0, 1e-300),
    ("delta_almost_one", 5.0, 0.999),
)


def _exact_delta(epsilon, mu):
  """The same with so many digits that what cancels doesn't matter."""
  digits = 40 + 3 * math.ceil(abs(math.log10(mu)))
  with mpmath.workdps(digits):
    epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
    root = mpmath.sqrt(2)
    low, high = (epsilon / mu - mu / 2) / root, (epsilon / mu + mu / 2) / root
    return (mpmath.erfc(low) - mpmath.exp(epsilon) * mpmath.erfc(high)) / 2


def _discrete_delta(epsilon, shift, scale):
  """Exact delta of the discrete Gaussian on sums that differ by `shift` steps.

  The sum of max(0, p(z) - e^epsilon p(z + shift)) over all integers z; the terms are
  positive from a threshold on, and vanish long before 13 scales.
  """
  first = math.ceil(epsilon * scale**2 / shift - shift / 2)
  total = 0.0
  for start in range(first, math.ceil(13 * scale), 2**20):
    z = np.arange(start, min(start + 2**20, math.ceil(13 * scale)), dtype=np.float64)
    total += np.sum(
        np.exp(-0.5 * (z / scale) ** 2)
        - np.exp(epsilon - 0.5 * ((z + shift) / scale) ** 2)
    )
  # Poisson's summation formula: equal to the integral up to e^(-2 pi^2 scale^2).
  return total / (scale * math.sqrt(2 * math.pi))


def _discrete_delta_of_two(epsilon, shift, scale):
  """The same for two sums at once, over all pairs of integers."""
  z = np.arange(-math.ceil(11 * scale), math.ceil(11 * scale) + 1)
  square = z[:, np.newaxis] ** 2 + z**2
  shifted = (z[:, np.newaxis] - shift[0]) ** 2 + (z - shift[1]) ** 2
  p = np.exp(-0.5 * square / scale**2)
  return np.maximum(p - np.exp(epsilon - 0.5 * shifted / scale**2), 0).sum() / p.sum()


class CalibrationTest(parameterized.TestCase):

  def test_the_figure_of_the_literature(self):
    self.assertAlmostEqual(1 / privacy_calculator.gaussian_mu(1.0, 1e-6), 4.2247, places=4)

  @parameterized.parameters(
      1e-300, 1e-100, 1e-30, 1e-20, 1e-15, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 0.01, 0.1, 0.5, 1,
      2, 5, 10, 100, 1e3, 1e4, 1e6, 1e9, 1e12, 1e16, 1e30, 1e100, 1e200, 1.7e308,
  )
  def test_spends_exactly_delta_at_any_order_of_magnitude(self, epsilon):
    for delta in (
        1e-300, 1e-200, 1e-100, 1e-50, 1e-30, 1e-20, 1e-15, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4,
        0.01, 0.1, 0.5, 0.51, 0.9, 0.99, 1 - 1e-6, 1 - 1e-12, 1 - 2**-53,
    ):
      mu = privacy_calculator.gaussian_mu(epsilon, delta)
      self.assertLessEqual(_exact_delta(epsilon, mu), delta)
      self.assertGreater(_exact_delta(epsilon, mu * (1 + 2e-8)), delta)

  @parameterized.named_parameters(*_BUDGETS)
  def test_epsilon_is_the_inverse_of_mu(self, epsilon, delta):
    mu = privacy_calculator.gaussian_mu(epsilon, delta)
    again = privacy_calculator.gaussian_epsilon(mu, delta)
    self.assertLessEqual(again, epsilon)
    self.assertAlmostEqual(again / epsilon, 1, delta=1e-5)

  def test_epsilon_may_be_zero_or_infinite(self):
    for mu in (0.0, 1e-7):  # Nothing, or less than delta pays for.
      self.assertEqual(privacy_calculator.gaussian_epsilon(mu, 1e-6), 0.0)
    self.assertEqual(privacy_calculator.gaussian_mu(math.inf, 1e-6), math.inf)
    self.assertEqual(privacy_calculator.gaussian_epsilon(math.inf, 1e-6), math.inf)

  @parameterized.parameters(1e154, 1e200, 1e300)
  def test_an_epsilon_that_floats_do_not_reach(self, mu):
    # About mu^2 / 2, which is 5e307 for the first one.
    for delta in (5e-324, 1e-6, 0.5, 0.9, 1 - 2**-53):
      found = privacy_calculator.gaussian_epsilon(mu, delta)
      self.assertAlmostEqual(found / (mu * (mu / 2)) if mu < 1e155 else 1.0, 1.0)
      self.assertEqual(found == math.inf, mu > 1e155)

  def test_refuses(self):
    for mu in (-1.0, math.nan, -math.inf):
      with self.assertRaisesRegex(ValueError, "`mu`"):
        privacy_calculator.gaussian_epsilon(mu, 1e-6)
    for epsilon, delta, name in (
        (0.0, 1e-6, "epsilon"), (math.nan, 1e-6, "epsilon"), (1.0, 0.0, "delta"),
        (1.0, 1.0, "delta"),
    ):
      with self.assertRaisesRegex(ValueError, f"`{name}`"):
        privacy_calculator.gaussian_mu(epsilon, delta)


class DiscreteNoiseTest(parameterized.TestCase):
  """The continuous accounting holds for the noise that is drawn."""

  @parameterized.named_parameters(
      ("spec", 1.0, 1e-6), ("large", 10.0, 1e-6), ("very_large", 1000.0, 1e-6),
      ("tiny_delta", 1.0, 1e-12),
  )
  def test_exact_delta_on_the_grid_is_within_the_budget(self, epsilon, delta):
    mu = privacy_calculator.gaussian_mu(epsilon, delta)
    discrete = _discrete_delta(epsilon, _GRID, _GRID / mu)
    self.assertBetween(discrete / delta, 1 - 1e-4, 1)

  @parameterized.product(
      shift=[(5, 0), (3, 4), (1, 0), (1, 1), (-2, 7)], scale=[2.0, 4.0, 8.0, 16.0])
  def test_excess_falls_with_the_square_of_the_step(self, shift, scale):
    epsilon = privacy_calculator.gaussian_epsilon(math.hypot(*shift) / scale, 1e-6)
    excess = _discrete_delta_of_two(epsilon, shift, scale) / 1e-6 - 1
    self.assertLess(abs(excess), 2 / scale**2)


def _gaussian_events(multipliers):
  return dp_accounting.ComposedDpEvent(
      [dp_accounting.GaussianDpEvent(multiplier) for multiplier in multipliers])


def _unequal_multipliers(epsilon, delta):
  """A sum and 21 counts that spend the whole budget."""
  mu = privacy_calculator.gaussian_mu(epsilon, delta)
  shares = np.array([0.6, *np.linspace(1, 3, 21) * 0.4 / 42])
  return 1 / (mu * np.sqrt(shares))


class VerifyTest(parameterized.TestCase):

  @parameterized.parameters(0.1, 1.0, 10.0, 100.0)
  def test_the_second_accountant_agrees(self, epsilon):
    event = _gaussian_events(_unequal_multipliers(epsilon, 1e-6))
    accounted = privacy_calculator.verify(event, epsilon, 1e-6)
    self.assertAlmostEqual(accounted / epsilon, 1, delta=1e-3)
    self.assertEqual(privacy_calculator.verify(_gaussian_events([]), 1.0, 1e-6), 0.0)

  def test_as_many_equal_releases_as_a_long_training_has(self):
    for epsilon in (1.0, 8.0):
      multiplier = math.sqrt(2000) / privacy_calculator.gaussian_mu(epsilon, 1e-6)
      accounted = privacy_calculator.verify(_gaussian_events(2000 * [multiplier]), epsilon, 1e-6)
      self.assertAlmostEqual(accounted / epsilon, 1, delta=1e-3)

  def test_disagreement_names_both_numbers(self):
    event = _gaussian_events(0.99 * _unequal_multipliers(1.0, 1e-6))
    with self.assertRaisesRegex(RuntimeError, r"epsilon = 1\.01\d+ .*epsilon = 1 "):
      privacy_calculator.verify(event, 1.0, 1e-6)

  @parameterized.parameters(1e-13, 1e-20, 1e-300, 1 - 1e-9, 1 - 1e-16)
  def test_second_accountant_at_an_extreme_delta(self, delta):
    for epsilon in (0.1, 1.0, 100.0):
      multiplier = 1 / privacy_calculator.gaussian_mu(epsilon, delta)
      privacy_calculator.verify(_gaussian_events([multiplier]), epsilon, delta)
      with self.assertRaisesRegex(RuntimeError, "dp_accounting finds"):
        privacy_calculator.verify(_gaussian_events([0.9 * multiplier]), epsilon, delta)

  def test_epsilon_at_and_beyond_the_end_of_the_second_accountant(self):
    multiplier = 1 / privacy_calculator.gaussian_mu(499.9, 1 - 1e-16)
    for epsilon, delta, multiplier in (
        (math.inf, 1e-6, 0.0), (501.0, 1e-6, 0.0), (499.9, 1 - 1e-16, multiplier)
    ):
      event = _gaussian_events([multiplier])
      self.assertIsNone(privacy_calculator.verify(event, epsilon, delta))


class LshNoiseTest(parameterized.TestCase):

  def _mu(self, noise, max_depth):
    return math.hypot(
        1 / noise.sum_noise_multiplier, math.sqrt(max_depth + 1) / noise.count_std)

  @parameterized.named_parameters(
      ("default", None, None, 20),
      ("multipliers", None, clustering_params.PrivacyCalculatorMultiplier(3.0, 0.5), 5),
      ("split", clustering_params.PrivacyBudgetSplit(0.7, 0.3), None, 20),
      ("unused_budget", clustering_params.PrivacyBudgetSplit(0.2, 0.2), None, 20),
      ("no_levels", None, None, 0),
  )
  def test_spends_the_whole_budget(self, split, multipliers, max_depth):
    param = clustering_params.DifferentialPrivacyParam(0.5, 1e-7)
    noise = privacy_calculator.lsh_noise(param, split, multipliers, max_depth)
    budget = privacy_calculator.gaussian_mu(0.5, 1e-7)
    self.assertAlmostEqual(self._mu(noise, max_depth) / budget, 1, places=12)

  def test_default_at_the_depth_of_the_source(self):
    param = clustering_params.DifferentialPrivacyParam(1.0, 1e-6)
    noise = privacy_calculator.lsh_noise(param, None, None, 20)
    # 4.2247 sqrt(1 + 21 / 400), and 20 times that.
    self.assertAlmostEqual(noise.sum_noise_multiplier, 4.3342, places=4)
    self.assertAlmostEqual(noise.count_std, 86.683, places=3)

  def test_multipliers_keep_their_ratio(self):
    param = clustering_params.DifferentialPrivacyParam(1.0, 1e-6)
    multipliers = clustering_params.PrivacyCalculatorMultiplier(3.0, 7.0)
    noise = privacy_calculator.lsh_noise(param, None, multipliers, 10)
    self.assertAlmostEqual(noise.count_std / noise.sum_noise_multiplier, 7 / 3)
    with self.assertRaisesRegex(ValueError, "`multipliers`"):
      split = clustering_params.PrivacyBudgetSplit()
      privacy_calculator.lsh_noise(param, split, multipliers, 20)
    with self.assertRaisesRegex(ValueError, "`max_depth`"):
      privacy_calculator.lsh_noise(param, None, None, -1)

  def test_split_shares_mu_as_the_fractions_of_epsilon_would(self):
    param = clustering_params.DifferentialPrivacyParam(1.0, 1e-6)
    split = clustering_params.PrivacyBudgetSplit(0.8, 0.2)
    noise = privacy_calculator.lsh_noise(param, split, None, 20)
    ratio = privacy_calculator.gaussian_mu(0.8, 1e-6) / privacy_calculator.gaussian_mu(0.2, 1e-6)
    self.assertAlmostEqual(
        noise.count_std / math.sqrt(21) / noise.sum_noise_multiplier, ratio)

  def test_no_privacy_no_noise(self):
    param = clustering_params.DifferentialPrivacyParam(math.inf, 1e-6)
    noise = privacy_calculator.lsh_noise(param, None, None, 20)
    self.assertEqual(noise, privacy_calculator.LshNoise(0.0, 0.0))
