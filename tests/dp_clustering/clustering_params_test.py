import decimal
import fractions
import math
import warnings

from absl.testing import parameterized
import numpy as np
import pandas as pd

from dp_clustering import clustering_params

_NAN, _INF = math.nan, math.inf


class DifferentialPrivacyParamTest(parameterized.TestCase):

  def test_defaults(self):
    param = clustering_params.DifferentialPrivacyParam()
    self.assertEqual((param.epsilon, param.delta), (1.0, 1e-6))
    self.assertIs(param.privacy_model, clustering_params.PrivacyModel.CENTRAL)

  @parameterized.parameters(
      *(("epsilon", value) for value in
        (0.0, -1, _NAN, "1", True, None, -_INF, 5e-324, 0.99e-8, 1.01e100, 1e300)),
      *(("delta", value) for value in (0, 1, _NAN, -1e-6, "0.1")), ("privacy_model", "local"),
  )
  def test_refuses(self, name, value):
    with self.assertRaisesRegex(ValueError, f"`{name}`"):
      clustering_params.DifferentialPrivacyParam(**{name: value})

  def test_numbers_become_floats(self):
    param = clustering_params.DifferentialPrivacyParam(np.float32(0.1), np.float16(1e-4))
    self.assertEqual((type(param.epsilon), type(param.delta)), (float, float))
    self.assertEqual(clustering_params.DifferentialPrivacyParam(_INF).epsilon, _INF)


class MapToBallTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("inside", [0.3, 0.4], 1.0, [0.3, 0.4]),
      ("on_the_sphere", [3, 4], 5, [3, 4]),
      ("outside", [3, 4], 1.0, [0.6, 0.8]),
      ("origin", [0, 0], 1.0, [0, 0]),
      ("nan_is_zero", [_NAN, 0.5], 1.0, [0, 0.5]),
      ("nan_alone", [_NAN, _NAN], 1.0, [0, 0]),
      ("infinity", [_INF, 7], 2.0, [2, 0]),
      ("two_infinities", [-_INF, _INF], 1.0, [-math.sqrt(0.5), math.sqrt(0.5)]),
      ("infinity_and_nan", [_NAN, -_INF], 2.0, [0, -2]),
      ("overflowing_norm", [3e300, -4e300], 1.0, [0.6, -0.8]),
      ("largest_float", [np.finfo(float).max] * 2, 1.0, [math.sqrt(0.5)] * 2),
      ("tiny_ball", [3e-100, 4e-100], 1e-100, [0.6e-100, 0.8e-100]),
      ("infinity_in_a_tiny_ball", [_INF, 0], 1e-100, [1e-100, 0]),
      ("huge_ball", [3e100, 4e100], 1e100, [0.6e100, 0.8e100]),
      ("inside_a_huge_ball", [3.0, 4.0], 1e100, [3, 4]),
  )
  def test_row(self, row, radius, expected):
    mapped = clustering_params.map_to_ball(np.array([row]), radius)
    np.testing.assert_allclose(mapped, [expected], rtol=1e-14)
    self.assertEqual(mapped.dtype, np.float64)

  def test_each_row_is_mapped_on_its_own(self):
    rng = np.random.default_rng(1)
    points = rng.normal(size=(50, 3)) * 10.0 ** rng.integers(-3, 4, size=(50, 1))
    points[7], points[8, 1], points[9, 0] = _NAN, _INF, 1e300
    together = clustering_params.map_to_ball(points, 1.0)
    for row, mapped in zip(points, together):
      np.testing.assert_array_equal(
          clustering_params.map_to_ball(row[np.newaxis], 1.0), mapped[np.newaxis]
      )
    self.assertLessEqual(np.linalg.norm(together, axis=1).max(), 1 + 1e-15)

  # NumPy adds up fewer than eight numbers alike in either order.
  @parameterized.parameters(5, 20)
  def test_the_order_of_the_numbers_in_memory_changes_no_bit(self, dim):
    # Rows on the sphere, up to rounding: the last bit of a norm decides whether they are scaled.
    rows = np.random.default_rng(2).random((2000, dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_array_equal(
        clustering_params.map_to_ball(np.asfortranarray(rows), 1.0),
        clustering_params.map_to_ball(rows, 1.0),
    )

  @parameterized.parameters(5, 20_000)
  def test_the_number_of_rows_changes_no_bit(self, dim):
    rows = np.random.default_rng(3).random((200, dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    together = clustering_params.map_to_ball(rows, 1.0)
    for row, mapped in zip(rows, together):
      alone = clustering_params.map_to_ball(row[np.newaxis], 1.0)
      np.testing.assert_array_equal(alone[0], mapped)

  @parameterized.named_parameters(
      ("float32", np.float32), ("int", np.int64), ("int8", np.int8), ("longdouble", np.longdouble),
  )
  def test_types(self, dtype):
    points = np.array([[3, 4], [0, 1]], dtype)
    mapped = clustering_params.map_to_ball(points, 1.0)
    np.testing.assert_allclose(mapped, [[0.6, 0.8], [0, 1]], rtol=1e-15)

  @parameterized.parameters(np.float32, np.float64)
  def test_a_signaling_nan_warns_of_nothing(self, dtype):
    bits = np.array([[0.0, np.inf]], dtype).view(f"u{np.dtype(dtype).itemsize}")
    bits[:, 1:] += bits.dtype.type(1)
    with warnings.catch_warnings():
      warnings.simplefilter("error")
      mapped = clustering_params.map_to_ball(bits.view(dtype), 1.0)
    np.testing.assert_array_equal(mapped, [[0, 0]])

  def test_never_changes_its_input_and_copies_it_only_if_need_be(self):
    points = np.array([[3.0, 4.0], [_NAN, 1.0], [_INF, 0.0], [0.1, 0.2]])
    before = points.copy()
    clustering_params.map_to_ball(points, 1.0)
    np.testing.assert_array_equal(points, before)
    for inside in (np.full((3, 2), 0.5), np.zeros((0, 3))):
      self.assertIs(clustering_params.map_to_ball(inside, 1.0), inside)


class DataTest(parameterized.TestCase):

  def test_points_are_not_copied_and_may_be_none_and_labels_are_integers_or_text(self):
    data = clustering_params.Data([[1, 2, 3], [4, 5, 6]], radius=10, labels=["a", "b"])
    self.assertEqual((data.num_points, data.dim, data.labels.tolist()), (2, 3, ["a", "b"]))
    points = np.zeros((2, 2), np.float32)
    data = clustering_params.Data(points, 1.0, np.array([3.0, -1.0]))
    self.assertIs(data.datapoints, points)
    np.testing.assert_array_equal(data.labels, [3, -1])
    self.assertEqual(clustering_params.Data(np.zeros((0, 3)), 1.0).num_points, 0)

  @parameterized.parameters(
      *((points, ValueError) for points in (
          [1.0, 2.0], np.zeros((2, 2, 2)), 3.0, [[1.0], [1.0, 2.0]], np.zeros((3, 0)))),
      *((points, TypeError) for points in (
          [["a", "b"]], [["1", "2"]], np.array([[1.0, "2"]], object),
          np.array([[1.0, b"2"]], object), [[{}, 1.0]], [[1j, 1.0]],
          np.array([[1j, 1.0]], object), np.array([[np.timedelta64("NaT", "ns"), 1.0]], object),
          np.array([[np.timedelta64(5, "ns"), 1.0]], object))),
  )
  def test_refuses_points(self, points, error):
    with self.assertRaisesRegex(error, "`datapoints`"):
      clustering_params.Data(points, 1.0)

  @parameterized.parameters(
      0.0, -1.0, _NAN, _INF, "1", 5e-324, 1e-163, 0.9e-100, 1.1e100, 10**400
  )
  def test_refuses_radius(self, radius):
    with self.assertRaisesRegex(ValueError, "^`radius`"):
      clustering_params.Data(np.zeros((2, 2)), radius)

  @parameterized.named_parameters(
      ("float16", np.float16(300)), ("float32", np.float32(1e20)), ("int16", np.int16(300)),
  )
  def test_the_square_of_a_narrow_radius_does_not_overflow(self, radius):
    data = clustering_params.Data(np.array([[100.0 * float(radius), 0.0]]), radius)
    np.testing.assert_allclose(data.clip_by_radius(), [[float(radius), 0.0]])

  @parameterized.parameters(0, -1, 1.5, True, "many")
  def test_refuses_public_num_points(self, number):
    with self.assertRaisesRegex(ValueError, "^`public_num_points`"):
      clustering_params.Data(np.zeros((2, 2)), 1.0, public_num_points=number)

  @parameterized.parameters(
      ([1], ValueError), ([[1], [2]], ValueError), ([None, 1], TypeError), ([1.0, 1.5], ValueError),
      ([1.0, _NAN], ValueError), ([_INF, 1.0], ValueError),
  )
  def test_refuses_labels(self, labels, error):
    with self.assertRaisesRegex(error, "`labels`"):
      clustering_params.Data(np.zeros((2, 2)), 1.0, labels)

  @parameterized.named_parameters(
      ("none", None, _NAN), ("pandas_na", pd.NA, _NAN), ("pandas_nat", pd.NaT, _NAN),
      ("decimal", decimal.Decimal("0.5"), 0.5), ("fraction", fractions.Fraction(1, 4), 0.25),
      ("decimal_nan", decimal.Decimal("nan"), _NAN),
      ("signaling_nan", decimal.Decimal("sNaN"), _NAN),
      ("huge_decimal", decimal.Decimal("-1e999"), -_INF),
      ("numpy_bool", np.bool_(True), 1.0), ("masked", np.ma.masked, _NAN),
  )
  def test_objects_that_are_numbers_or_missing_are_no_error(self, entry, expected):
    points = np.array([[entry, 0.25], [0.5, 1]], object)
    with warnings.catch_warnings():
      warnings.simplefilter("error")
      data = clustering_params.Data(points, 1.0)
    np.testing.assert_array_equal(data.datapoints, [[expected, 0.25], [0.5, 1]])
    self.assertIs(points[0, 0], entry)

  def test_the_number_of_rows_is_no_part_of_a_message(self):
    for points in (np.zeros(57), [[1.0, 2.0], *[[1.0]] * 56]):
      with self.assertRaisesRegex(ValueError, "^`datapoints` must [^57]*$"):
        clustering_params.Data(points, 1.0)

  def test_integers_of_any_size_are_no_error(self):
    data = clustering_params.Data([[10**400, 1], [-(10**400), 2]], 1.0)
    np.testing.assert_array_equal(data.datapoints, [[_INF, 1], [-_INF, 2]])


class ClipByRadiusTest(parameterized.TestCase):

  def test_never_returns_its_input(self):
    points = np.array([[3.0, 4.0], [0.1, 0.2]])
    data = clustering_params.Data(points, 1.0)
    np.testing.assert_allclose(data.clip_by_radius(), [[0.6, 0.8], [0.1, 0.2]])
    clustering_params.Data(points[1:], 1.0).clip_by_radius()[:] = 1
    np.testing.assert_array_equal(points, [[3.0, 4.0], [0.1, 0.2]])

  @parameterized.named_parameters(
      ("one_point", [3.0, 4.0], [0.6, 0.8]),
      ("other_dimension", [[2.0, 0.0, 0.0]], [[1.0, 0.0, 0.0]]),
      ("three_axes", [[[3.0, 4.0]], [[0.0, 0.0]]], [[[0.6, 0.8]], [[0.0, 0.0]]]),
      ("no_points", np.zeros((0, 3)), np.zeros((0, 3))),
  )
  def test_points_of_any_shape(self, points, expected):
    clipped = clustering_params.Data(np.zeros((1, 2)), 1.0).clip_by_radius(points)
    np.testing.assert_allclose(clipped, expected, rtol=1e-15)
    self.assertEqual(clipped.shape, np.shape(expected))


class TreeParamTest(parameterized.TestCase):

  @parameterized.parameters(
      ((3, 0, 5), "min_num_points_in_node"), ((3, 1.5, 5), "min_num_points_in_node"),
      ((2, 3, 5), "min_num_points_in_branching_node"), ((3, 1, -1), "max_depth"),
  )
  def test_refuses(self, values, name):
    self.assertEqual(clustering_params.TreeParam(1, 1, 0).max_depth, 0)
    with self.assertRaisesRegex(ValueError, f"`{name}`"):
      clustering_params.TreeParam(*values)


class BudgetTest(parameterized.TestCase):

  def test_defaults_and_formulas(self):
    split = clustering_params.PrivacyBudgetSplit()
    self.assertEqual((split.frac_sum, split.frac_group_count), (0.8, 0.2))
    multiplier = clustering_params.PrivacyCalculatorMultiplier()
    self.assertEqual(multiplier.gaussian_std_dev_multiplier, 1.0)
    self.assertEqual(multiplier.dlaplace_param_multiplier, 20.0)
    multiplier = clustering_params.PrivacyCalculatorMultiplier(3.0, 7.0)
    self.assertAlmostEqual(multiplier.get_gaussian_std_dev(alpha=0.5, sensitivity=4), 6.0)
    self.assertAlmostEqual(multiplier.get_alpha(gaussian_std_dev=6.0, sensitivity=4), 0.5)
    self.assertAlmostEqual(multiplier.get_dlaplace_param(alpha=0.5), 1 / 3.5)

  @parameterized.parameters(
      ((0.0, 0.2), "frac_sum"), ((1.0, 0.2), "frac_sum"), ((0.8, 0.0), "frac_group_count"),
      ((0.8, _NAN), "frac_group_count"), ((0.8, 0.21), "frac_group_count"),
  )
  def test_refuses_split(self, fractions, name):
    for accepted in ((1 / 3, 2 / 3), (0.1, 0.9), (0.3, 0.3)):
      clustering_params.PrivacyBudgetSplit(*accepted)
    with self.assertRaisesRegex(ValueError, f"`{name}`"):
      clustering_params.PrivacyBudgetSplit(*fractions)

  @parameterized.parameters(
      ((0.0, 20.0), "gaussian_std_dev_multiplier"), ((1.0, _INF), "dlaplace_param_multiplier")
  )
  def test_refuses_multiplier(self, values, name):
    with self.assertRaisesRegex(ValueError, f"`{name}`"):
      clustering_params.PrivacyCalculatorMultiplier(*values)

  @parameterized.named_parameters(
      ("a_good_budget", (20.0, 1e-4), ()),
      ("no_noise", (_INF, 1e-6), ()),
      ("much_epsilon", (20.5, 1e-6), ("`epsilon`.*20.5",)),
      ("much_delta", (1.0, 1.1e-4), ("`delta`.*points, got 0.00011",)),
      ("much_of_both", (30.0, 0.5), ("`epsilon`", "`delta`")),
      ("delta_for_few_clients", (1.0, 0.2, "client", 4), ()),
      ("delta_for_clients", (1.0, 0.25, "client", 4), ("`delta`.*clients, 4, got 0.25",)),
      ("small_delta_for_clients", (1.0, 1e-5, "client", 100_000), ("`delta`.*clients, 100000",)),
  )
  def test_warns_of_a_budget(self, arguments, expected):
    found = clustering_params.budget_warnings(*arguments)
    self.assertLen(found, len(expected))
    for text, regex in zip(found, expected):
      self.assertRegex(text, regex)
