"""Tests for fl_clustering.multiview.initialization."""

import unittest

from absl.testing import absltest
import numpy as np

from fl_clustering.kmeans import point_source
from fl_clustering.multiview import client_views
from fl_clustering.multiview import initialization
from fl_clustering.multiview import multiview_model
from fl_clustering import runtime
from tests.multiview import sample_views


def setUpModule():
  local = runtime.LocalRuntime()
  unittest.addModuleCleanup(local.close)


class ServerCentersTest(absltest.TestCase):

  def test_a_mean_counts_as_often_as_its_points(self):
    means = np.array([[0.0], [1.0], [100.0]], np.float32)
    centers = initialization.server_centers(
        means, np.array([30, 10, 5], np.float32), 2, np.random.default_rng(0)
    )
    np.testing.assert_allclose(np.sort(centers[:, 0]), [0.25, 100.0], rtol=1e-6)

  def test_too_few_means_are_split(self):
    means = np.array([[0.0, 0.0], [9.0, 9.0], [9.0, 9.0]], np.float32)
    centers = initialization.server_centers(
        means, np.ones(3, np.float32), 6, np.random.default_rng(0)
    )
    self.assertEqual(centers.shape, (6, 2))
    self.assertLen(np.unique(centers, axis=0), 6)
    to_means = np.abs(centers[:, None] - means[None]).max(axis=2).min(axis=1)
    self.assertLess(to_means.max(), 0.3)

  def test_no_means_at_all(self):
    centers = initialization.server_centers(
        np.zeros((0, 2), np.float32), np.zeros(0, np.float32), 3, np.random.default_rng(0)
    )
    self.assertLen(np.unique(centers, axis=0), 3)


class InitializationTest(absltest.TestCase):

  def _centers(self, restart=0, views_apart=False, seed=0, separation=4.0):
    clients, _ = sample_views.sample_views(separation=separation)
    views = client_views.check_clients(clients, 1)
    pooled = np.concatenate(list(views.points.values()))
    paths = point_source.write_files(views.points, self.create_tempdir().full_path)
    scaling = multiview_model.Scaling(pooled.mean(axis=0), 1 / pooled.std(axis=0))
    start = initialization.Initialization(
        paths, views.widths, sample_views.NUM_CLUSTERS, 2, seed
    )
    betas = 1 / np.array(sample_views.WIDTHS)
    return start.centers(scaling, betas, restart, views_apart)

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
    paths = point_source.write_files(points, self.create_tempdir().full_path)
    mean = np.concatenate(list(points.values())).mean(axis=0)
    start = initialization.Initialization(paths, (2,), 1, 2, 0)
    centers = start.centers(
        multiview_model.Scaling(mean, np.ones(2)), np.array([0.1]), restart=0
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
