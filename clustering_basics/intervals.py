"""Intervals of differences, and what they say: better, worse or unclear.

The variance of a difference is a sum of parts, such as that of either mean, each known with some
degrees of freedom.  Where several differences are judged, their intervals hold for all of them
together.

References:
  B. L. Welch. The generalization of "Student's" problem when several different population
  variances are involved. Biometrika, 1947 (degrees of freedom of the sum).
  Olive Jean Dunn. Multiple comparisons among means. Journal of the American Statistical
  Association, 1961 (Bonferroni's correction).
"""

import math
import statistics
from typing import Iterable, Sequence

# How probable it is that the intervals of all comparisons hold.
LEVEL = 0.95
# Of fewer repetitions there is no interval: of two, it is over four times as wide as of three.
LEAST_COUNT = 3
BETTER, WORSE, UNCLEAR = "better", "worse", "unclear"


def interval(
    mean: float, parts: Iterable[tuple[float, int]], num_comparisons: int = 1
) -> tuple[float, float]:
  """Returns the ends of a mean's interval (Student's t); NaN where nothing varies.

  Args:
    parts: The parts of the variance of the mean, each with its degrees of freedom.
    num_comparisons: How many intervals hold at once with probability `LEVEL`.
  """
  from scipy import special  # It takes long to import.

  parts = [(part, degrees) for part, degrees in parts if part > 0]
  if not parts:
    return math.nan, math.nan
  variance = sum(part for part, _ in parts)
  freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)
  quantile = float(special.stdtrit(freedom, 1 - (1 - LEVEL) / (2 * num_comparisons)))
  half_width = quantile * math.sqrt(variance)
  return mean - half_width, mean + half_width


def of_means(
    first: Sequence[float], second: Sequence[float], num_comparisons: int = 1
) -> tuple[float, float]:
  """Returns the interval of `mean(first) - mean(second)`, of independent repetitions.

  It is NaN with fewer than `LEAST_COUNT` values of either.
  """
  if min(len(first), len(second)) < LEAST_COUNT:
    return math.nan, math.nan
  parts = [(statistics.variance(one) / len(one), len(one) - 1) for one in (first, second)]
  return interval(statistics.fmean(first) - statistics.fmean(second), parts, num_comparisons)


def verdict(low: float, high: float) -> str:
  """Returns what the interval of a gain says: whether it leaves out zero, and on which side."""
  return BETTER if low > 0 else WORSE if high < 0 else UNCLEAR
