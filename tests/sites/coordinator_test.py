"""Tests for fl_clustering.sites.coordinator: the bits are those of one process."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from dp_clustering import noise
from fl_clustering.kmeans import FederatedKMeans
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import private_fit
from fl_clustering.multiview import estimator as view_estimator
from fl_clustering.multiview import multiview_config
from fl_clustering.multiview import private_fit as private_view_fit
from fl_clustering.points import secure_sums
from fl_clustering.sites import coordinator as coordinator_lib
from tests.sites import sample_sites


def _same_bits(one, other):
  np.testing.assert_array_equal(np.asarray(one).view(np.uint8), np.asarray(other).view(np.uint8))


class FitTest(parameterized.TestCase):

  def _make(self, *args, **kwargs):
    return sample_sites.make(self.create_tempdir().full_path, *args, **kwargs)

  @parameterized.product(
      k=(1, 3, 8), standardize=(False, True), num_sites=(3, 5),
  )
  def test_kmeans_has_the_bits_of_one_process(self, k, standardize, num_sites):
    sites = self._make(num_sites)
    one = FederatedKMeans(k, standardize=standardize).fit(sites.rows)
    coordinator = sites.coordinator()
    config = kmeans_config.KMeansConfig(k, standardize=standardize)
    fit = coordinator_lib.fit_kmeans(config, coordinator)

    _same_bits(fit.centroids, one.cluster_centers_)
    self.assertEqual((fit.loss, fit.silhouette), (one.inertia_, one.silhouette_))
    self.assertEqual(fit.num_rounds, one.n_iter_)
    self.assertLen(coordinator.log, fit.num_rounds + 2)  # hello and keys.

  @parameterized.product(
      rule=("equal", "mvkm", "regret"), standardize=(False, True), num_sites=(3, 5),
  )
  def test_views_have_the_bits_of_one_process(self, rule, standardize, num_sites):
    sites = self._make(num_sites, widths=sample_sites.WIDTHS)
    settings = {"view_weights": rule, "standardize": standardize, "n_init": 2}
    views = {
        name: np.split(rows, [sample_sites.WIDTHS[0]], axis=1) for name, rows in sites.rows.items()
    }
    one = view_estimator.FederatedMultiViewKMeans(4, **settings).fit(views)
    config = multiview_config.MultiViewConfig(4, **settings)
    fit = coordinator_lib.fit_views(config, sites.coordinator())

    _same_bits(fit.centroids, np.concatenate(one.cluster_centers_, axis=1))
    _same_bits(fit.model.on_grid.view_weights, one.view_weights_)
    self.assertEqual((fit.loss, fit.num_rounds), (one.objective_, one.n_iter_))


if __name__ == "__main__":
  absltest.main()
