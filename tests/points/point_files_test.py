"""Tests for fl_clustering.points.point_files."""

import dataclasses
import unittest

from absl.testing import absltest
import numpy as np
import tensorflow as tf

from fl_clustering.points import point_files
from fl_clustering.points import secure_sums
from fl_clustering import runtime


def setUpModule():
  local = runtime.LocalRuntime()
  unittest.addModuleCleanup(local.close)


class MomentSumsTest(absltest.TestCase):

  def test_in_float64(self):
    points = np.array([[1e8, 1.0], [1e8 + 1, 2.0]])
    sums = point_files.moment_sums(points)
    self.assertEqual(sums["num_points"], 2)
    np.testing.assert_array_equal(sums["sums"], [2e8 + 1, 3])
    np.testing.assert_array_equal(sums["squares"], [2e16 + 2e8 + 1, 5])


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


def _by_border(query, points):
  return tf.where(points[:, 0] > query["border"][0], 2, 0)


class ClusterSumsTest(absltest.TestCase):

  def test_sums_are_those_of_all_clients(self):
    rng = np.random.default_rng(0)
    clients = {name: rng.standard_normal((n, 2)) for name, n in (("a", 5), ("b", 9))}
    files = point_files.write_files(clients, self.create_tempdir().full_path)
    scale = secure_sums.Scaling(np.array([1.0, 0.0]), np.array([2.0, 3.0]))
    origins = rng.standard_normal((3, 2))
    found = point_files.cluster_sums(
        dataclasses.replace(files, scaling=scale), origins, _by_border, border=np.array([-1.5])
    )
    points = scale.apply(np.concatenate(list(clients.values())))
    clusters = np.where(points[:, 0] > -1.5, 2, 0)
    for k in range(3):
      residuals = points[clusters == k] - origins[k]
      self.assertEqual(found["counts"][k], len(residuals))
      np.testing.assert_allclose(found["sums"][k], residuals.sum(axis=0), rtol=1e-12)
      np.testing.assert_allclose(found["squares"][k], (residuals**2).sum(axis=0), rtol=1e-12)
    self.assertEqual(found["counts"][1], 0)
    self.assertGreater(found["counts"][0], 5)
    self.assertBetween(found["counts"][2], 1, 4)
    self.assertTrue(found["sums"][2].any())
    least = point_files.cluster_sums(
        dataclasses.replace(files, scaling=scale), origins, _by_border, 5, border=np.array([-1.5])
    )
    np.testing.assert_array_equal(least["counts"], found["counts"])
    for name in ("sums", "squares"):
      np.testing.assert_array_equal(least[name][2], 0)
      np.testing.assert_array_equal(least[name][0], found[name][0])


if __name__ == "__main__":
  absltest.main()
