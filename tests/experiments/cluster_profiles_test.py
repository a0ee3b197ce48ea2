"""Tests for experiments.cluster_profiles."""

from absl.testing import absltest
import numpy as np

from experiments import cluster_profiles


class ClusterProfilesTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    rng = np.random.default_rng(0)
    # Far from zero, where sums of squares would lose the spread.
    self.features = 1e7 + rng.standard_normal((90, 3)) * [1, 2, 0]
    self.clusters = np.repeat([0, 2, 3], 30)
    self.features[:, 1] += 10 * self.clusters
    blocks = [(self.features[:7], self.clusters[:7]), (self.features[7:], self.clusters[7:])]
    self.profiles = cluster_profiles.measure(blocks, 4, 3)

  def test_moments_are_those_of_all_rows(self):
    np.testing.assert_array_equal(self.profiles.counts, [30, 0, 30, 30])
    for cluster in (0, 2, 3):
      rows = self.features[self.clusters == cluster]
      np.testing.assert_allclose(self.profiles.means[cluster], rows.mean(axis=0), rtol=1e-14)
      np.testing.assert_allclose(
          self.profiles.deviations[cluster], rows.std(axis=0), rtol=1e-6, atol=1e-6
      )
    self.assertTrue(np.isnan(self.profiles.means[1]).all())
    np.testing.assert_allclose(
        self.profiles.overall_deviation, self.features.std(axis=0), rtol=1e-6, atol=1e-6
    )

  def test_the_share_explained_is_that_between_clusters(self):
    column = self.features[:, 1] - 1e7
    means = np.array([column[self.clusters == k].mean() for k in self.clusters])
    expected = means.var() / column.var()
    shares = self.profiles.shares_explained
    self.assertAlmostEqual(shares[1], expected, places=6)
    self.assertLess(shares[0], 0.2)
    self.assertLess(shares[2], 1e-6)

  def test_features_that_tell_clusters_apart_come_first(self):
    rows = list(cluster_profiles.rows(self.profiles, ("a", "b", "c")))
    self.assertEqual([row[0] for row in rows], [0, 0, 0, 2, 2, 2, 3, 3, 3])
    self.assertEqual([row[2] for row in rows[:3]], ["b", "a", "c"])

  def test_the_figure_shows_means(self):
    rows = list(cluster_profiles.rows(self.profiles, ("a", "b", "c")))
    figure = cluster_profiles.draw([dict(zip(cluster_profiles.HEADER, row)) for row in rows])
    axes = figure.axes[0]
    self.assertEqual([t.get_text() for t in axes.get_yticklabels()], ["b", "a", "c"])
    self.assertLen(axes.texts, 9)
    self.assertEqual(axes.get_xticklabels()[1].get_text(), "2\n30")


if __name__ == "__main__":
  absltest.main()
