"""Tests for fl_clustering.multiview.view_grid."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from dp_clustering import point_grid
from fl_clustering.multiview import view_grid
from fl_clustering.points import point_arrays

_WIDTHS = (3, 1, 2)


def _points(num_points=200, seed=0):
  rng = np.random.default_rng(seed)
  points = rng.standard_normal((num_points, 6)) * [1, 1e-6, 30, 2, 0.01, 0.02]
  return points + [1e3, 0.0, -1e6, 5e9, 1.0, 0.0]


class ViewGridTest(parameterized.TestCase):

  def _find(self, clients, standardize=True):
    return view_grid.find_view_grid(point_arrays.hold(clients), _WIDTHS, standardize)

  @parameterized.named_parameters(("standardised", True), ("own_units", False))
  def test_every_view_has_the_same_spread_around_the_mean(self, standardize):
    points = _points()
    grid, rates = self._find({"a": points[:150], "b": points[150:]}, standardize)
    scaled = np.rint(grid.clients.scaling.apply(points))
    self.assertLess(np.abs(scaled.mean(axis=0) * np.sqrt(rates[0])).max(), 1e-4)
    variances = scaled.var(axis=0)
    for view, columns in enumerate((slice(0, 3), slice(3, 4), slice(4, 6))):
      np.testing.assert_allclose(variances[columns].sum() * rates[view], 1.0, rtol=1e-5)
      own = points.var(axis=0)[columns]
      expected = np.full(len(own), 1 / len(own)) if standardize else own / own.sum()
      np.testing.assert_allclose(
          variances[columns] * rates[view], expected, rtol=1e-5, atol=1e-11
      )
    self.assertLess(np.linalg.norm(scaled, axis=1).max(), point_grid.POINT_STEPS)
    np.testing.assert_allclose(grid.clients.scaling.undo(scaled), points, rtol=1e-5, atol=1e-4)

  def test_all_of_the_spread_in_one_point_stays_in_the_ball(self):
    points = np.zeros((300, 6))
    points[7] = [1.0, 2.0, 3.0, -4.0, 1e6, 1e-3]
    for standardize in (True, False):
      scaled = self._find({"a": points}, standardize)[0].clients.scaling.apply(points)
      norms = np.linalg.norm(scaled, axis=1)
      self.assertBetween(norms.max(), 0.99 * point_grid.POINT_STEPS, point_grid.POINT_STEPS)

  def test_neither_the_split_nor_the_order_changes_a_bit(self):
    points = _points()
    first, first_rates = self._find({"a": points})
    order = np.random.default_rng(1).permutation(200)
    second, second_rates = self._find({
        "x": points[order[:1]], "y": points[order[1:90]], "z": points[order[90:]],
    })
    np.testing.assert_array_equal(first.clients.scaling.shift, second.clients.scaling.shift)
    np.testing.assert_array_equal(first.clients.scaling.factor, second.clients.scaling.factor)
    np.testing.assert_array_equal(first_rates, second_rates)
    np.testing.assert_array_equal(first.column_factor, second.column_factor)

  def test_steps_of_a_column(self):
    points = _points()
    points[:, 4] = 1e7
    for standardize in (True, False):
      grid, _ = self._find({"a": points}, standardize)
      ranges = np.abs((points - grid.clients.scaling.shift) * grid.column_factor).max(axis=0)
      self.assertEqual(ranges[4], 0)
      self.assertBetween(np.delete(ranges, 4).min(), 2.0**36, 2.0**52)
      self.assertLess(ranges.max(), 2.0**52)

  def test_columns_that_do_not_vary_are_dropped(self):
    points = _points()
    points[:, [1, 4]] = [0.1, 1e7]
    for standardize in (True, False):
      grid, _ = self._find({"a": points}, standardize)
      np.testing.assert_array_equal(grid.clients.scaling.factor[[1, 4]], 0)
      self.assertTrue(np.all(grid.clients.scaling.factor[[0, 2, 3, 5]] > 0))
      centers = grid.clients.scaling.undo(np.zeros((1, 6)))[0]
      np.testing.assert_allclose(centers[[1, 4]], [0.1, 1e7], rtol=1e-6)

  def test_a_view_that_does_not_vary_is_refused(self):
    points = _points()
    points[:, 3] = 5.0
    with self.assertRaisesRegex(ValueError, "views that vary .* everywhere in view 1"):
      self._find({"a": points})


if __name__ == "__main__":
  absltest.main()
