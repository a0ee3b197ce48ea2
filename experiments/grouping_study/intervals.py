"""Means with intervals, over the repetitions of a study.

A repetition is a seed, or one fold of a seed.  Seeds draw the model to start from, the order of
training and what the data don't give, such as the split over the clients, so an interval over
seeds (Student's t) is about other seeds with the same data.

Folds of one seed are no independent repetitions: with k folds, any two train on k - 2 parts in
common.  The variance of their mean is larger than the values' spread tells, and t intervals
that ignore it are too short.  So with folds the variance of the mean is s^2 (1 / n + 1 / (k - 1))
instead of s^2 / n, for n values in all: 1 / (k - 1) is how many examples test for each that does
not.  Validation rows count as if they trained.  With the default share of them (0.1), intervals
that leave them out would be up to 5% wider.

Fewer than three repetitions have no interval: of two, it is over four times as wide as of three,
and says nothing that the two values don't.  No interval reaches beyond what a value can be.

References:
  Claude Nadeau, Yoshua Bengio. Inference for the Generalization Error. Machine Learning 52,
  2003, section 5 (the corrected resampled t-test).
  Remco R. Bouckaert, Eibe Frank. Evaluating the Replicability of Significance Tests for
  Comparing Learning Algorithms. PAKDD 2004, section 3 (the same for repeated k folds).
  Olive Jean Dunn. Multiple comparisons among means. Journal of the American Statistical
  Association, 1961 (Bonferroni's correction).
"""

import dataclasses
import math
import statistics
from typing import Iterable

from clustering_basics import intervals

LEVEL = intervals.LEVEL  # That of a single run's intervals.
# Of fewer repetitions there is no interval.
LEAST_COUNT = 3
# The least and the most that they can be.
SHARES = (0.0, 1.0)
DIFFERENCES_OF_SHARES = (-1.0, 1.0)

# Equal differences in accuracy come out this close to each other.
_ROUNDING = 1e-12


@dataclasses.dataclass(frozen=True)
class Interval:
  """A mean over repetitions.

  Attributes:
    sd: The standard deviation, with n - 1 in the denominator; None for one value.
    low: Lower end of the mean's interval; None where there is no telling: for fewer than
      `LEAST_COUNT` values, and for values that are all the same and not zero, as few test examples
      make it happen.
    high: Upper end, likewise.
  """

  mean: float
  sd: float | None
  low: float | None
  high: float | None
  count: int

  @property
  def leaves_out_zero(self) -> bool:
    """Whether the mean can be told from zero."""
    return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def interval(
    values: Iterable[float], limits: tuple[float, float], num_folds: int | None = None,
    num_comparisons: int = 1,
) -> Interval | None:
  """Returns the mean of values, one per repetition, with its interval; None without values.

  Args:
    limits: The least and the most that a value can be.
    num_folds: The number of folds, of which the values are from several; None without folds.
    num_comparisons: How many intervals hold at once with probability `LEVEL`.
  """
  # Here, since SciPy takes long to import.
  from scipy import special  # pylint: disable=g-import-not-at-top

  values = list(values)
  count = len(values)
  if not count:
    return None
  mean = statistics.fmean(values)
  if count == 1:
    return Interval(mean, None, None, None, count)
  sd = statistics.stdev(values)
  if count < LEAST_COUNT:
    return Interval(mean, sd, None, None, count)
  if sd <= _ROUNDING:
    end = 0.0 if abs(mean) <= _ROUNDING else None
    return Interval(mean, 0.0, end, end, count)
  tested_per_trained = 0 if num_folds is None else 1 / (num_folds - 1)
  quantile = float(special.stdtrit(count - 1, 1 - (1 - LEVEL) / (2 * num_comparisons)))
  half_width = quantile * sd * math.sqrt(1 / count + tested_per_trained)
  least, most = limits
  return Interval(mean, sd, max(mean - half_width, least), min(mean + half_width, most), count)
