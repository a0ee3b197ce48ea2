import math

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from dp_clustering import point_grid
from fl_clustering.multiview import server_step
from fl_clustering.multiview import sums as sums_lib

_WIDTHS = (3, 1, 2)
_BETAS = np.array([0.2, 1.0, 0.05])
_WEIGHTS = np.array([0.5, 0.2, 0.3])
# Grid steps to the unit of the points here, which are within a radius of 16.
_STEPS = point_grid.POINT_STEPS / 16


def _points(num_points, seed=0):
  points = np.random.default_rng(seed).standard_normal((num_points, sum(_WIDTHS)))
  return np.rint(points * _STEPS)


def _model(centers, weights=_WEIGHTS):
  return server_step.MultiViewModel(centers, weights, 2.0, _BETAS / _STEPS**2, _WIDTHS)


def _totals(query, points):
  """Returns the totals, as whoever holds the points computes them."""
  groups, values = query.kind.contributions(np, points, query.arrays)
  totals = np.zeros(query.shape, np.int64)
  np.add.at(totals, groups, np.trunc(values).astype(np.int64))
  return totals


class DecayTest(absltest.TestCase):

  def test_is_the_exponential_function(self):
    exponents = np.concatenate([
        [0.0, 1e-300, 1e-17, 1e-9], np.linspace(0, 512, 20_001), np.logspace(-8, 2.7, 5001),
    ])
    found = sums_lib.decay(exponents)
    expected = np.array([math.exp(-t) for t in exponents])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    self.assertEqual(found[0], 1.0)

  def test_every_number_is_rounded_by_itself(self):
    exponents = np.random.default_rng(0).gamma(0.5, 20.0, 4099)
    whole = sums_lib.decay(exponents)
    for start, end in ((0, 4099), (1, 4099), (3, 10), (17, 18), (2, 2050)):
      np.testing.assert_array_equal(whole[start:end], sums_lib.decay(exponents[start:end]))


def _fine(model, points):
  """Returns the query of points in finer steps, and the points.

  The first column is wide, the second within one cell of the grid.
  """
  cells = np.array([2.0**-27, 2.0**-60, *[2.0**-25] * 4])
  narrowed = points * [1, 2e-9, 1, 1, 1, 1]
  return server_step.fine_query(model, cells), np.rint(narrowed / cells)


class FineKernelSumsTest(absltest.TestCase):

  def test_a_center_without_points_stays(self):
    model = _model(np.concatenate([_points(2, seed=1), np.full((1, 6), -4 * _STEPS)]))
    query, points = _fine(model, _points(2, seed=1))
    found = server_step.fine_means(query, _totals(query, points))
    np.testing.assert_array_equal(found[2], model.centers[2])

  def test_contributions_fit_into_a_message(self):
    model = _model(_points(5, seed=1))
    query, points = _fine(model, _points(2000, seed=2))
    limits = np.rint(np.random.default_rng(0).choice([-1, 1], (50, 6)) * 2.0**52)
    points = np.concatenate([points, limits])
    _, values = query.kind.contributions(np, points, query.arrays)
    self.assertLess(np.abs(values).max(), 2.0**31)


class KernelSumsTest(parameterized.TestCase):

  def test_a_point_far_from_all_centers_still_has_a_nearest(self):
    # 1 - exp(-t) is one for all of them.
    points = np.array([[50.0]]) * _STEPS
    model = server_step.MultiViewModel(
        np.array([[0.0], [30.0], [31.0], [29.0]]) * _STEPS, np.ones(1), 2.0,
        np.array([1 / _STEPS**2]), (1,),
    )
    self.assertEqual(sums_lib.nearest(points, model.arrays(), (1,)), [2])

  def test_ties_go_to_the_first_cluster(self):
    points = np.array([[0.0], [7.0]])
    model = server_step.MultiViewModel(
        np.array([[3.0], [-3.0], [11.0], [3.0]]), np.ones(1), 2.0, np.array([0.01]), (1,)
    )
    np.testing.assert_array_equal(sums_lib.nearest(points, model.arrays(), (1,)), [0, 0])

  @parameterized.parameters(2.0, 5000.0)
  def test_a_view_without_weight_does_not_decide(self, alpha):
    points = _points(60)
    model = server_step.MultiViewModel(
        _points(4, seed=1), np.array([0.5, 0.0, 0.5]), alpha, _BETAS / _STEPS**2, _WIDTHS
    )
    changed = points + 10.0 * _STEPS * (np.arange(6) == 3)
    before, after = (
        sums_lib.nearest(one, model.arrays(), _WIDTHS) for one in (points, changed)
    )
    np.testing.assert_array_equal(before, after)
    self.assertLen(np.unique(before), 4)

  def test_contributions_fit_into_a_message(self):
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 30.0, 1e4):
      model = server_step.MultiViewModel(
          _points(4, seed=1), _WEIGHTS, 2.0, scale * _BETAS / _STEPS**2, _WIDTHS
      )
      query = model.query()
      points = point_grid.POINT_STEPS * rng.standard_normal((500, 6)) / 6
      _, values = query.kind.contributions(np, np.rint(points), query.arrays)
      self.assertLess(np.abs(values).max(), 2.0**31)


def _border_rows(model, widths, num_rows, rng):
  """Returns rows that two centers are equally near to, up to the grid, and their middles."""
  first, second = model.centers[0], model.centers[1]
  middle = np.rint((first + second) / 2)
  directions = rng.standard_normal((num_rows, len(first)))
  across = (second - first) / np.linalg.norm(second - first)
  directions -= np.outer(directions @ across, across)
  spread = point_grid.POINT_STEPS / 10 / np.linalg.norm(directions, axis=1, keepdims=True)
  rows = middle + rng.uniform(size=(num_rows, 1)) * spread * directions
  return np.concatenate([np.rint(rows), middle[np.newaxis], model.centers])


class SensitivityTest(parameterized.TestCase):
  """One row more changes the totals by what it adds, and that is bounded."""

  def test_other_rows_do_not_change_what_a_row_adds(self):
    rng = np.random.default_rng(0)
    model = _model(_points(3, seed=1))
    query = model.query(point_grid.CONTRIBUTION_STEPS)
    rows = _border_rows(model, _WIDTHS, 60, rng)
    alone = [_totals(query, row[np.newaxis]) for row in rows]
    crowd = _points(2100, seed=2)
    for row, own in zip(rows[::20], alone[::20]):
      for num_copies in (1, 15, 16, 33):
        copies = np.repeat(row[np.newaxis], num_copies, axis=0)
        np.testing.assert_array_equal(_totals(query, copies), num_copies * own)
    before = _totals(query, crowd)
    for place in (0, 1023, 2099):
      for row, own in zip(rows[::21], alone[::21]):
        crowded = np.insert(crowd, place, row, axis=0)
        np.testing.assert_array_equal(_totals(query, crowded) - before, own)

  @parameterized.parameters((1, 0.5), (2, 0.25), (6, 1.0))
  def test_no_row_adds_more_than_is_stated(self, num_views, count_weight):
    rng = np.random.default_rng(0)
    widths = (2,) * num_views
    steps = point_grid.CONTRIBUTION_STEPS
    largest = 0.0
    for spread in (0.0, 1e-6, 1e-3, 0.03, 0.3, 1.0):
      # A row on a center, which adds the most, and rows near and far.
      rows = point_grid.POINT_STEPS / 8 * rng.standard_normal((50, 2 * num_views))
      rows = np.rint(rows)
      shift = spread * point_grid.POINT_STEPS / 4 * rng.standard_normal((50, 2 * num_views))
      for rate in (1.0, 30.0, 1e4):
        for row, offset in zip(rows, shift):
          model = server_step.MultiViewModel(
              np.rint(row + offset)[np.newaxis], np.full(num_views, 1 / num_views), 2.0,
              np.full(num_views, rate / point_grid.POINT_STEPS**2), widths,
          )
          query = model.query(steps)
          parts = query.split(_totals(query, row[np.newaxis]) / steps)
          parts["counts"] = parts["counts"] * count_weight
          largest = max(largest, math.hypot(*np.concatenate([*parts.values()], axis=1)[0]))
    bound = sums_lib.sensitivity(num_views, count_weight)
    self.assertLessEqual(largest, bound)
    self.assertGreater(largest, 0.999 * bound)
