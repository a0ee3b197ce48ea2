"""Tests for fl_clustering.multiview.multiview_model."""

from absl.testing import absltest
import numpy as np

from fl_clustering.multiview import multiview_model

_WIDTHS = (2, 1)
_SUMS = {
    "weighted_points": np.array([[2.0, 4.0, 9.0], [0.0, 0.0, 0.0]]),
    "kernel_weights": np.array([[2.0, 3.0], [0.0, 0.0]]),
    "view_costs": np.array([5.0, 7.0]),
    "counts": np.array([4.0, 0.0]),
}


def _model():
  return multiview_model.MultiViewModel(
      centers=np.array([[9.0, 9.0, 9.0], [7.0, 8.0, 6.0]]),
      view_weights=np.array([0.25, 0.75]),
      alpha=2.0,
      betas=np.array([1.0, 2.0]),
      scaling=multiview_model.Scaling(np.zeros(3), np.ones(3)),
  )


class MultiViewModelTest(absltest.TestCase):

  def test_centers_move_to_the_weighted_means_and_stay_without_points(self):
    moved = multiview_model.moved_centers(_model().centers, _SUMS, _WIDTHS)
    np.testing.assert_allclose(moved, [[1.0, 2.0, 3.0], [7.0, 8.0, 6.0]])

  def test_a_center_stays_in_the_views_where_its_weight_is_too_small(self):
    moved = multiview_model.moved_centers(_model().centers, _SUMS, _WIDTHS, 2.5)
    np.testing.assert_allclose(moved[0], [9.0, 9.0, 3.0])

  def test_next_model_has_the_new_weights_and_nothing_else_new(self):
    model = _model()
    after = multiview_model.next_model(
        model, _SUMS, _WIDTHS, lambda costs: costs / costs.sum()
    )
    np.testing.assert_allclose(after.view_weights, [5 / 12, 7 / 12])
    self.assertEqual(after.alpha, 2.0)
    np.testing.assert_array_equal(model.centers[0], [9.0, 9.0, 9.0])

  def test_record_is_of_the_model_that_was_sent(self):
    record = multiview_model.record(_model(), _SUMS)
    self.assertAlmostEqual(record.objective, 0.0625 * 5 + 0.5625 * 7)
    np.testing.assert_array_equal(record.cluster_sizes, [4, 0])

  def test_scaling_and_back(self):
    scaling = multiview_model.Scaling(np.array([1.0, 5.0, 2.0]), np.array([2.0, 0.0, 0.5]))
    points = np.array([[3.0, 5.0, 4.0], [0.0, 5.0, 2.0]])
    scaled = scaling.apply(points)
    np.testing.assert_allclose(scaled, [[4.0, 0.0, 1.0], [-2.0, 0.0, 0.0]])
    np.testing.assert_allclose(scaling.undo(scaled), points)


if __name__ == "__main__":
  absltest.main()
