"""Tests for fl_clustering.multiview.server_step."""

from absl.testing import absltest
import numpy as np

from fl_clustering.multiview import server_step

_WIDTHS = (2, 1)
_PRIVATE_WIDTHS = (4, 2, 3)
_SUMS = {
    "weighted_points": np.array([[2.0, 4.0, 9.0], [0.0, 0.0, 0.0]]),
    "kernel_weights": np.array([[2.0, 3.0], [0.0, 0.0]]),
    "view_costs": np.array([5.0, 7.0]),
    "counts": np.array([4.0, 0.0]),
}


def _model():
  return server_step.MultiViewModel(
      centers=np.array([[9.0, 9.0, 9.0], [7.0, 8.0, 6.0]]),
      view_weights=np.array([0.25, 0.75]),
      alpha=2.0,
      betas=np.array([1.0, 2.0]),
  )


class MultiViewModelTest(absltest.TestCase):

  def test_centers_move_to_the_weighted_means_and_stay_without_points(self):
    moved = server_step.moved_centers(_model().centers, _SUMS, _WIDTHS)
    np.testing.assert_allclose(moved, [[1.0, 2.0, 3.0], [7.0, 8.0, 6.0]])

  def test_a_center_stays_in_the_views_where_its_weight_is_too_small(self):
    moved = server_step.moved_centers(_model().centers, _SUMS, _WIDTHS, 2.5)
    np.testing.assert_allclose(moved[0], [9.0, 9.0, 3.0])

  def test_next_model_has_the_new_weights_and_nothing_else_new(self):
    model = _model()
    after = server_step.next_model(
        model, _SUMS, _WIDTHS, lambda costs: costs / costs.sum()
    )
    np.testing.assert_allclose(after.view_weights, [5 / 12, 7 / 12])
    self.assertEqual(after.alpha, 2.0)
    np.testing.assert_array_equal(model.centers[0], [9.0, 9.0, 9.0])

  def test_record_is_of_the_model_that_was_sent(self):
    record = server_step.record(_model(), _SUMS)
    self.assertAlmostEqual(record.objective, 0.0625 * 5 + 0.5625 * 7)
    np.testing.assert_array_equal(record.cluster_sizes, [4, 0])


class PrivateModelTest(absltest.TestCase):

  def _next(self, sums, num_clusters, std):
    centers = server_step.first_private_centers(
        num_clusters, _PRIVATE_WIDTHS, np.random.default_rng(0)
    )
    model = server_step.MultiViewModel(centers, np.full(3, 1 / 3), 2.0, np.ones(3))
    return server_step.next_private_model(
        model, sums, _PRIVATE_WIDTHS, lambda costs: np.full(3, 1 / 3), std,
        np.random.default_rng(0),
    )

  def test_empty_clusters_split_the_largest(self):
    sums = {
        "weighted_points": np.full((40, 9), 100.0),
        "kernel_weights": np.full((40, 3), 1000.0),
        "view_costs": np.ones(3),
        "counts": np.full(40, 1000.0),
    }
    sums["weighted_points"][5] = 200.0
    sums["counts"][5] = 3000.0
    sums["counts"][[0, 7]] = 39.0, -50.0
    after = self._next(sums, 40, 10.0)
    np.testing.assert_allclose(after.centers[5], 0.2)
    np.testing.assert_allclose(after.centers[6], 0.1)
    for empty in (0, 7):
      distance = np.linalg.norm(after.centers[empty] - after.centers[5])
      self.assertBetween(distance, 0.01, 0.3)

  def test_centers_stay_in_the_balls(self):
    sums = {
        "weighted_points": np.full((40, 9), 1e6),
        "kernel_weights": np.full((40, 3), 100.0),
        "view_costs": np.ones(3),
        "counts": np.full(40, 100.0),
    }
    after = self._next(sums, 40, 1.0)
    for view in np.split(after.centers, np.cumsum(_PRIVATE_WIDTHS)[:-1], axis=1):
      self.assertLessEqual(np.linalg.norm(view, axis=1).max(), 1 + 1e-12)


if __name__ == "__main__":
  absltest.main()
