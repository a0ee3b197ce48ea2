"""Contract and distribution of every source of noise.

Tests of secure noise can't be seeded: each of them fails by chance less than once in
ten million runs.  Tests of seeded noise always draw the same.
"""

import math

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
from scipy import special
from scipy import stats

from dp_clustering import noise
from tests import nightly

_SECURE_ERROR_RATE = 1e-7
_SOURCES = (
    ("secure", noise.SecureNoise()),
    ("seeded", noise.SeededNoise(1)),
    ("none", noise.NoNoise()),
)


def _probabilities(values, scale):
  """Probabilities of integers under the discrete Gaussian, from its definition."""
  support = np.arange(-math.ceil(40 * scale), math.ceil(40 * scale) + 1)
  return np.exp(-0.5 * (values / scale) ** 2) / np.exp(-0.5 * (support / scale) ** 2).sum()


def _chi_square_p_value(draws, scale):
  """p-value of draws against the definition; rare values are put together."""
  values = np.arange(-math.ceil(8 * scale), math.ceil(8 * scale) + 1)
  expected = len(draws) * _probabilities(values, scale)
  observed = np.bincount(draws - values[0], minlength=len(values))
  frequent = expected > 20
  observed = [*observed[frequent], observed[~frequent].sum()]
  expected = [*expected[frequent], len(draws) - expected[frequent].sum()]
  if expected[-1] < 1:  # Nothing is rare.
    observed, expected = observed[:-1], expected[:-1]
    expected = np.array(expected) * (sum(observed) / sum(expected))
  return stats.chisquare(observed, expected).pvalue


def _distance(draws, cdf):
  """Kolmogorov's distance of integer draws from a distribution on integers."""
  values, counts = np.unique(draws, return_counts=True)
  above = np.cumsum(counts) / len(draws)
  below = above - counts / len(draws)
  return max(abs(above - cdf(values)).max(), abs(below - cdf(values - 1)).max())


def _distance_bound(num_draws, error_rate):
  """Dvoretzky, Kiefer, Wolfowitz, with the constant of Massart (1990)."""
  return math.sqrt(math.log(2 / error_rate) / (2 * num_draws))


class SourceTest(parameterized.TestCase):

  @parameterized.named_parameters(
      (f"{name}_{case}", source, shape)
      for name, source in _SOURCES
      for case, shape in (
          ("scalar", ()), ("number", 3), ("empty", (0, 4)), ("matrix", (2, 3)),
          ("many", (3, 4001)),
      )
  )
  def test_shape_and_type(self, source, shape):
    draws = source.discrete_gaussian(shape, 2.5)
    self.assertEqual(draws.dtype, np.int64)
    self.assertEqual(draws.shape, np.zeros(shape).shape)

  @parameterized.named_parameters(
      (f"{name}_{case}", source, scale)
      for name, source in _SOURCES[:2]
      for case, scale in (
          ("zero", 0.0), ("negative", -1.0), ("nan", math.nan), ("infinite", math.inf),
          ("below_least", np.nextafter(1e-100, 0)),
          ("beyond_int64", np.nextafter(2.0**58, math.inf)),
      )
  )
  def test_refuses_the_scale(self, source, scale):
    with self.assertRaisesRegex(ValueError, "^`scale` must be"):
      source.discrete_gaussian(3, scale)

  @parameterized.named_parameters(*_SOURCES[:2])
  def test_takes_the_least_and_the_largest_scale(self, source):
    np.testing.assert_array_equal(source.discrete_gaussian(3, 1e-100), 0)
    self.assertGreater(np.abs(source.discrete_gaussian(99, 2.0**58)).max(), 2**57)

  @parameterized.named_parameters(*_SOURCES)
  def test_leaves_the_global_generator_alone(self, source):
    np.random.seed(5)
    source.discrete_gaussian(10, 3.0)
    self.assertEqual(np.random.randint(10**9), np.random.RandomState(5).randint(10**9))

  def test_only_secure_noise_is_private_and_the_others_say_so(self):
    for name, source in _SOURCES:
      self.assertEqual(source.is_private, name == "secure")
      self.assertEqual("NOT private" in source.description, name != "secure")

  def test_build_noise_source(self):
    self.assertIsInstance(noise.build_noise_source(1.0), noise.SecureNoise)
    self.assertIsInstance(noise.build_noise_source(1.0, 0), noise.SeededNoise)
    self.assertIsInstance(noise.build_noise_source(math.inf), noise.NoNoise)
    self.assertIsInstance(noise.build_noise_source(math.inf, 0), noise.NoNoise)


class SecureNoiseTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("below_one", 0.6), ("a_few", 3.2), ("fraction_of_a_step", 0.05))
  def test_distribution(self, scale):
    source = noise.SecureNoise()
    # Few at a time: by one thread.
    draws = np.concatenate([source.discrete_gaussian(1000, scale) for _ in range(20)])
    cumulated = lambda v: _probabilities(np.arange(-400, 401), scale).cumsum()[v + 400]
    self.assertLess(_distance(draws, cumulated), _distance_bound(20_000, _SECURE_ERROR_RATE))

  def test_distribution_of_the_scale_in_use(self):
    scale = 4.2247 * 2**20
    draws = noise.SecureNoise().discrete_gaussian((1000, 100), scale).ravel()
    # Half a step to the right, where the sum over integers is the integral.
    cumulated = lambda values: special.ndtr((values + 0.5) / scale)
    self.assertLess(_distance(draws, cumulated), _distance_bound(100_000, _SECURE_ERROR_RATE))

  @nightly.only  # By day, `test_distribution_of_the_scale_in_use` does, of fewer draws.
  def test_the_standard_deviation(self):
    # Of 10^6 draws: outside of .5% with probability below 1e-11.
    scale = 4.2247 * 2**20
    draws = noise.SecureNoise().discrete_gaussian(10**6, scale)
    self.assertBetween(draws.std() / scale, 0.995, 1.005)

  def test_no_draw_is_made_twice(self):
    source = noise.SecureNoise()
    # At this scale, two of 20,000 independent draws agree once in 10^9 runs.
    draws = [source.discrete_gaussian(10_000, 2.0**57) for _ in range(2)]
    self.assertLen(np.unique(np.concatenate(draws)), 20_000)


class SeededNoiseTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("fraction_of_a_step", 0.2), ("below_one", 0.7), ("a_few", 3.2),
      ("large_table", 70.0),
  )
  def test_distribution(self, scale):
    draws = noise.SeededNoise(3).discrete_gaussian(500_000, scale)
    self.assertGreater(_chi_square_p_value(draws, scale), 0.001)

  @parameterized.named_parameters(
      ("above_the_table", 1001.0), ("in_use", 4.2247 * 2**20))
  def test_distribution_of_large_scales(self, scale):
    draws = noise.SeededNoise(3).discrete_gaussian(500_000, scale)
    cumulated = lambda values: special.ndtr((values + 0.5) / scale)
    self.assertLess(_distance(draws, cumulated), _distance_bound(500_000, 0.001))

  def test_a_rounded_gaussian_is_the_discrete_one_where_it_takes_its_place(self):
    scale = noise.LARGEST_TABLE_SCALE
    values = np.arange(-math.ceil(10 * scale), math.ceil(10 * scale) + 1)
    rounded = special.ndtr((values + 0.5) / scale) - special.ndtr((values - 0.5) / scale)
    distance = abs(rounded - _probabilities(values, scale)).sum() / 2
    self.assertLess(distance, 1e-6)

  def test_draws_are_a_function_of_the_seed(self):
    draws = [noise.SeededNoise(seed).discrete_gaussian(50, 100.0) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(draws[0], draws[1])
    self.assertFalse(np.array_equal(draws[0], draws[2]))

  def test_draws_go_on(self):
    source = noise.SeededNoise(1)
    first = source.discrete_gaussian(50, 100.0)
    self.assertFalse(np.array_equal(first, source.discrete_gaussian(50, 100.0)))

  def test_draws_are_not_those_of_the_public_generator_of_the_same_seed(self):
    # Hyperplanes and split directions come from `default_rng(random_state)`.
    public = np.rint(np.random.default_rng(7).normal(0.0, 1e6, 50))
    self.assertFalse(np.array_equal(
        public, noise.SeededNoise(7).discrete_gaussian(50, 1e6)))

  @parameterized.named_parameters(("negative", -1), ("float", 1.0), ("none", None))
  def test_refuses_the_seed(self, seed):
    with self.assertRaisesRegex(ValueError, "`seed` must be an integer >= 0"):
      noise.SeededNoise(seed)


class NoNoiseTest(absltest.TestCase):

  def test_zeros_whatever_the_scale(self):
    self.assertFalse(noise.NoNoise().discrete_gaussian((3, 2), 0.0).any())
