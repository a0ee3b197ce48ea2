"""Tests for experiments.multiview.summary."""

from absl.testing import absltest
import numpy as np

from experiments.multiview import summary
from tests.experiments.multiview import sample_results


class SummaryTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.results = summary.Results(sample_results.sample_rows(), "sample")

  def test_seeds_and_partitions(self):
    self.assertEqual(self.results.seeds, [0, 1])
    self.assertEqual(self.results.partitions, ["IID", "Dirichlet"])

  def test_scores_are_means_over_the_seeds(self):
    score = self.results.score("equal", "IID", "ari")
    self.assertAlmostEqual(score.mean, 0.7)
    self.assertAlmostEqual(score.sd, np.std([0.69, 0.71], ddof=1))
    self.assertEqual(score.count, 2)
    self.assertAlmostEqual(self.results.score("equal", "IID", "rounds").mean, 3.5)

  def test_central_methods_have_the_same_score_for_every_partition(self):
    for partition in self.results.partitions:
      self.assertAlmostEqual(self.results.score("concatenated", partition, "ari").mean, 0.6)

  def test_the_best_view_is_the_one_with_the_best_nmi(self):
    self.assertEqual(self.results.best_view(), "pixels")
    self.assertAlmostEqual(self.results.score("single_view", "IID", "nmi").mean, 0.6)

  def test_view_weights(self):
    weights = self.results.view_weights("mvkm", "IID")
    self.assertEqual([score.mean for score in weights], [0.2, 0.8])

  def test_what_is_not_measured_is_none(self):
    empty = summary.Results(sample_results.sample_rows(), "other")
    self.assertIsNone(empty.best_view())
    self.assertIsNone(empty.score("single_view", "IID", "nmi"))
    self.assertIsNone(empty.score("equal", "IID", "nmi"))
    self.assertIsNone(empty.outcome("equal", "IID", 0))

  def test_matched_points_are_on_the_diagonal(self):
    matrix = summary.matched_points({0: (0, 4, 0, 1), 1: (3, 0, 1, 1), 2: (0, 1, 3, 1)})
    np.testing.assert_array_equal(matrix, [[4, 0, 0, 1], [0, 3, 1, 1], [1, 0, 3, 1]])


if __name__ == "__main__":
  absltest.main()
