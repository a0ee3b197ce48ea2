"""Tests of how well an assignment recovers the true groups."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.methods import cluster_assignment
from tests import letters

_TRUE_GROUPS = np.array([0, 0, 1, 1])
_OVERLAPPING = ("ab", "bc", "d")


def _assignment(*clusters):
  return cluster_assignment.ClusterAssignment(letters.clusters(*clusters))


class RecoveryTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("exact", ("cd", "ba"), 1, 1),
      # 1 of 2 pairs together in both, 1/3 expected by chance, 1.5 at most:
      # (1 - 1/3) / (1.5 - 1/3) = 4/7.
      ("one_split", ("ab", "c", "d"), 4 / 7, 1),
      # No pair together in both, 2/3 expected, 2 at most: (0 - 2/3) / (2 - 2/3).
      ("crossed", ("ac", "bd"), -0.5, 0.5),
      ("everyone", ("abcd",), 0, 0.5),
      ("alone", ("a", "b", "c", "d"), 0, 1),
      # 1 pair, 2 * 3 / 6 = 1 expected.
      ("one_astray", ("abc", "d"), 0, 0.75),
  )
  def test_scores(self, clusters, adjusted_rand_index, purity):
    assignment = _assignment(*clusters)
    self.assertAlmostEqual(assignment.adjusted_rand_index(_TRUE_GROUPS), adjusted_rand_index)
    self.assertAlmostEqual(assignment.purity(_TRUE_GROUPS), purity)

  @parameterized.named_parameters(
      ("adjusted_rand_index", cluster_assignment.ClusterAssignment.adjusted_rand_index),
      ("purity", cluster_assignment.ClusterAssignment.purity),
  )
  def test_overlapping_clusters_have_no_score(self, score):
    self.assertIsNone(score(_assignment(*_OVERLAPPING), _TRUE_GROUPS))


if __name__ == "__main__":
  absltest.main()
