import math

from absl.testing import absltest
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
  def test_ends_where_welchs_test_begins_to_reject(self, num_comparisons, level):
    for end in intervals.of_means(list(self.first), list(self.second), num_comparisons):
      test = stats.ttest_ind(self.first - end, self.second, equal_var=False)
      self.assertAlmostEqual(test.pvalue, level)

  @parameterized.parameters(([1.0, 2.0], [1.0, 2.0, 3.0]), ([1.0] * 3, [2.0] * 3))
  def test_there_is_none_of_few_values_or_equal_ones(self, first, second):
    self.assertTrue(all(map(math.isnan, intervals.of_means(first, second))))

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


if __name__ == "__main__":
  absltest.main()
