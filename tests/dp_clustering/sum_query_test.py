import dataclasses

from absl.testing import absltest
import numpy as np

from dp_clustering import noise
from dp_clustering import sum_query


@dataclasses.dataclass(frozen=True)
class _TwoParts:

  def widths(self, dim):
    return {"sums": dim, "counts": 1}


class SumQueryTest(absltest.TestCase):

  def test_every_group_and_part_has_noise_of_its_own(self):
    # 60 groups of 20 + 1 columns.  Of 20 draws: outside of a factor of 2.5 with probability
    # below 1e-7.
    query = sum_query.SumQuery(_TwoParts(), {"centers": np.zeros((60, 20))})
    stds = {"sums": 1000.0, "counts": 50_000.0}
    draws = query.split(query.noise(stds, noise.SeededNoise(3)))
    of_groups = draws["sums"].std(axis=1) / stds["sums"]
    self.assertBetween(of_groups.min(), 0.4, 1)
    self.assertBetween(of_groups.max(), 1, 2.5)
    # All: 1,200 and 60 draws.  Two equal counts would come once in 60 runs of other seeds.
    self.assertBetween(draws["sums"].std() / stds["sums"], 0.9, 1.1)
    self.assertBetween(draws["counts"].std() / stds["counts"], 0.6, 1.4)
    self.assertLen(np.unique(draws["counts"]), 60)
    # A group's draws are not those of another one.
    correlations = np.corrcoef(draws["sums"]) - np.eye(60)
    self.assertLess(np.abs(correlations).max(), 0.9)

  def test_a_part_without_noise_has_none(self):
    query = sum_query.SumQuery(_TwoParts(), {"centers": np.zeros((6, 2))})
    draws = query.split(query.noise({"sums": 0, "counts": 9.0}, noise.SeededNoise(3)))
    np.testing.assert_array_equal(draws["sums"], np.zeros((6, 2)))
    self.assertTrue(draws["counts"].any())
