import math

from absl.testing import parameterized
import numpy as np
from scipy import stats

from clustering_basics import intervals


class IntervalsTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    rng = np.random.default_rng(0)
    self.first, self.second = rng.normal(1.0, 0.3, 6), rng.normal(0.5, 0.1, 4)

  @parameterized.parameters((1, 0.05), (5, 0.01))
  def test_ends_where_the_tests_begin_to_reject(self, num_comparisons, level):
    for end in intervals.of_means(list(self.first), list(self.second), num_comparisons):
      test = stats.ttest_ind(self.first - end, self.second, equal_var=False)  # Welch's.
      self.assertAlmostEqual(test.pvalue, level)
    first, second = self.first[:4], self.second
    for end in intervals.of_pairs(list(first), list(second), num_comparisons):
      self.assertAlmostEqual(stats.ttest_rel(first - end, second).pvalue, level)

  def test_over_folds_it_is_wider_by_the_correction(self):
    plain, corrected = (
        intervals.of_values([0.1, 0.4, 0.2, 0.7, 0.1, 0.3, 0.2, 0.3, 0.4, 0.3], 1, num_folds)
        for num_folds in (None, 10)
    )

    self.assertAlmostEqual(sum(corrected), sum(plain))
    ratio = (corrected[1] - corrected[0]) / (plain[1] - plain[0])
    self.assertAlmostEqual(ratio, math.sqrt(1 + 10 / 9))

  def test_four_of_five_runs_tell_what_is_detectable(self):
    # Of a known variance: the ends of five intervals at once, and the power.
    expected = 2 * (stats.norm.ppf(0.995) + stats.norm.ppf(0.8))
    self.assertAlmostEqual(intervals.detectable([(4.0, 10**9)], 5), expected, places=5)

  def test_it_covers_the_mean_of_normal_values(self):
    # 2,000 draws: the share of a right interval is outside 0.95 ± 0.02 with probability 5e-5.
    draws = np.random.default_rng(0).normal(3, 2, (2000, 5)).tolist()
    ends = np.array([intervals.of_values(draw) for draw in draws])

    self.assertAlmostEqual(((ends[:, 0] <= 3) & (3 <= ends[:, 1])).mean(), 0.95, delta=0.02)

  @parameterized.parameters(
      (intervals.of_pairs, [1.0, 2.0], [3.0, 5.0]),
      (intervals.of_pairs, [1.0, 2.0, 3.0], [2.0, 3.0, 4.0]),
      # What differs by rounding alone does not vary.
      (intervals.of_pairs, [0.3, 0.1 + 0.2, 0.3], [0.0] * 3),
      (intervals.of_pairs, [0.3, 0.1 + 0.2, 0.3], [0.3] * 3),
      (intervals.of_values, [0.3, 0.1 + 0.2, 0.3]),
      (intervals.of_means, [1.0, 2.0], [1.0, 2.0, 3.0]), (intervals.of_means, [1.0] * 3, [2.0] * 3),
      (intervals.of_means, [1.0, 2.0, 3.0], [1.0, 2.0]),
  )
  def test_there_is_none_of_few_values_or_equal_ones(self, interval, *values):
    self.assertTrue(all(map(math.isnan, interval(*values))))

  def test_a_part_that_does_not_vary_counts_for_nothing(self):
    found = intervals.of_means([1.0, 2.0, 3.0], [5.0] * 3)

    expected = stats.t.interval(0.95, 2, -3.0, math.sqrt(1 / 3))
    np.testing.assert_allclose(found, expected)

  @parameterized.parameters(
      (0.1, 2.0, "better"), (-2.0, -0.1, "worse"), (-0.1, 0.1, "unclear"), (0.0, 1.0, "unclear"),
      (math.nan, math.nan, "unclear"),
  )
  def test_verdict(self, low, high, expected):
    self.assertEqual(intervals.verdict(low, high), expected)
