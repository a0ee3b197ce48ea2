import types
from unittest import mock

from absl.testing import parameterized
import numpy as np
from sklearn import datasets

from dp_clustering import point_grid
from fl_clustering.points import grid_scaling
from fl_clustering.points import secure_sums


def _samples():
  rng = np.random.default_rng(0)
  return {
      "wine": datasets.load_wine().data,
      "epoch_seconds": 1.7e9 + rng.integers(0, 3 * 10**7, (300, 1)).astype(float),
      "far_and_narrow": 1e9 + 1e-3 * rng.standard_normal((300, 2)),
      "large": 1e99 * rng.standard_normal((30, 2)),
      "small": 1e-80 * rng.standard_normal((30, 2)),
      "columns_of_many_units": rng.standard_normal((200, 3)) * [1e-9, 1.0, 1e12],
      "a_tiny_column": rng.standard_normal((200, 2)) * [1e-102, 1.0],
      "an_outlier": np.append(rng.standard_normal((100, 1)), [[9999.0]], axis=0),
      "as_wide_as_its_bounds": np.array([[-255.9], [255.9]]) / 16,
      "constant": np.full((50, 2), 3.7),
      "zeros": np.zeros((9, 3)),
      "one_point": np.array([[5.0, -2.0]]),
  }


# A number, four levels of which the last one is nowhere, and a number.
_LEVEL_WIDTHS = (1, 4, 1)


def _levels():
  """Returns the three levels that occur as zeros and ones, and all columns of these fields."""
  rng = np.random.default_rng(0)
  levels = np.eye(3)[rng.choice(3, 200, p=[0.7, 0.2, 0.1])]
  numbers = rng.standard_normal((2, 200, 1)) * 50
  return levels, np.concatenate([numbers[0], levels, np.zeros((200, 1)), numbers[1]], axis=1)


class FindGridTest(parameterized.TestCase):

  def _grid(self, parts, standardize):
    clients = {str(index): part for index, part in enumerate(parts)}
    return grid_scaling.find_grid(secure_sums.hold(clients), standardize)

  @parameterized.product(name=list(_samples()), standardize=[False, True])
  def test_all_points_are_in_the_ball_whatever_the_order_and_the_split(self, name, standardize):
    points = _samples()[name]
    grid, other = (
        self._grid(parts, standardize)
        for parts in ([points], np.array_split(points[::-1], min(7, len(points))))
    )
    for first, second in (
        (grid.clients.scaling.shift, other.clients.scaling.shift),
        (grid.clients.scaling.factor, other.clients.scaling.factor),
        (grid.step, other.step), (grid.column_factor, other.column_factor),
    ):
      np.testing.assert_array_equal(first, second)
    self.assertEqual(grid.num_points, len(points))
    norms = np.linalg.norm(grid.clients.scaling.apply(points), axis=1)
    self.assertLessEqual(norms.max(), point_grid.POINT_STEPS)
    if np.ptp(points, axis=0).any():
      # A factor of sqrt(2) between exponents, and little for rounding.
      self.assertGreater(norms.max(), 0.65 * point_grid.POINT_STEPS)
    # Steps of a column, from any point to any other.
    varies = np.ptp(points, axis=0) > 0
    np.testing.assert_array_equal(grid.column_factor > 0, varies)
    ranges = (np.ptp(points, axis=0) * grid.column_factor)[varies]
    self.assertTrue(np.all(ranges < 2.0**52), ranges)
    # Bounds are known up to a factor of 2^9, and of more where rounding moved the mean.
    self.assertTrue(np.all(ranges > 2.0**36), ranges)
    mantissas, _ = np.frexp(grid.column_factor[varies])
    np.testing.assert_array_equal(mantissas, 0.5)

  def test_more_points_than_a_sum_can_hold_are_refused(self):
    parts = [np.arange(25.0)[:, np.newaxis], np.arange(24.0)[:, np.newaxis]]
    with mock.patch.object(grid_scaling, "MOST_POINTS", 50):
      self.assertEqual(self._grid(parts, False).num_points, 49)
      with self.assertRaisesRegex(ValueError, "`clients`.*50"):
        self._grid([parts[0], parts[0]], False)

  def test_rounds_are_those_in_which_the_clients_answer(self):
    clients = secure_sums.hold({"one": np.arange(25.0)[:, np.newaxis]})
    total = type(clients).total
    with mock.patch.object(type(clients), "total", autospec=True, side_effect=total) as asked:
      grid = grid_scaling.find_grid(clients, standardize=True)
    self.assertEqual(grid.num_rounds, asked.call_count)

  def test_a_sum_can_hold_as_many_points_as_are_allowed(self):
    # Both signs, and every point's number at its largest.
    most = grid_scaling.MOST_POINTS
    self.assertLessEqual(most * 2**31, secure_sums.MODULUS // 2)

  def test_a_step_is_a_length_in_the_datas_units(self):
    points = _samples()["wine"]
    grid = self._grid([points], standardize=False)
    scaling = grid.clients.scaling
    np.testing.assert_allclose(
        scaling.apply(points) * grid.step, points - scaling.shift, rtol=1e-12
    )
    np.testing.assert_allclose(grid.clients.scaling.shift, points.mean(axis=0), rtol=1e-6)

  @parameterized.parameters("wine", "columns_of_many_units", "far_and_narrow", "a_tiny_column")
  def test_standardized_columns(self, name):
    points = _samples()[name]
    grid = self._grid(np.split(points, [50]), standardize=True)
    lengths = grid.clients.scaling.apply(points) * grid.step
    np.testing.assert_allclose(lengths.std(axis=0), 1, rtol=1e-4)

  def test_levels_count_as_much_as_a_number(self):
    levels, columns = _levels()
    rows = secure_sums.hold({"a": columns[:30], "b": columns[30:]})
    scaling = grid_scaling.find_grid(rows, True, _LEVEL_WIDTHS)
    lengths = scaling.clients.scaling.apply(columns) * scaling.step
    expected = (levels - levels.mean(axis=0)) / np.sqrt(1 - (levels.mean(axis=0) ** 2).sum())
    np.testing.assert_allclose(lengths[:, 1:4], expected, atol=1e-6)
    np.testing.assert_allclose(lengths[:, [0, 5]].std(axis=0), 1, rtol=1e-6)
    with self.assertRaisesRegex(ValueError, "`field_widths`"):
      grid_scaling.find_grid(rows, True, (1, 3, 1))
    for widths in ((), "141", np.array(_LEVEL_WIDTHS)):
      with self.assertRaisesRegex(ValueError, "`field_widths`"):
        grid_scaling.check_field_widths(widths, standardize=True)

  @parameterized.product(value=[7.0, 1e20 / 3], standardize=[False, True])
  def test_a_constant_column_is_dropped(self, value, standardize):
    points = np.stack([np.full(20, value), 100 * np.random.default_rng(0).random(20)], axis=1)
    grid = self._grid([points], standardize)
    alone = self._grid([points[:, 1:]], standardize)
    np.testing.assert_array_equal(grid.clients.scaling.apply(points)[:, 0], 0)
    np.testing.assert_allclose(grid.step, alone.step, rtol=1e-3)
    np.testing.assert_allclose(grid.clients.scaling.undo(np.zeros(2))[0], value, rtol=1e-15)

  def _of_last_places(self, rng, num_rows, most):
    """Returns columns at any magnitude, in which numbers differ by up to 2 * most last places."""
    signs = rng.choice([-1, 1], 1000)
    values = signs * rng.uniform(1, 2, 1000) * 10.0 ** rng.integers(-90, 99, 1000)
    last_places = rng.integers(-most, most + 1, (num_rows, 1000))
    last_places[:2] = [[-most], [most]]
    return values + last_places * np.spacing(values)

  @parameterized.parameters(3, 40)
  def test_a_column_that_is_constant_but_for_rounding_is_dropped(self, num_rows):
    rng = np.random.default_rng(0)
    columns = self._of_last_places(rng, num_rows, most=2)
    points = np.append(columns, rng.normal(size=(num_rows, 1)), axis=1)
    # The first client's columns are constant.
    grid = self._grid([points[:1], points[1:]], standardize=True)
    np.testing.assert_array_equal(np.flatnonzero(grid.clients.scaling.factor), [1000])
    np.testing.assert_array_equal(np.flatnonzero(grid.column_factor), [1000])
    middles = grid.clients.scaling.undo(np.zeros((1, 1001)))[0, :-1]
    np.testing.assert_allclose(middles, columns.mean(axis=0), rtol=1e-13)
    # In their own units they stay as narrow as they are.
    unscaled = self._grid([points[:1], points[1:]], standardize=False).clients.scaling.factor
    self.assertGreater(np.count_nonzero(unscaled), 1)

  def test_a_column_that_is_narrow_beside_its_numbers_is_kept(self):
    rng = np.random.default_rng(0)
    seconds = 1.7e9 + 1e-3 * rng.integers(0, 2, (300, 1))
    points = np.append(self._of_last_places(rng, 300, most=1000), seconds, axis=1)
    grid = self._grid(np.split(points, [100]), standardize=True)
    deviations = (grid.clients.scaling.apply(points) * grid.step).std(axis=0)
    np.testing.assert_allclose(deviations, 1, rtol=0.2)
    np.testing.assert_allclose(deviations[-1], 1, rtol=1e-3)

  @parameterized.parameters(0.0, 1e-6, -1e-6)
  def test_exponents_are_exact_whatever_logarithms_are_rounded_to(self, error):
    powers = 2.0 ** np.arange(-330, 331)
    points = np.concatenate([powers, np.nextafter(powers, 0), [0.0, 5e-324, 1e100]])
    numpy = types.SimpleNamespace(**{**vars(np), "log2": lambda values: np.log2(values) + error})
    bins, _ = grid_scaling.ColumnExponents().contributions(numpy, points[:, np.newaxis], {})
    _, exponents = np.frexp(np.maximum(points, 2.0**-340))
    np.testing.assert_array_equal(bins, (exponents - 1 + 340) // 8)

  def test_norms_are_rounded_once(self):
    # The squares sum up to 2^54 - 1, which float64 doesn't hold.
    row = [2.0**20] * (2**14 - 1) + [1048575.0, 1447.0, 50.0, 29.0]
    answer = secure_sums.hold({0: np.array([row])}).total(grid_scaling.NormExponents(), {})
    np.testing.assert_array_equal(np.flatnonzero(answer), [54])

  def test_no_norm_exceeds_its_bound_however_coordinates_were_rounded(self):
    # As a coordinate, 11.5 may be 11, whose square is below 2^7; so may each of four, below 2^9.
    for num_columns, exponent in ((1, 6), (4, 8)):
      counts = np.zeros((64, 1))
      counts[[0, exponent]] = 1
      norm = 11.5 * np.sqrt(num_columns)
      self.assertBetween(grid_scaling.norm_bound(counts, num_columns), norm, 1.1 * norm)

  def test_moments_cancel_nothing(self):
    # 2^30 and 2^30 - 1, half and half: a variance of 1/4 beside squares of 2^60.
    points = np.array([[2.0**30], [2.0**30 - 1]])
    sums = secure_sums.hold({0: points}).total(grid_scaling.ColumnMoments(), {})
    totals, high, low = sums.reshape(3, 1).astype(object)
    means, deviations = grid_scaling.moments(2, totals, (high << 30) + low)
    np.testing.assert_array_equal(means, [2.0**30 - 0.5])
    np.testing.assert_array_equal(deviations, [0.5])
