from absl.testing import absltest
import numpy as np

from dp_clustering import point_grid
from fl_clustering.multiview import server_step

_SUMS = server_step.KernelStatistics(
    residual_sums=np.array([[-16.0, 4.0, 12.0], [0.0, 0.0, 0.0]]),
    kernel_weights=np.array([[2.0, 3.0], [0.0, 0.0]]),
    counts=np.array([9.0, 4.0]),  # Four are too far away for the kernel to see.
)


def _model(**changes):
  settings = {
      "centers": np.array([[9.0, 9.0, 9.0], [7.0, 8.0, 6.0]]),
      "view_weights": np.array([0.25, 0.75]),
      "alpha": 2.0,
      "rates": np.array([1.0, 4.0]), "widths": (2, 1),
  }
  return server_step.MultiViewModel(**{**settings, **changes})


class MultiViewModelTest(absltest.TestCase):

  def test_a_center_stays_in_the_views_where_its_weight_is_too_small(self):
    moves = server_step.moves(_model(), _SUMS, 2.5)
    np.testing.assert_allclose(moves[0], [0.0, 0.0, 2.0])

  def test_centers_are_integers_in_the_ball(self):
    centers = np.array([[0.4, -1.6], [1e9, 0.0], [3e8, -4e8]])
    expected = point_grid.POINT_STEPS * np.array([[1.0, 0.0], [0.6, -0.8]])
    np.testing.assert_array_equal(
        server_step.on_grid(centers), [[0.0, -2.0], *np.rint(expected)]
    )

  def test_factors_are_relative_to_the_largest_and_never_tiny(self):
    arrays = _model(alpha=3.0).arrays()
    np.testing.assert_allclose(arrays["factors"], [[1 / 27, 1.0]] * 2)
    np.testing.assert_array_equal(arrays["rates"], [[1.0, 4.0]] * 2)
    arrays = _model(alpha=700.0).arrays()
    np.testing.assert_array_equal(arrays["factors"], [[0.0, 1.0]] * 2)
