import math

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
from scipy import stats

from experiments.grouping_study import intervals


_NO_LIMITS = (-math.inf, math.inf)


def _covers(true_mean, draws, **options):
  """Returns the share of draws whose interval holds the true mean."""
  found = [intervals.interval(draw, _NO_LIMITS, **options) for draw in draws]
  return np.mean([one.low <= true_mean <= one.high for one in found])


class IntervalTest(parameterized.TestCase):

  def test_over_seeds_it_is_students(self):
    values = [0.1, 0.4, 0.2, 0.7, 0.1]

    found = intervals.interval(values, _NO_LIMITS)

    for end in (found.low, found.high):
      self.assertAlmostEqual(stats.ttest_1samp(values, end).pvalue, 0.05)
    self.assertLess(found.low, found.high)
    self.assertAlmostEqual(found.mean, 0.3)
    self.assertAlmostEqual(found.sd, np.std(values, ddof=1))
    self.assertEqual(found.count, 5)

  def test_over_folds_it_is_wider_by_the_correction(self):
    values = [0.1, 0.4, 0.2, 0.7, 0.1, 0.3, 0.2, 0.3, 0.4, 0.3]

    plain = intervals.interval(values, _NO_LIMITS)
    corrected = intervals.interval(values, _NO_LIMITS, num_folds=10)

    self.assertAlmostEqual(
        (corrected.high - corrected.mean) / (plain.high - plain.mean), math.sqrt(1 + 10 / 9)
    )

  def test_several_comparisons_share_the_error(self):
    values = [0.1, 0.4, 0.2, 0.7, 0.1]
    found = intervals.interval(values, _NO_LIMITS, num_comparisons=5)

    self.assertAlmostEqual(stats.ttest_1samp(values, found.low).pvalue, 0.05 / 5)

  def test_it_covers_the_mean_of_normal_values(self):
    # 2,000 draws: the share of a right interval is outside 0.95 ± 0.02 with probability 5e-5.
    draws = np.random.default_rng(0).normal(3, 2, (2000, 5))

    self.assertAlmostEqual(_covers(3, draws), 0.95, delta=0.02)

  def test_values_that_are_all_the_same_tell_nothing_of_the_chance(self):
    # 0.1 + 0.2 is not 0.3.
    found = intervals.interval([0.3, 0.1 + 0.2, 0.3], _NO_LIMITS)

    self.assertEqual((found.sd, found.low, found.high), (0, None, None))
    self.assertFalse(found.leaves_out_zero)

  def test_methods_that_never_differ_have_an_interval_of_zero(self):
    found = intervals.interval([0.0, 1e-17, 0.0], _NO_LIMITS)

    self.assertEqual((found.sd, found.low, found.high), (0, 0, 0))
    self.assertFalse(found.leaves_out_zero)

  @parameterized.parameters(([0.3], None), ([0.2, 0.4], 0.2 / 2**0.5), ([0.3, 0.3], 0.0))
  def test_fewer_than_three_values_have_no_interval(self, values, sd):
    found = intervals.interval(values, intervals.SHARES, num_folds=2)

    self.assertAlmostEqual(found.mean, 0.3)
    self.assertAlmostEqual(found.sd or 0.0, sd or 0.0)
    self.assertEqual((found.low, found.high, found.count), (None, None, len(values)))
    self.assertFalse(found.leaves_out_zero)

  @parameterized.parameters(
      ([0.9, 1.0, 0.7], intervals.SHARES, (None, 1.0)),
      ([0.1, 0.0, 0.3], intervals.SHARES, (0.0, None)),
      ([0.9, -0.8, 0.7], intervals.DIFFERENCES_OF_SHARES, (-1.0, 1.0)),
  )
  def test_ends_where_values_do(self, values, limits, ends):
    free = intervals.interval(values, _NO_LIMITS)
    found = intervals.interval(values, limits)

    expected = [own if end is None else end for own, end in zip((free.low, free.high), ends)]
    self.assertEqual([found.low, found.high], expected)

  def test_nothing_has_none(self):
    self.assertIsNone(intervals.interval([], _NO_LIMITS))

  @parameterized.parameters(
      ([0.3, 0.31, 0.3], True), ([-0.3, -0.31, -0.3], True), ([0.1, -0.2, 0.1], False),
      ([0.0, 0.0], False),
  )
  def test_whether_zero_is_left_out(self, values, expected):
    self.assertEqual(intervals.interval(values, _NO_LIMITS).leaves_out_zero, expected)


if __name__ == "__main__":
  absltest.main()
