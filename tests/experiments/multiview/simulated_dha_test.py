"""Tests for the tutorial's data and its clients."""

from absl.testing import absltest
import numpy as np

from experiments.multiview import simulated_dha


class SimulatedDhaTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.drawn = simulated_dha.draw(simulated_dha.SOURCE_SEED, {})

  def test_size_and_scale(self):
    depth, colour = self.drawn.views.values()
    self.assertEqual((depth.shape, colour.shape), ((600, 6144), (600, 110)))
    np.testing.assert_allclose(depth.std(axis=0), 1, atol=1e-6)
    counts = np.bincount(self.drawn.labels)
    self.assertLen(counts, 23)
    self.assertGreaterEqual(counts.min(), 26)

  def test_sites_cover_all_points_and_the_first_two_share_some(self):
    first, second, third = self.drawn.shares.values()
    self.assertLen(np.unique(np.concatenate([first, second, third])), 600)
    self.assertLen(np.intersect1d(first, second), 38)
    self.assertLen(third, 25)

  def test_plain_kmeans_finds_the_clusters_exactly(self):
    # So the data prove nothing.
    self.assertEqual(simulated_dha.ROWS["central_kmeans"].run(self.drawn).numbers["ari"], 1.0)


if __name__ == "__main__":
  absltest.main()
