"""Tests for fl_clustering.multiview.model: clusters of points at a model."""

import warnings

from absl.testing import absltest
import numpy as np

from fl_clustering.multiview import model as model_lib
from fl_clustering.multiview import server_step


def _assign(points, centers):
  centers = np.array(centers, float)
  num_views = centers.shape[1]
  model = server_step.MultiViewModel(
      centers, np.full(num_views, 1 / num_views), 2.0, np.full(num_views, 0.01),
      (1,) * num_views,
  )
  return model_lib.FittedViews(model).assign(np.array(points, float)).tolist()


class AssignTest(absltest.TestCase):

  def test_points_are_rounded_to_the_grid_as_the_clients_of_the_fit_do(self):
    # 1.5 is as near to 0 as to 3, but counts as 2.
    self.assertEqual(_assign([[1.25], [1.5], [1.75]], [[0], [3]]), [0, 1, 1])

  def test_all_views_count(self):
    self.assertEqual(_assign([[0, 0], [0, 8], [8, 8]], [[0, 0], [1, 8]]), [0, 1, 1])

  def test_more_points_than_a_block(self):
    self.assertEqual(_assign([[0.0], [3.0]] * 3000, [[0], [3]]), [0, 1] * 3000)

  def test_far_points_give_no_warning(self):
    with warnings.catch_warnings():
      warnings.simplefilter("error")
      self.assertEqual(_assign([[1e300], [-1e300]], [[0], [3]]), [0, 0])
