"""Tests for fl_clustering.multiview.fitting: restarts, and views alone."""

from unittest import mock

from absl.testing import absltest
import numpy as np

from clustering_basics import randomness
from dp_clustering import point_grid
from dp_clustering import private_sums
from fl_clustering.kmeans import split_and_swap
from fl_clustering.multiview import fitting
from fl_clustering.multiview import model as model_lib
from fl_clustering.multiview import multiview_config
from fl_clustering.multiview import server_step
from fl_clustering.multiview import sums as sums_lib
from fl_clustering.multiview import view_grid
from fl_clustering.points import federated_points
from fl_clustering.points import fitted
from fl_clustering.points import grid_scaling
from fl_clustering.points import point_arrays
from fl_clustering.points import scaling as scaling_lib

_WIDTHS = (2, 1)


def _grid():
  clients = point_arrays.PointArrays(
      {}, scaling_lib.Scaling(np.zeros(3), np.array([5.0, 6.0, 7.0]))
  )
  return grid_scaling.Grid(clients, 1.0, np.ones(3), num_points=500, num_rounds=6)


def _fit(view_costs):
  """Returns a fit of two views of equal weight, with these costs."""
  model = server_step.MultiViewModel(np.zeros((1, 3)), np.full(2, 0.5), 2.0, np.ones(2))
  costs = np.array(view_costs, float)
  record = server_step.RoundRecord(0.25 * costs.sum(), model.view_weights, costs, np.ones(1))
  views = model_lib.FittedViews(model, _grid().clients.scaling, model.centers, _WIDTHS)
  return fitted.Fit(views, (record,), 1, record.objective)


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
    with mock.patch.object(fitting._Problem, "run", run), mock.patch.object(  # pylint: disable=protected-access
        view_grid, "find_view_grid", return_value=(_grid(), np.ones(2))
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

  def test_a_restart_begins_with_the_centers_of_k_means_on_all_views(self):
    # No clusters: it takes many rounds until nothing moves.
    points = np.random.default_rng(0).uniform(-0.5, 0.5, (500, 3))
    points = np.rint(point_grid.POINT_STEPS * points)
    pooled = private_sums.PooledPoints(points, point_grid.POINT_STEPS)
    rng = randomness.generator(7, "first centers", 2)
    total_square = sum(int(value) ** 2 for value in points.flat)
    expected = split_and_swap.sums_kmeans(pooled.totals, 3, total_square, 10, rng)
    self.assertGreater(len(expected.history), 25)
    problem = fitting._Problem(  # pylint: disable=protected-access
        multiview_config.MultiViewConfig(10, seed=7), _grid(), np.ones(2), _WIDTHS
    )
    with mock.patch.object(
        federated_points.FederatedPoints, "totals", lambda self, query: pooled.totals(query)
    ):
      found = problem._first_centers(2)  # pylint: disable=protected-access
    np.testing.assert_array_equal(found, expected.centers)


if __name__ == "__main__":
  absltest.main()
