"""Tests of exact draws.

Random bits are seeded here, so every test always draws the same.
"""

import fractions
import io
import itertools
import math
from unittest import mock

from absl.testing import parameterized
import numpy as np
from scipy import stats

from dp_clustering import exact_sampler

# floor(exp(-1) 2^128), from the digits of e.
_INVERSE_OF_E = 125182886983370532117250726298150828301


def _seeded(seed):
  """Returns a function that returns repeatable bytes."""
  return np.random.default_rng(seed).bytes


def _one(unused_index):
  return fractions.Fraction(1)


def _bits(number):
  """Returns a function that returns the bytes of a number of 128 bits, the higher half first."""
  words = np.array([number >> 64, number & (2**64 - 1)], np.uint64)
  return io.BytesIO(words.tobytes()).read


def _p_value(draws, scale):
  """Returns the p-value of draws against the definition; rare values are put together."""
  values = np.arange(-math.ceil(8 * scale), math.ceil(8 * scale) + 1)
  weights = np.exp(-0.5 * (values / scale) ** 2)
  expected = len(draws) * weights / weights.sum()
  observed = np.bincount(draws - values[0], minlength=len(values))
  frequent = expected > 20
  rest = expected[~frequent].sum()
  if rest < 1:
    return stats.chisquare(
        observed[frequent], expected[frequent] * observed[frequent].sum() / expected[frequent].sum()
    ).pvalue
  return stats.chisquare(
      [*observed[frequent], observed[~frequent].sum()], [*expected[frequent], rest]
  ).pvalue


class DecisionTest(parameterized.TestCase):

  def test_the_constant_is_right(self):
    # Of the alternating series of exp(-1), two partial sums enclose it.
    terms = [fractions.Fraction((-1) ** i, math.factorial(i)) for i in range(60)]
    bounds = sum(terms), sum(terms[:-1])
    self.assertLess(fractions.Fraction(_INVERSE_OF_E, 2**128), min(bounds))
    self.assertLess(max(bounds), fractions.Fraction(_INVERSE_OF_E + 1, 2**128))

  @parameterized.parameters((-(2**50), True), (-1, True), (1, False), (2**50, False))
  def test_takes_more_bits_where_the_first_do_not_decide(self, offset, is_below):
    found = exact_sampler.is_below_exp(np.ones(1), _one, _bits(_INVERSE_OF_E + offset))
    self.assertEqual(found.tolist(), [is_below])

  @parameterized.parameters((-1, True), (1, False))
  def test_rounding_of_the_exponent_decides_nothing(self, offset, is_below):
    # The last word of 64 bits that is certain, and a float exponent that is wrong by 2^-48.
    word = (_INVERSE_OF_E >> 64) + offset
    for error in (-(2.0**-48), 2.0**-48):
      found = exact_sampler.is_below_exp(np.ones(1) + error, _one, _bits(word << 64))
      self.assertEqual(found.tolist(), [is_below])

  @parameterized.parameters(0.05, 0.7, 3.2, 1e6, 2.0**57)
  def test_floating_point_decides_as_exact_arithmetic_does(self, scale):
    fast = exact_sampler.discrete_gaussian(300, scale, _seeded(1))
    with mock.patch.object(exact_sampler, "SLACK", 2.0):
      exact = exact_sampler.discrete_gaussian(300, scale, _seeded(1))
    np.testing.assert_array_equal(fast, exact)

  def test_exponents_too_large_for_any_float(self):
    found = exact_sampler.is_below_exp(
        np.full(1, 1e12), lambda index: fractions.Fraction(10**12), _bits(1)
    )
    self.assertEqual(found.tolist(), [False])


class DistributionTest(parameterized.TestCase):

  @parameterized.parameters(0.3, 0.5, 0.999, 1.0, 1.5, 3.2, 20.0)
  def test_is_that_of_the_definition(self, scale):
    draws = exact_sampler.discrete_gaussian(400_000, scale, _seeded(2))
    self.assertGreater(_p_value(draws, scale), 1e-4)

  @parameterized.parameters(1e3, 4.2247 * 2**20, 2.0**57)
  def test_large_scales(self, scale):
    draws = exact_sampler.discrete_gaussian(200_000, scale, _seeded(3))
    self.assertGreater(stats.kstest(draws / scale, "norm").pvalue, 1e-4)
    # The lowest bits are uniform, too.
    self.assertGreater(stats.chisquare(np.bincount(draws % 8, minlength=8)).pvalue, 1e-4)

  def test_draws_are_independent(self):
    draws = exact_sampler.discrete_gaussian(250_000, 100.0, _seeded(4)) / 100
    for lag in (1, 2, 3):
      self.assertLess(abs((draws[lag:] * draws[:-lag]).mean()), 8e-3)  # Four standard deviations.

  @parameterized.parameters((15, False), (16, True))
  def test_what_does_not_fit_into_64_bits_is_refused(self, multiple, is_refused):
    # Zeros, which are below every probability, but for the word that ends the multiples.
    calls = itertools.count()
    end = 2 + multiple

    def random_bytes(num_bytes):
      return (b"\xff" if next(calls) == end else b"\x00") * num_bytes

    if is_refused:
      with self.assertRaises(OverflowError):
        exact_sampler.discrete_gaussian(1, 2.0**58, random_bytes)
    else:
      (draw,) = exact_sampler.discrete_gaussian(1, 2.0**58, random_bytes)
      self.assertEqual(draw, multiple * (2**58 + 1))

  @parameterized.parameters(0, 1, 7, 100_000)
  def test_as_many_as_asked_for(self, size):
    draws = exact_sampler.discrete_gaussian(size, 2.0)
    self.assertEqual((draws.shape, draws.dtype), ((size,), np.int64))
