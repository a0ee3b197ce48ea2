"""Tests for fl_clustering.multiview.fitting: the grid, restarts, and views alone."""

from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from dp_clustering import point_grid
from fl_clustering.multiview import fitting
from fl_clustering.multiview import model as model_lib
from fl_clustering.multiview import multiview_config
from fl_clustering.multiview import server_step
from fl_clustering.multiview import sums as sums_lib
from fl_clustering.points import fitted
from fl_clustering.points import grid_scaling
from fl_clustering.points import secure_sums

_WIDTHS = (2, 1)
_GRID_WIDTHS = (3, 1, 2)


def _grid():
  clients = secure_sums.PointArrays(
      {}, secure_sums.Scaling(np.zeros(3), np.array([5.0, 6.0, 7.0]))
  )
  return grid_scaling.Grid(clients, 1.0, np.ones(3), num_points=500, num_rounds=6)


def _fit(view_costs):
  """Returns a fit of two views of equal weight, with these costs."""
  model = server_step.MultiViewModel(np.zeros((1, 3)), np.full(2, 0.5), 2.0, np.ones(2), _WIDTHS)
  costs = np.array(view_costs, float)
  record = server_step.RoundRecord(0.25 * costs.sum(), model.view_weights, costs, np.ones(1))
  return fitted.Fit(
      model_lib.FittedViews(model), _grid().clients.scaling, model.centers, (record,), 1,
      record.objective,
  )


class FittingTest(absltest.TestCase):

  def _best(self, rule, fits):
    """Returns the costs of the restart that is taken; keeps the columns' factors."""
    self.factors = []

    def run(problem, weigh, restart):
      del weigh
      factor = problem.grid.clients.scaling.factor
      self.factors.append(factor.tolist())
      alone = [view for view, place in enumerate(sums_lib.columns(_WIDTHS)) if factor[place].any()]
      # A view alone costs 1 and 100; of the others' costs nothing may be seen.
      return fits[restart] if len(alone) == 2 else _fit([[1.0, 7e9], [7e9, 100.0]][alone[0]])

    config = multiview_config.MultiViewConfig(1, view_weights=rule, n_init=len(fits))
    problem = fitting._Problem  # pylint: disable=protected-access
    with mock.patch.object(problem, "run", run), mock.patch.object(
        fitting, "find_view_grid", return_value=(_grid(), np.ones(2))
    ):
      return fitting.fit(config, _grid().clients, _WIDTHS).history[-1].view_costs

  def test_the_restart_with_the_lowest_objective_is_taken(self):
    fits = [_fit([9.0, 9.0]), _fit([1.5, 1.0]), _fit([1.0, 2.0])]
    np.testing.assert_array_equal(self._best("equal", fits), [1.5, 1.0])

  def test_regret_compares_restarts_in_units_of_what_views_cost_alone(self):
    # 101.5 is less than 121, but 1.5 + 1 is more than 1 + 1.2.
    fits = [_fit([1.5, 100.0]), _fit([1.0, 120.0]), _fit([0.9, 1000.0])]
    np.testing.assert_array_equal(self._best("equal", fits), [1.5, 100.0])
    self.assertEqual(self.factors, [[5, 6, 7]] * 3)
    np.testing.assert_array_equal(self._best("regret", fits), [1.0, 120.0])
    self.assertEqual(self.factors, [[5, 6, 0], [0, 0, 7], *[[5, 6, 7]] * 3])


def _points(num_points=200, seed=0):
  rng = np.random.default_rng(seed)
  points = rng.standard_normal((num_points, 6)) * [1, 1e-6, 30, 2, 0.01, 0.02]
  return points + [1e3, 0.0, -1e6, 5e9, 1.0, 0.0]


class ViewGridTest(parameterized.TestCase):

  def _find(self, clients, standardize=True, **settings):
    config = multiview_config.MultiViewConfig(1, standardize=standardize, **settings)
    return fitting.find_view_grid(config, secure_sums.hold(clients), _GRID_WIDTHS)

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

  def test_fields_of_a_view_count_alike_and_are_of_one_view(self):
    points = _points()
    grid, rates = self._find({"a": points}, field_widths=(1, 2, 1, 2))
    variances = np.rint(grid.clients.scaling.apply(points)).var(axis=0) * rates[0]
    fields = np.add.reduceat(variances, [0, 1, 3, 4])
    np.testing.assert_allclose(fields, [1 / 2, 1 / 2, 1, 1], rtol=1e-5)
    for field_widths in ((1, 1, 2, 2), (1, 2, 1)):
      with self.assertRaisesRegex(ValueError, "`field_widths`"):
        self._find({"a": points}, field_widths=field_widths)

  def test_all_of_the_spread_in_one_point_stays_in_the_ball(self):
    points = np.zeros((300, 6))
    points[7] = [1.0, 2.0, 3.0, -4.0, 1e6, 1e-3]
    for standardize in (True, False):
      scaled = self._find({"a": points}, standardize)[0].clients.scaling.apply(points)
      norms = np.linalg.norm(scaled, axis=1)
      self.assertBetween(norms.max(), 0.99 * point_grid.POINT_STEPS, point_grid.POINT_STEPS)

  def test_steps_of_a_column(self):
    points = _points()
    points[:, 4] = 1e7
    for standardize in (True, False):
      grid, _ = self._find({"a": points}, standardize)
      np.testing.assert_array_equal(np.flatnonzero(grid.clients.scaling.factor), [0, 1, 2, 3, 5])
      ranges = np.abs((points - grid.clients.scaling.shift) * grid.column_factor).max(axis=0)
      self.assertEqual(ranges[4], 0)
      self.assertBetween(np.delete(ranges, 4).min(), 2.0**36, 2.0**52)
      self.assertLess(ranges.max(), 2.0**52)
