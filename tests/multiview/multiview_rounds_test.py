"""Tests for fl_clustering.multiview.multiview_rounds."""

import unittest

from absl.testing import absltest
import numpy as np

from fl_clustering.kmeans import point_source
from fl_clustering.multiview import client_views
from fl_clustering.multiview import multiview_model
from fl_clustering.multiview import multiview_rounds
from fl_clustering import runtime
from tests.multiview import central_reference
from tests.multiview import sample_views

_WIDTHS = sample_views.WIDTHS


def setUpModule():
  local = runtime.LocalRuntime()
  unittest.addModuleCleanup(local.close)


class MultiViewRoundsTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    clients, _ = sample_views.sample_views()
    views = client_views.check_clients(clients, 1)
    self.paths = list(
        point_source.write_files(views.points, self.create_tempdir().full_path).values()
    )
    self.points = np.concatenate(list(views.points.values()))

  def test_column_sums(self):
    num_points, sums = multiview_rounds.build_column_sums(sum(_WIDTHS))(self.paths)
    self.assertEqual(num_points, len(self.points))
    np.testing.assert_allclose(sums, self.points.sum(axis=0), rtol=1e-12)

  def test_column_squares(self):
    mean = self.points.mean(axis=0)
    squares = multiview_rounds.build_column_squares(sum(_WIDTHS))(mean, self.paths)
    np.testing.assert_allclose(squares, ((self.points - mean) ** 2).sum(axis=0), rtol=1e-12)

  def test_kernel_round_is_one_central_iteration_of_scaled_points(self):
    scaling = multiview_model.Scaling(self.points.mean(axis=0), 1 / self.points.std(axis=0))
    scaled = scaling.apply(self.points)
    model = multiview_model.MultiViewModel(
        centers=scaled[:4],
        view_weights=np.array([0.2, 0.5, 0.3]),
        alpha=2.0,
        betas=np.array([0.2, 0.5, 1.0]),
        scaling=scaling,
    )
    kernel_round = multiview_rounds.build_kernel_round(_WIDTHS, 4)
    sums = kernel_round(model.message(), self.paths)
    centers, clusters, costs = central_reference.iterate(
        scaled, model.centers, model.betas, model.view_factors, _WIDTHS
    )
    np.testing.assert_allclose(
        multiview_model.moved_centers(model.centers, sums, _WIDTHS), centers, atol=1e-12
    )
    np.testing.assert_allclose(sums["view_costs"], costs, atol=1e-12)
    np.testing.assert_array_equal(sums["counts"], np.bincount(clusters, minlength=4))

  def test_the_server_gets_nothing_but_sums(self):
    kernel_round = multiview_rounds.build_kernel_round(_WIDTHS, 4)
    self.assertEqual(
        str(kernel_round.type_signature.result),
        "<weighted_points=float64[4,9],kernel_weights=float64[4,3],view_costs=float64[3],"
        "counts=float64[4]>@SERVER",
    )


if __name__ == "__main__":
  absltest.main()
