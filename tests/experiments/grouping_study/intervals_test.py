import math

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
from scipy import stats

from experiments.grouping_study import intervals


def _covers(true_mean, draws, **options):
  """Returns the share of draws whose interval holds the true mean."""
  found = [intervals.interval(draw, **options) for draw in draws]
  return np.mean([one.low <= true_mean <= one.high for one in found])


class IntervalTest(parameterized.TestCase):

  def test_over_seeds_it_is_students(self):
    values = [0.1, 0.4, 0.2, 0.7, 0.1]

    found = intervals.interval(values)

    for end in (found.low, found.high):
      self.assertAlmostEqual(stats.ttest_1samp(values, end).pvalue, 0.05)
    self.assertLess(found.low, found.high)
    self.assertAlmostEqual(found.mean, 0.3)
    self.assertAlmostEqual(found.sd, np.std(values, ddof=1))
    self.assertEqual(found.count, 5)

  def test_over_folds_it_is_wider_by_the_correction(self):
    values = [0.1, 0.4, 0.2, 0.7, 0.1, 0.3, 0.2, 0.3, 0.4, 0.3]

    plain = intervals.interval(values)
    corrected = intervals.interval(values, num_folds=10)

    self.assertAlmostEqual(
        (corrected.high - corrected.mean) / (plain.high - plain.mean), math.sqrt(1 + 10 / 9)
    )

  def test_several_comparisons_share_the_error(self):
    values = [0.1, 0.4, 0.2, 0.7, 0.1]
    found = intervals.interval(values, num_comparisons=5)

    self.assertAlmostEqual(stats.ttest_1samp(values, found.low).pvalue, 0.05 / 5)

  def test_it_covers_the_mean_of_normal_values(self):
    # 2,000 draws: the share of a right interval is outside 0.95 ± 0.02 with probability 5e-5.
    draws = np.random.default_rng(0).normal(3, 2, (2000, 5))

    self.assertAlmostEqual(_covers(3, draws), 0.95, delta=0.02)

  def test_values_that_are_all_the_same_tell_nothing_of_the_chance(self):
    # 0.1 + 0.2 is not 0.3.
    found = intervals.interval([0.3, 0.1 + 0.2, 0.3])

    self.assertEqual((found.sd, found.low, found.high), (0, None, None))
    self.assertFalse(found.leaves_out_zero)

  def test_methods_that_never_differ_have_an_interval_of_zero(self):
    found = intervals.interval([0.0, 1e-17, 0.0])

    self.assertEqual((found.sd, found.low, found.high), (0, 0, 0))
    self.assertFalse(found.leaves_out_zero)

  def test_one_value_has_no_interval(self):
    found = intervals.interval([0.3])

    self.assertEqual(found, intervals.Interval(0.3, None, None, None, 1))
    self.assertFalse(found.leaves_out_zero)

  def test_nothing_has_none(self):
    self.assertIsNone(intervals.interval([]))

  @parameterized.parameters(
      ([0.3, 0.31, 0.3], True), ([-0.3, -0.31, -0.3], True), ([0.1, -0.2, 0.1], False),
      ([0.0, 0.0], False),
  )
  def test_whether_zero_is_left_out(self, values, expected):
    self.assertEqual(intervals.interval(values).leaves_out_zero, expected)


if __name__ == "__main__":
  absltest.main()
