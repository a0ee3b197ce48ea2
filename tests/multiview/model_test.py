"""Tests for fl_clustering.multiview.model: clusters of points at a model."""

import warnings

from absl.testing import absltest
import numpy as np

from fl_clustering.multiview import model as model_lib
from fl_clustering.multiview import server_step
from fl_clustering.points import secure_sums


def _assign(points, centers, factor=1.0):
  centers = np.array(centers, float)
  num_views = centers.shape[1]
  model = server_step.MultiViewModel(
      centers, np.full(num_views, 1 / num_views), 2.0, np.full(num_views, 0.01),
      (1,) * num_views,
  )
  scaling = secure_sums.Scaling(np.full(num_views, 10.0), np.full(num_views, factor))
  fitted = model_lib.FittedViews(model, scaling, scaling.undo(centers))
  return fitted.assign(np.array(points, float)).tolist()


class AssignTest(absltest.TestCase):

  def test_points_are_rounded_to_the_grid_as_the_clients_of_the_fit_do(self):
    # 1.5 is as near to 0 as to 3, but counts as 2.
    self.assertEqual(_assign([[11.25], [11.5], [11.75]], [[0], [3]]), [0, 1, 1])
    self.assertEqual(_assign([[12.5], [13.5]], [[0], [3]], factor=0.5), [0, 1])

  def test_all_views_count(self):
    self.assertEqual(_assign([[10, 10], [10, 18], [18, 18]], [[0, 0], [1, 8]]), [0, 1, 1])

  def test_more_points_than_a_block(self):
    self.assertEqual(_assign([[10.0], [13.0]] * 3000, [[0], [3]]), [0, 1] * 3000)

  def test_far_points_give_no_warning(self):
    with warnings.catch_warnings():
      warnings.simplefilter("error")
      self.assertEqual(_assign([[1e300], [-1e300]], [[0], [3]]), [0, 0])
