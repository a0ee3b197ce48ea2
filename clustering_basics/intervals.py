"""Intervals of differences, and what they say: better, worse or unclear.

The variance of a difference is a sum of parts, such as that of either mean, each known with some
degrees of freedom.  Where several differences are judged, their intervals hold for all of them
together.

Folds of the same examples are no independent repetitions: with k folds, any two train on k - 2 parts
in common, so the variance of their mean is larger than the spread of the values tells.  It is taken
to be s^2 (1 / n + 1 / (k - 1)) instead of s^2 / n, for n values in all: 1 / (k - 1) is how many
examples test for each that does not.  Validation rows count as if they trained; with the default
share of them (0.1), intervals that leave them out would be up to 5% wider.

References:
  B. L. Welch. The generalization of "Student's" problem when several different population
  variances are involved. Biometrika, 1947 (degrees of freedom of the sum).
  Olive Jean Dunn. Multiple comparisons among means. Journal of the American Statistical
  Association, 1961 (Bonferroni's correction).
  Claude Nadeau, Yoshua Bengio. Inference for the Generalization Error. Machine Learning 52,
  2003, section 5 (the corrected resampled t-test).
  Remco R. Bouckaert, Eibe Frank. Evaluating the Replicability of Significance Tests for
  Comparing Learning Algorithms. PAKDD 2004, section 3 (the same for repeated k folds).
"""

import math
import statistics
from typing import Iterable, Sequence

# How probable it is that the intervals of all comparisons hold.
LEVEL = 0.95
# Of fewer repetitions there is no interval: of two, it is over four times as wide as of three.
LEAST_COUNT = 3
# How probable it is that a difference is told from chance that is said to be detectable.
_POWER = 0.8
VERDICTS = BETTER, UNCLEAR, WORSE = "better", "unclear", "worse"

# Equal values come out this close to each other, relative to the largest that they come from.
_ROUNDING = 1e-12


def _half_width_and_detectable(
    parts: Iterable[tuple[float, int]], num_comparisons: int
) -> tuple[float, float]:
  from scipy import special  # It takes long to import.

  parts = [(part, degrees) for part, degrees in parts if part > 0]
  if not parts:
    return math.nan, math.nan
  variance = sum(part for part, _ in parts)
  freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)
  quantile, power = (
      float(special.stdtrit(freedom, share))
      for share in (1 - (1 - LEVEL) / (2 * num_comparisons), _POWER)
  )
  half_width = quantile * math.sqrt(variance)
  return half_width, half_width + power * math.sqrt(variance)


def interval(
    mean: float, parts: Iterable[tuple[float, int]], num_comparisons: int = 1
) -> tuple[float, float]:
  """Returns the ends of a mean's interval (Student's t); NaN where nothing varies.

  Args:
    parts: The parts of the variance of the mean, each with its degrees of freedom.
    num_comparisons: How many intervals hold at once with probability `LEVEL`.
  """
  half_width, _ = _half_width_and_detectable(parts, num_comparisons)
  return mean - half_width, mean + half_width


def detectable(parts: Iterable[tuple[float, int]], num_comparisons: int = 1) -> float:
  """Returns the least true mean whose interval leaves out zero in four of five runs."""
  return _half_width_and_detectable(parts, num_comparisons)[1]


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


def of_values(
    values: Sequence[float], num_comparisons: int = 1, num_folds: int | None = None,
    largest: float = 0.0,
) -> tuple[float, float]:
  """Returns the interval of the mean of repetitions.

  It is NaN with fewer than `LEAST_COUNT` values, and of values that are all the same, which say
  nothing of chance.

  Args:
    num_folds: How many folds there are, of which the values are; None if they are independent.
    largest: Of values that are differences, the largest of the numbers that were subtracted; it
      says which differences may be rounding alone.
  """
  largest = largest or max(map(abs, values), default=0.0)
  if len(values) < LEAST_COUNT or max(values) - min(values) <= _ROUNDING * largest:
    return math.nan, math.nan
  variance = statistics.variance(values)
  part = variance / len(values) + (variance / (num_folds - 1) if num_folds else 0.0)
  return interval(statistics.fmean(values), [(part, len(values) - 1)], num_comparisons)


def of_pairs(
    first: Sequence[float], second: Sequence[float], num_comparisons: int = 1,
    num_folds: int | None = None,
) -> tuple[float, float]:
  """Returns the interval of `mean(first) - mean(second)`, of repetitions in pairs, as `of_values`."""
  differences = [one - other for one, other in zip(first, second, strict=True)]
  largest = max(map(abs, [*first, *second]), default=0.0)
  return of_values(differences, num_comparisons, num_folds, largest)


def verdict(low: float, high: float) -> str:
  """Returns what the interval of a gain says: whether it leaves out zero, and on which side."""
  return BETTER if low > 0 else WORSE if high < 0 else UNCLEAR
