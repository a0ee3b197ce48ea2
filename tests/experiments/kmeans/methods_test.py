"""Tests for experiments.kmeans.methods."""

from absl.testing import absltest
import numpy as np

from experiments.kmeans import methods


class PrintedFkmTest(absltest.TestCase):

  def test_finds_the_clusters_and_leaves_out_means_of_single_points(self):
    # The second client's points are alone in their clusters.
    clients = [np.repeat([[0.0, 0.0], [4.0, 4.0]], 5, axis=0), np.array([[90.0, 0], [0, 90]])]
    by_round = methods.printed_fkm(clients, 2, np.random.default_rng(0))
    self.assertLen(by_round, 20)
    np.testing.assert_array_equal(np.sort(by_round[0], axis=0), [[0, 0], [4, 4]])


if __name__ == "__main__":
  absltest.main()
