"""Tests for fl_clustering.multiview.rounds."""

import unittest

from absl.testing import absltest
import numpy as np
from scipy import stats

from fl_clustering.multiview import client_views
from fl_clustering.multiview import rounds as rounds_lib
from fl_clustering.multiview import server_step
from fl_clustering.multiview import sums as sums_lib
from fl_clustering.points import noise as noise_lib
from fl_clustering.points import point_files
from fl_clustering.points import scaling as scaling_lib
from fl_clustering import runtime
from tests.multiview import central_reference
from tests.multiview import sample_views

_WIDTHS = sample_views.WIDTHS


def setUpModule():
  local = runtime.LocalRuntime()
  unittest.addModuleCleanup(local.close)


def _files(folder):
  """Returns the sample's `PointFiles`, and all of its points."""
  views = client_views.check_clients(sample_views.sample_views()[0], 1)
  points = np.concatenate(list(views.points.values()))
  return point_files.write_files(views.points, folder), points


class KernelRoundTest(absltest.TestCase):

  def test_is_one_central_iteration_of_scaled_points(self):
    files, points = _files(self.create_tempdir().full_path)
    scaling = scaling_lib.Scaling(points.mean(axis=0), 1 / points.std(axis=0))
    scaled = scaling.apply(points)
    model = server_step.MultiViewModel(
        centers=scaled[:4],
        view_weights=np.array([0.2, 0.5, 0.3]),
        alpha=2.0,
        betas=np.array([0.2, 0.5, 1.0]),
    )
    sums = rounds_lib.Rounds(files.scaled(scaling), _WIDTHS).kernel_sums(model)
    centers, clusters, costs = central_reference.iterate(
        scaled, model.centers, model.betas, model.view_factors, _WIDTHS
    )
    np.testing.assert_allclose(
        server_step.moved_centers(model.centers, sums, _WIDTHS), centers, atol=1e-12
    )
    np.testing.assert_allclose(sums["view_costs"], costs, atol=1e-12)
    np.testing.assert_array_equal(sums["counts"], np.bincount(clusters, minlength=4))

  def test_the_server_gets_nothing_but_sums(self):
    kernel_round = rounds_lib.build_kernel_round(point_files.scaled_files(9), _WIDTHS, 4)
    self.assertEqual(
        str(kernel_round.type_signature.result),
        "<weighted_points=float64[4,9],kernel_weights=float64[4,3],view_costs=float64[3],"
        "counts=float64[4]>@SERVER",
    )


class NoisyKernelRoundTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    files, points = _files(self.create_tempdir().full_path)
    norms = np.array([20.0, 1500.0, 0.2])
    scaling = scaling_lib.Scaling(np.zeros(9), 1 / np.repeat(norms, _WIDTHS))
    self.files = files.scaled(scaling)
    # So many clusters that one round draws many numbers.
    self.model = server_step.MultiViewModel(
        centers=server_step.first_private_centers(40, _WIDTHS, np.random.default_rng(0)),
        view_weights=np.full(3, 1 / 3),
        alpha=2.0,
        betas=np.ones(3),
    )
    projected = sums_lib.project(scaling.apply(points), _WIDTHS)
    self.exact = _flat(
        sums_lib.kernel_sums(
            projected, self.model.centers, self.model.betas, self.model.view_factors, _WIDTHS
        )
    )

  def _rounds(self, std):
    return rounds_lib.Rounds(
        self.files, _WIDTHS, local_sums=sums_lib.projected_sums,
        sum_factory=noise_lib.noisy_sum_factory(std),
    )

  def test_without_noise_it_is_the_round_over_projected_points(self):
    sums = _flat(self._rounds(1e-9).kernel_sums(self.model))
    np.testing.assert_allclose(sums, self.exact, atol=1e-4)
    # Some points are outside the balls, or this would test nothing.
    plain = _flat(rounds_lib.Rounds(self.files, _WIDTHS).kernel_sums(self.model))
    self.assertGreater(np.abs(plain - self.exact).max(), 1e-2)

  def test_the_noise_is_gaussian_of_the_stated_size_and_new_in_every_round(self):
    std = 7 * np.sqrt(7)
    noisy_rounds = self._rounds(std)
    noise = [_flat(noisy_rounds.kernel_sums(self.model)) - self.exact for _ in range(4)]
    # About 2,000 numbers; one failure in a million runs of a right program.
    self.assertGreater(stats.kstest(np.concatenate(noise) / std, "norm").pvalue, 1e-6)
    for first in range(4):
      for second in range(first):
        correlation = np.corrcoef(noise[first], noise[second])[0, 1]
        self.assertLess(abs(correlation), 0.25)


def _flat(sums):
  return np.concatenate([np.ravel(value) for value in sums.values()])


if __name__ == "__main__":
  absltest.main()
