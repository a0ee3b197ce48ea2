"""Tests for experiments.kmeans.grid_data."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiments.kmeans import grid_data


class GridDataTest(parameterized.TestCase):

  def test_points_lie_around_their_centers(self):
    points, clusters = grid_data.sample_points(400, 0.5, np.random.default_rng(0))
    self.assertEqual(points.shape, (6400, 2))
    for cluster, center in enumerate(grid_data.CENTERS):
      own = points[clusters == cluster]
      np.testing.assert_allclose(own.mean(axis=0), center, atol=0.12)
      np.testing.assert_allclose(own.std(axis=0), 0.5, atol=0.08)
    distances = np.linalg.norm(grid_data.CENTERS[:, None] - grid_data.CENTERS, axis=2)
    self.assertEqual(np.sort(distances, axis=1)[:, 1].tolist(), [5.0] * 16)

  # What decides the experiment, because unclaimed points go to the nearest client.
  @parameterized.parameters((0.1, 0.93, 0.02), (1.0, 0.53, 0.04), (10.0, 0.01, 0.006))
  def test_unclaimed_share(self, beta, expected, tolerance):
    shares = []
    for seed in range(200):
      rng = np.random.default_rng(seed)
      points, _ = grid_data.sample_points(20, 1.0, rng)
      shares.append(grid_data.unclaimed_share(points, beta, rng))
    self.assertAlmostEqual(np.mean(shares), expected, delta=tolerance)

  @parameterized.parameters(0.1, 1.0, 10.0)
  def test_every_point_is_at_one_client(self, beta):
    rng = np.random.default_rng(0)
    points, clusters = grid_data.sample_points(50, 1.0, rng)
    clients = grid_data.split_by_place(points, clusters, beta, rng)
    self.assertLessEqual(len(clients.points), grid_data.NUM_CLIENTS)
    rows = np.concatenate([clients.pooled_points, clients.pooled_labels[:, None]], axis=1)
    expected = np.concatenate([points, clusters[:, None]], axis=1)
    np.testing.assert_array_equal(
        rows[np.lexsort(rows.T)], expected[np.lexsort(expected.T)]
    )

  def test_a_small_beta_makes_clients_differ(self):
    num_clusters = []
    for beta in (0.1, 10.0):
      rng = np.random.default_rng(3)
      points, clusters = grid_data.sample_points(50, 1.0, rng)
      clients = grid_data.split_by_place(points, clusters, beta, rng)
      num_clusters.append(np.mean([len(set(own)) for own in clients.labels.values()]))
    self.assertLess(num_clusters[0], num_clusters[1] - 3)

  def test_extreme_split(self):
    clients = grid_data.extreme_split(1.0, np.random.default_rng(0))
    counts = [len(set(labels.tolist())) for labels in clients.labels.values()]
    self.assertEqual(tuple(counts), grid_data.EXTREME_CLUSTERS)
    sizes = [len(labels) for labels in clients.labels.values()]
    # By hand: 1 cluster of 50 // 5, 3 of 50 // 4, 3 of 50 // 3, 3 of 25, 6 of 50.
    self.assertEqual(sizes, [10 + 3 * 12 + 3 * 16 + 3 * 25 + 6 * 50, 10 + 36 + 48 + 75,
                             10 + 36 + 48, 10 + 36, 10])


if __name__ == "__main__":
  absltest.main()
