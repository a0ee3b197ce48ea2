"""Tests for fl_clustering.points.point_files."""

import unittest

from absl.testing import absltest
import numpy as np

from fl_clustering.points import point_files
from fl_clustering.points import secure_sums
from fl_clustering import runtime


def setUpModule():
  unittest.addModuleCleanup(runtime.LocalRuntime().close)


class PointFilesTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    rng = np.random.default_rng(0)
    self.clients = {
        name: rng.standard_normal((size, 3)) * [1.0, 1000.0, 0.01] + [0.0, 1e6, -5.0]
        for name, size in (("a", 40), ("b/c", 7), ("d", 1))
    }
    self.points = np.concatenate(list(self.clients.values()))
    self.files = point_files.write_files(self.clients, self.create_tempdir().full_path)

  def test_moments_are_those_of_all_points_whatever_the_coordinates(self):
    scaled = self.files.scaled(secure_sums.Scaling(np.full(3, 7.0), np.full(3, 0.5)))
    for files in (self.files, scaled):
      num_points, mean, variance = files.column_moments()
      self.assertEqual(num_points, 48)
      np.testing.assert_allclose(mean, self.points.mean(axis=0), rtol=1e-12)
      np.testing.assert_allclose(variance, self.points.var(axis=0), rtol=1e-12)

  def test_a_client_reads_its_own_points_in_the_scaled_coordinates(self):
    chosen = secure_sums.Scaling(np.array([1.0, 1e6, 0.0]), np.array([2.0, 1e-3, 100.0]))
    files = self.files.scaled(chosen)
    for client_id, points in self.clients.items():
      read = files.source.read(files.client(client_id))
      np.testing.assert_array_equal(read, chosen.apply(points))

  def test_float32_points_stay_where_their_squares_are_finite(self):
    files = self.files.scaled(secure_sums.Scaling(np.zeros(3), np.full(3, 1e80)))
    read = files.source.read_float32(files.client("a")).numpy()
    self.assertEqual(read.dtype, np.float32)
    self.assertEqual(np.abs(read).max(), np.float32(secure_sums.FARTHEST))


class TotalTest(absltest.TestCase):

  def test_is_over_all_clients_of_whom_few_are_held_at_a_time(self):
    asked, drawn = [], []

    def sum_round(query, clients):
      asked.append(len(clients))
      self.assertLen(drawn, sum(asked))  # No share waits for a later block.
      return np.int64(query) * sum(each["client"] + each["share"] for each in clients)

    def shares():
      for number in range(601):
        drawn.append(number)
        yield np.array([number, 1])

    total = point_files.total(sum_round, 2, range(601), shares())
    np.testing.assert_array_equal(total, [2 * 601 * 600, 601 * 600 + 2 * 601])
    self.assertLen(asked, 3)


if __name__ == "__main__":
  absltest.main()
