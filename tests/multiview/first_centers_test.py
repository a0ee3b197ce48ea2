"""Tests for fl_clustering.multiview.first_centers."""

import functools
import tempfile
import unittest

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.multiview import client_views
from fl_clustering.multiview import first_centers
from fl_clustering.multiview import multiview_config
from fl_clustering.points import gathering
from fl_clustering.points import point_files
from fl_clustering.points import scaling as scaling_lib
from fl_clustering import runtime
from tests.multiview import sample_views


def setUpModule():
  local = runtime.LocalRuntime()
  unittest.addModuleCleanup(local.close)


def _blobs(sizes, seed=0):
  rng = np.random.default_rng(seed)
  return np.concatenate([
      50.0 * index + rng.standard_normal((size, 3)) for index, size in enumerate(sizes)
  ])


def _all_sent(clients, num_clusters, min_count=2, seed=0):
  """Returns the means (K, D) and counts (K,) that leave every client, a list."""
  clients_by_id = {str(index): points for index, points in enumerate(clients)}
  num_columns = clients[0].shape[1]
  works = ((num_columns, first_centers.block_means(num_clusters, min_count, 0)),)
  seeds = {
      client_id: np.array([seed, 1 + index], np.int32)
      for index, client_id in enumerate(clients_by_id)
  }
  with tempfile.TemporaryDirectory() as folder:
    files = point_files.write_files(clients_by_id, folder)
    (sent,) = gathering.gather_blocks(
        files, works, min_count, np.zeros((1, 0, num_columns), np.float32), seeds
    )
  return [(means[0], counts[0]) for means, counts in sent.by_client.values()]


def _sent(points, num_clusters, min_count=2, seed=0):
  """Returns the means (K, D) and counts (K,) that leave a client."""
  return _all_sent([points], num_clusters, min_count, seed)[0]


class BlockMeansTest(parameterized.TestCase):

  def test_far_blobs_are_found(self):
    points = _blobs([20, 30, 10])
    means, counts = _sent(points, 3)
    order = np.argsort(means[:, 0])
    np.testing.assert_array_equal(counts[order], [20, 30, 10])
    expected = [points[:20].mean(axis=0), points[20:50].mean(axis=0), points[50:].mean(axis=0)]
    np.testing.assert_allclose(means[order], expected, rtol=1e-4)

  @parameterized.named_parameters(("two", 2), ("three", 3), ("seven", 7))
  def test_no_mean_of_fewer_points_and_no_raw_point_leaves(self, min_count):
    rng = np.random.default_rng(0)
    clients = [rng.standard_normal((int(rng.integers(1, 40)), 2)) for _ in range(30)]
    for points, (means, counts) in zip(clients, _all_sent(clients, 8, min_count)):
      self.assertTrue(np.all((counts == 0) | (counts >= min_count)), counts)
      self.assertTrue(np.all(means[counts == 0] == 0))
      distances = np.abs(points[:, None] - means[None, counts > 0]).max(axis=2)
      self.assertTrue(np.all(distances > 1e-6))

  def test_a_lone_point_far_away_does_not_leave(self):
    means, counts = _sent(np.concatenate([_blobs([20, 30]), [[1e6, 0.0, 0.0]]]), 3)
    self.assertEqual(sorted(counts), [0, 20, 30])
    self.assertLess(np.abs(means).max(), 1e3)

  @parameterized.named_parameters(("none", 0), ("one", 1))
  def test_too_few_points_send_nothing(self, num_points):
    means, counts = _sent(np.ones((num_points, 3)), 8)
    np.testing.assert_array_equal(means, np.zeros((8, 3)))
    np.testing.assert_array_equal(counts, np.zeros(8))

  def test_few_points_make_few_clusters(self):
    points = _blobs([3])
    means, counts = _sent(points, 8)
    self.assertEqual(counts.max(), 3)
    np.testing.assert_allclose(means[np.argmax(counts)], points.mean(axis=0), rtol=1e-5)

  def test_the_mean_of_equal_points_is_a_point_and_does_not_leave(self):
    _, counts = _sent(np.full((9, 2), 5.0), 8)
    self.assertEqual(counts.sum(), 0)

  def test_the_seed_decides(self):
    points = np.random.default_rng(0).standard_normal((100, 2))
    first, again, other = (_sent(points, 8, seed=seed)[0] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    self.assertFalse(np.array_equal(first, other))


class ServerCentersTest(absltest.TestCase):

  def test_a_mean_counts_as_often_as_its_points(self):
    means = np.array([[0.0], [1.0], [100.0]], np.float32)
    centers = first_centers.server_centers(
        means, np.array([30, 10, 5], np.float32), 2, np.random.default_rng(0)
    )
    np.testing.assert_allclose(np.sort(centers[:, 0]), [0.25, 100.0], rtol=1e-6)

  def test_too_few_means_are_split(self):
    means = np.array([[0.0, 0.0], [9.0, 9.0], [9.0, 9.0]], np.float32)
    centers = first_centers.server_centers(
        means, np.ones(3, np.float32), 6, np.random.default_rng(0)
    )
    self.assertEqual(centers.shape, (6, 2))
    self.assertLen(np.unique(centers, axis=0), 6)
    to_means = np.abs(centers[:, None] - means[None]).max(axis=2).min(axis=1)
    self.assertLess(to_means.max(), 0.3)

  def test_no_means_at_all(self):
    centers = first_centers.server_centers(
        np.zeros((0, 2), np.float32), np.zeros(0, np.float32), 3, np.random.default_rng(0)
    )
    self.assertLen(np.unique(centers, axis=0), 3)


class FirstCentersTest(absltest.TestCase):

  @functools.cached_property
  def _folder(self):
    return self.create_tempdir().full_path

  def _centers(self, restart=0, views_apart=False, seed=0, separation=4.0):
    clients, _ = sample_views.sample_views(separation=separation)
    views = client_views.check_clients(clients, 1)
    pooled = np.concatenate(list(views.points.values()))
    files = point_files.write_files(views.points, self._folder)
    scaling = scaling_lib.Scaling(pooled.mean(axis=0), 1 / pooled.std(axis=0))
    config = multiview_config.MultiViewConfig(sample_views.NUM_CLUSTERS, seed=seed)
    betas = 1 / np.array(sample_views.WIDTHS)
    return first_centers.first_centers(
        config, files.scaled(scaling), views.widths, betas, restart, views_apart
    )

  def _true_means(self):
    clients, clusters = sample_views.sample_views()
    pooled = np.concatenate(sample_views.pooled(clients), axis=1)
    scaled = (pooled - pooled.mean(axis=0)) / pooled.std(axis=0)
    labels = np.concatenate(list(clusters.values()))
    return np.array([scaled[labels == k].mean(axis=0) for k in range(3)])

  def _check_near(self, means, centers):
    nearest = np.argmin(((means[:, None] - centers[None]) ** 2).sum(axis=2), axis=1)
    self.assertCountEqual(nearest, range(3))
    # One view alone shows the clusters less clearly than all together.
    self.assertLess(np.abs(means - centers[nearest]).max(), 0.5)

  def test_a_center_is_the_same_cluster_in_all_views(self):
    self._check_near(self._true_means(), self._centers())

  def test_views_apart_have_their_own_clusters(self):
    means, centers = self._true_means(), self._centers(views_apart=True)
    for columns in (slice(0, 4), slice(4, 6), slice(6, 9)):
      self._check_near(means[:, columns], centers[:, columns])

  def test_a_client_weighs_what_it_has(self):
    rng = np.random.default_rng(0)
    points = {"large": rng.standard_normal((30, 2)), "small": 5 + rng.standard_normal((10, 2))}
    files = point_files.write_files(points, self._folder)
    mean = np.concatenate(list(points.values())).mean(axis=0)
    centers = first_centers.first_centers(
        multiview_config.MultiViewConfig(1), files.scaled(scaling_lib.Scaling(mean, np.ones(2))),
        (2,), np.array([0.1]), restart=0,
    )
    # One cluster is the mean of all points, and that is where zero is.
    np.testing.assert_allclose(centers, 0, atol=1e-5)

  def test_seed_and_restart_decide(self):
    # No clusters: there is no best start that all would find.
    reference = self._centers(separation=0.0)
    np.testing.assert_array_equal(reference, self._centers(separation=0.0))
    for other in ({"restart": 1}, {"views_apart": True}, {"seed": 1}):
      centers = self._centers(**other, separation=0.0)
      self.assertFalse(np.array_equal(reference, centers), other)


if __name__ == "__main__":
  absltest.main()
