"""Tests for the tutorial's data and its printed program."""

from absl.testing import absltest
import numpy as np

from experiments.multiview import simulated_dha
from tests import nightly


class SimulatedDhaTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.drawn = simulated_dha.draw(simulated_dha.SOURCE_SEED, {})

  def test_size_and_scale(self):
    depth, colour = self.drawn.problem.views.values()
    self.assertEqual((depth.shape, colour.shape), ((600, 6144), (600, 110)))
    np.testing.assert_allclose(depth.std(axis=0), 1, atol=1e-6)
    counts = np.bincount(self.drawn.problem.labels)
    self.assertLen(counts, 23)
    self.assertGreaterEqual(counts.min(), 26)

  def test_sites_cover_all_points_and_the_first_two_share_some(self):
    first, second, third = self.drawn.problem.shares.values()
    self.assertLen(np.unique(np.concatenate([first, second, third])), 600)
    self.assertLen(np.intersect1d(first, second), 38)
    self.assertLen(third, 25)

  def test_every_claim_stands_beside_something(self):
    claims = [row.claim for row in simulated_dha.ROWS.values() if row.claim]
    self.assertCountEqual(claims, simulated_dha.CLAIMS)

  def test_plain_kmeans_finds_the_clusters_exactly(self):
    # So the data prove nothing.
    self.assertEqual(simulated_dha.ROWS["central_kmeans"].run(self.drawn).ari, 1.0)

  @nightly.only
  def test_the_printed_program_gives_what_the_tutorials_own_code_does(self):
    # Its code, run as printed with seed 42, gives NMI 0.901 and ARI 0.732.
    found = simulated_dha.ROWS["printed"].run(simulated_dha.draw(42, {}))
    self.assertAlmostEqual(found.nmi, 0.901, delta=0.001)
    self.assertAlmostEqual(found.ari, 0.732, delta=0.001)


if __name__ == "__main__":
  absltest.main()
