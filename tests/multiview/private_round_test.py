"""Tests for fl_clustering.multiview.private_round."""

import unittest

from absl.testing import absltest
import numpy as np
from scipy import stats

from fl_clustering.kmeans import point_source
from fl_clustering.multiview import client_views
from fl_clustering.multiview import kernel_sums
from fl_clustering.multiview import multiview_model
from fl_clustering.multiview import multiview_rounds
from fl_clustering.multiview import private_round
from fl_clustering import runtime
from tests.multiview import sample_views

_WIDTHS = sample_views.WIDTHS
_NUM_CLUSTERS = 40  # So that one round draws many numbers.


def setUpModule():
  local = runtime.LocalRuntime()
  unittest.addModuleCleanup(local.close)


def _model():
  norms = np.array([20.0, 1500.0, 0.2])
  return multiview_model.MultiViewModel(
      centers=private_round.first_centers(_NUM_CLUSTERS, _WIDTHS, np.random.default_rng(0)),
      view_weights=np.full(3, 1 / 3),
      alpha=2.0,
      betas=np.ones(3),
      scaling=multiview_model.Scaling(np.zeros(9), 1 / np.repeat(norms, _WIDTHS)),
  )


def _flat(sums):
  return np.concatenate([np.ravel(value) for value in sums.values()])


class PrivateRoundTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    views = client_views.check_clients(sample_views.sample_views()[0], 1)
    self.paths = list(
        point_source.write_files(views.points, self.create_tempdir().full_path).values()
    )
    self.points = np.concatenate(list(views.points.values()))

  def _exact(self, model):
    points = kernel_sums.project(model.scaling.apply(self.points), _WIDTHS)
    return kernel_sums.kernel_sums(
        points, model.centers, model.betas, model.view_factors, _WIDTHS
    )

  def test_without_noise_it_is_the_round_over_projected_points(self):
    model = _model()
    round_without = private_round.build_private_kernel_round(_WIDTHS, _NUM_CLUSTERS, 1e-9)
    np.testing.assert_allclose(
        _flat(round_without(model.message(), self.paths)), _flat(self._exact(model)), atol=1e-4
    )
    # Some points are outside the balls, or this would test nothing.
    plain = multiview_rounds.build_kernel_round(_WIDTHS, _NUM_CLUSTERS)
    difference = _flat(plain(model.message(), self.paths)) - _flat(self._exact(model))
    self.assertGreater(np.abs(difference).max(), 1e-2)

  def test_the_noise_is_gaussian_of_the_stated_size_and_new_in_every_round(self):
    model = _model()
    multiplier = 7.0
    noisy_round = private_round.build_private_kernel_round(_WIDTHS, _NUM_CLUSTERS, multiplier)
    exact = _flat(self._exact(model))
    noise = [_flat(noisy_round(model.message(), self.paths)) - exact for _ in range(4)]
    std = private_round.noise_std(multiplier, 3)
    self.assertAlmostEqual(std, 7 * np.sqrt(7))
    # About 2,000 numbers; one failure in a million runs of a right program.
    self.assertGreater(stats.kstest(np.concatenate(noise) / std, "norm").pvalue, 1e-6)
    for first in range(4):
      for second in range(first):
        correlation = np.corrcoef(noise[first], noise[second])[0, 1]
        self.assertLess(abs(correlation), 0.25)

  def test_empty_clusters_split_the_largest(self):
    model = _model()
    sums = {
        "weighted_points": np.full((_NUM_CLUSTERS, 9), 100.0),
        "kernel_weights": np.full((_NUM_CLUSTERS, 3), 1000.0),
        "view_costs": np.ones(3),
        "counts": np.full(_NUM_CLUSTERS, 1000.0),
    }
    sums["weighted_points"][5] = 200.0
    sums["counts"][5] = 3000.0
    sums["counts"][[0, 7]] = 39.0, -50.0
    after = private_round.next_model(
        model, sums, _WIDTHS, lambda costs: np.full(3, 1 / 3), 10.0, np.random.default_rng(0)
    )
    np.testing.assert_allclose(after.centers[5], 0.2)
    np.testing.assert_allclose(after.centers[6], 0.1)
    for empty in (0, 7):
      distance = np.linalg.norm(after.centers[empty] - after.centers[5])
      self.assertBetween(distance, 0.01, 0.3)

  def test_centers_stay_in_the_balls(self):
    sums = {
        "weighted_points": np.full((_NUM_CLUSTERS, 9), 1e6),
        "kernel_weights": np.full((_NUM_CLUSTERS, 3), 100.0),
        "view_costs": np.ones(3),
        "counts": np.full(_NUM_CLUSTERS, 100.0),
    }
    after = private_round.next_model(
        _model(), sums, _WIDTHS, lambda costs: np.full(3, 1 / 3), 1.0, np.random.default_rng(0)
    )
    for view in np.split(after.centers, np.cumsum(_WIDTHS)[:-1], axis=1):
      self.assertLessEqual(np.linalg.norm(view, axis=1).max(), 1 + 1e-12)


if __name__ == "__main__":
  absltest.main()
