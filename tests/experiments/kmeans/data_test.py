"""Tests for experiments.kmeans.data."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiments.kmeans import data


class SyntheticDataTest(parameterized.TestCase):

  @parameterized.parameters((0.1, 8, 10), (1.0, 0, 16), (10.0, 14, 16))
  def test_every_point_is_at_one_client_and_a_small_beta_makes_them_differ(self, beta, low, high):
    rng = np.random.default_rng(3)
    points, clusters = data.sample_points(50, 1.0, rng)
    clients = data.split_by_place(points, clusters, beta, rng)
    self.assertLessEqual(len(clients.points), data.NUM_CLIENTS)
    rows = np.concatenate([clients.pooled_points, clients.pooled_labels[:, None]], axis=1)
    expected = np.concatenate([points, clusters[:, None]], axis=1)
    np.testing.assert_array_equal(
        rows[np.lexsort(rows.T)], expected[np.lexsort(expected.T)]
    )
    self.assertBetween(np.mean([len(set(own)) for own in clients.labels.values()]), low, high)
    # Most points that nobody claims are at the nearest client.
    if beta == 0.1:
      spreads = [own.std(axis=0).mean() for own in clients.points.values()]
      self.assertLess(np.mean(spreads), 0.6 * points.std(axis=0).mean())

  def test_extreme_split(self):
    clients = data.extreme_split(1.0, np.random.default_rng(0))
    counts = [len(set(labels.tolist())) for labels in clients.labels.values()]
    self.assertEqual(tuple(counts), data.EXTREME_CLUSTERS)
    sizes = [len(labels) for labels in clients.labels.values()]
    # By hand: 1 cluster of 50 // 5, 3 of 50 // 4, 3 of 50 // 3, 3 of 25, 6 of 50.
    self.assertEqual(sizes, [10 + 3 * 12 + 3 * 16 + 3 * 25 + 6 * 50, 10 + 36 + 48 + 75,
                             10 + 36 + 48, 10 + 36, 10])


class RealDataTest(parameterized.TestCase):

  @parameterized.parameters(*data.TABLES)
  def test_a_table_is_all_there_and_split_by_the_seed(self, name):
    clients, again, other = (data.load_table(name, seed) for seed in (0, 0, 1))
    points, labels = data.TABLES[name](return_X_y=True)
    deviation = points.std(axis=0)
    points = (points - points.mean(axis=0)) / np.where(deviation, deviation, 1)
    self.assertBetween(len(clients.points), 2, data.TABLE_CLIENTS)
    self.assertEqual(clients.num_clusters, len(set(labels)))
    rows = np.column_stack([clients.pooled_points, clients.pooled_labels]).round(6)
    expected = np.column_stack([points, labels]).round(6)
    np.testing.assert_allclose(
        rows[np.lexsort(rows.T)], expected[np.lexsort(expected.T)], atol=2e-6
    )
    np.testing.assert_array_equal(clients.pooled_points, again.pooled_points)
    self.assertFalse(np.array_equal(clients.pooled_points, other.pooled_points))

  def test_digits(self):
    clients = data.load_digits("digits", None, seed=0)
    self.assertLen(clients.points, data.DIGIT_CLIENTS)
    points = clients.pooled_points
    self.assertEqual((points.shape[1], points.min(), points.max()), (784, 0, 1))


if __name__ == "__main__":
  absltest.main()
