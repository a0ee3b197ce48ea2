"""Tests for experiments.kmeans.methods."""

from absl.testing import absltest
import numpy as np

from experiments.kmeans import data
from experiments.kmeans import methods


class PrintedFkmTest(absltest.TestCase):

  def test_finds_the_clusters_of_the_extreme_split(self):
    clients = data.extreme_split(0.5, np.random.default_rng(0))
    by_round = methods.printed_fkm(
        list(clients.points.values()), 16, np.random.default_rng(0)
    )
    self.assertLen(by_round, 20)
    distances = np.linalg.norm(data.CENTERS[:, None] - by_round[-1], axis=2)
    self.assertLess(np.median(distances.min(axis=1)), 0.3)

  def test_means_of_single_points_are_left_out(self):
    # The second client's points are alone in their clusters.
    clients = [np.repeat([[0.0, 0.0], [4.0, 4.0]], 5, axis=0), np.array([[90.0, 0], [0, 90]])]
    by_round = methods.printed_fkm(clients, 2, np.random.default_rng(0))
    self.assertLess(np.abs(by_round[0]).max(), 5)


if __name__ == "__main__":
  absltest.main()
