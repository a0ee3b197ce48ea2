"""Exact draws of the discrete Gaussian, many at a time, from cryptographic random bits.

The algorithm is that of Canonne, Kamath and Steinke ("The Discrete Gaussian for Differential
Privacy", NeurIPS 2020, https://arxiv.org/abs/2004.00010, algorithms 2 and 3): draws of a discrete
Laplace distribution, of which some are rejected.  It decides nothing but whether a uniform number
is below exp(-x) for a rational x.

Such a decision is made in floating point where that is safe: the uniform number's first 64 bits
are compared with the computed exp(-x), and unless they are within `SLACK`, rounding can't have
changed the outcome.  The others, one in 10^13, are made in decimal arithmetic with as many digits,
and as many more random bits, as it takes.  So the draws are exact, though nearly all of them take
a few instructions of vectors.

How long it takes depends on the draws, as with every sampler that rejects.
"""

import decimal
import fractions
import math
import os
from typing import Callable

import numpy as np

# Candidates at a time, whose arrays stay in a core's cache, and how many a draw takes, about.
_BLOCK = 2**14
_CANDIDATES_PER_DRAW = 3
_BITS = 64
# More than how far a computed exp(-x) may be from the true one.  The exponents are u / t in [0, 1),
# one, and (y - s)^2 / 2 for y = |Y| / scale and an s in [0, 1].  With float64's rounding of 2^-53,
# the last one is wrong by less than 2^-50 (y + 1)^2, and exp(-(y - s)^2 / 2) (y + 1)^2 is below 6.
# That is below 2^-47; the others, exp itself and the conversion of the bits are more exact.
SLACK = 2.0**-45

RandomBytes = Callable[[int], bytes]


def _random_words(size: int, random_bytes: RandomBytes) -> np.ndarray:
  return np.frombuffer(random_bytes(_BITS // 8 * size), np.uint64)


def _uniform(bound: int, size: int, random_bytes: RandomBytes) -> np.ndarray:
  """Returns integers in [0, bound), int64 of shape (size,)."""
  mask = np.uint64(2 ** (bound - 1).bit_length() - 1)
  values = np.zeros(size, np.int64)
  missing = np.arange(size)
  while len(missing):
    values[missing] = _random_words(len(missing), random_bytes) & mask
    missing = missing[values[missing] >= bound]
  return values


def _is_below_exactly(
    word: int, exponent: fractions.Fraction, random_bytes: RandomBytes
) -> bool:
  """Returns whether a uniform number that begins with the bits of `word` is below exp(-exponent).

  It draws further bits of the number, and computes with more digits, until that is certain.
  """
  num_bits = _BITS
  while True:
    digits = num_bits // 2  # More than the number has: a bit is 0.3 digits.
    context = decimal.Context(prec=digits, rounding=decimal.ROUND_HALF_EVEN)
    quotient = context.divide(
        decimal.Decimal(-exponent.numerator), decimal.Decimal(exponent.denominator)
    )
    limit = fractions.Fraction(context.exp(quotient))
    # The quotient is off by one part in 10^(digits - 1), and so is its exponential.
    error = (2 + exponent) * limit / 10 ** (digits - 1)
    if fractions.Fraction(word + 1, 2**num_bits) <= limit - error:
      return True
    if fractions.Fraction(word, 2**num_bits) >= limit + error:
      return False
    word = (word << _BITS) + int(_random_words(1, random_bytes)[0])
    num_bits += _BITS


def is_below_exp(
    exponents: np.ndarray, exact_exponent: Callable[[int], fractions.Fraction],
    random_bytes: RandomBytes = os.urandom,
) -> np.ndarray:
  """Returns, for every x, True with a probability of exp(-x), as a mask of shape (n,).

  Args:
    exponents: The x, as near as `SLACK` says; float64 of shape (n,).
    exact_exponent: Returns an x by its index.
  """
  words = _random_words(len(exponents), random_bytes)
  differences = words * 2.0**-_BITS - np.exp(-exponents)
  is_below = differences < 0
  for index in np.flatnonzero(np.abs(differences) <= SLACK):
    is_below[index] = _is_below_exactly(int(words[index]), exact_exponent(index), random_bytes)
  return is_below


def _geometric(size: int, random_bytes: RandomBytes) -> np.ndarray:
  """Returns v >= 0 with probabilities proportional to exp(-v), int64 of shape (size,)."""
  values = np.zeros(size, np.int64)
  going_on = np.arange(size)
  while len(going_on):
    is_more = is_below_exp(
        np.ones(len(going_on)), lambda index: fractions.Fraction(1), random_bytes
    )
    going_on = going_on[is_more]
    values[going_on] += 1
  return values


def _accepted(size: int, scale: float, random_bytes: RandomBytes) -> np.ndarray:
  """Returns what is left of `size` draws of the discrete Laplace distribution, int64."""
  # P(Y) is proportional to exp(-|Y| / width).
  width = math.floor(scale) + 1
  low = _uniform(width, size, random_bytes)
  low = low[is_below_exp(
      low / width, lambda index: fractions.Fraction(int(low[index]), width), random_bytes
  )]
  high = _geometric(len(low), random_bytes)
  is_negative = _uniform(2, len(low), random_bytes) == 1
  is_one = ~(is_negative & (low == 0) & (high == 0))  # Zero has one sign only.
  low, high, is_negative = low[is_one], high[is_one], is_negative[is_one]

  variance = fractions.Fraction(scale) ** 2
  center = variance / width

  def exact_exponent(index: int) -> fractions.Fraction:
    return (int(low[index]) + width * int(high[index]) - center) ** 2 / (2 * variance)

  # In units of the scale, where nothing is too large for float64.
  distances = low / scale + high * (width / scale) - float(center / fractions.Fraction(scale))
  is_kept = is_below_exp(distances**2 / 2, exact_exponent, random_bytes)
  low, high, is_negative = low[is_kept], high[is_kept], is_negative[is_kept]
  if len(high) and width * int(high.max()) >= 2**62:  # Once in e^120 draws.
    raise OverflowError(f"a draw of scale {scale:g} does not fit into 64 bits.")
  values = low + width * high
  return np.where(is_negative, -values, values)


def discrete_gaussian(
    size: int, scale: float, random_bytes: RandomBytes = os.urandom
) -> np.ndarray:
  """Returns independent z with probabilities proportional to exp(-z^2 / (2 scale^2)).

  Args:
    size: The number of draws.
    scale: In [1e-100, 2^58].
    random_bytes: Returns so many independent uniform bytes.

  Returns:
    int64 of shape (size,).
  """
  draws = np.zeros(size, np.int64)
  start = 0
  while start < size:
    missing = size - start
    block = min(_BLOCK, _CANDIDATES_PER_DRAW * missing + _BITS)
    found = _accepted(block, scale, random_bytes)[:missing]
    draws[start : start + len(found)] = found
    start += len(found)
  return draws
