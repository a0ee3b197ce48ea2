"""Tests for fl_clustering.points.scaling."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.points import scaling


def _sums(points):
  return {
      "num_points": float(len(points)),
      "sums": points.sum(axis=0),
      "squares": (points**2).sum(axis=0),
  }


def _moments(points):
  """Returns the moments as two rounds of sums give them."""
  shift = scaling.first_mean(_sums(points))
  return scaling.column_moments(shift, _sums(points - shift))


def _chosen(points, standardize):
  return scaling.unit_scaling(_moments(points), standardize)


class ScalingTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    spread = np.array([1.0, 1e-3, 50.0])
    # Means a billion deviations away from zero.
    middle = np.array([3.0, 1e6, -7.0])
    self.points = middle + spread * np.random.default_rng(0).standard_normal((200, 3))

  def test_standardized_columns_have_mean_zero_and_variance_one(self):
    scaled = _chosen(self.points, True).apply(self.points)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.std(axis=0), 1, rtol=1e-5)

  def test_otherwise_all_columns_share_a_factor(self):
    chosen = _chosen(self.points, False)
    np.testing.assert_allclose(chosen.factor, chosen.factor[0])
    scaled = chosen.apply(self.points)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(np.mean(scaled.std(axis=0) ** 2), 1, rtol=1e-5)

  @parameterized.parameters(True, False)
  def test_undo(self, standardize):
    chosen = _chosen(self.points, standardize)
    np.testing.assert_allclose(
        chosen.undo(chosen.apply(self.points)), self.points, rtol=1e-9, atol=1e-5
    )

  @parameterized.parameters(0.1, 123456.789, 0.0)
  def test_a_constant_column_stays_as_wide_as_it_is(self, value):
    points = np.concatenate([self.points, np.full((200, 1), value)], axis=1)
    chosen = _chosen(points, True)
    self.assertEqual(chosen.factor[3], 1)
    np.testing.assert_allclose(chosen.apply(points)[:, 3], 0, atol=1e-6)

  @parameterized.parameters(True, False)
  def test_all_points_the_same(self, standardize):
    points = np.full((5, 2), 4.5)
    chosen = _chosen(points, standardize)
    np.testing.assert_array_equal(chosen.factor, 1)
    np.testing.assert_array_equal(chosen.apply(points), 0)

  def test_a_column_without_factor_gets_its_shift_back(self):
    chosen = scaling.Scaling(np.array([1.0, 5.0, 2.0]), np.array([2.0, 0.0, 0.5]))
    points = np.array([[3.0, 5.0, 4.0], [0.0, 5.0, 2.0]])
    scaled = chosen.apply(points)
    np.testing.assert_allclose(scaled, [[4.0, 0.0, 1.0], [-2.0, 0.0, 0.0]])
    np.testing.assert_allclose(chosen.undo(scaled), points)


def _wide_points():
  points = np.random.default_rng(0).standard_normal((500, 5)) * [1, 1000, 0.01, 3, 1]
  points[:, 4] = 0.1  # Its mean is not exactly 0.1.
  return points + [0, 1e6, 0, -5, 0]


class ColumnMomentsTest(parameterized.TestCase):

  def test_mean_and_variance_are_numpys(self):
    points = _wide_points()
    moments = _moments(points)
    self.assertEqual(moments.num_points, 500)
    np.testing.assert_allclose(moments.mean, points.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.variance[:4], points.var(axis=0)[:4])

  def test_a_constant_column_has_no_variance_at_all(self):
    self.assertEqual(_moments(_wide_points()).variance[4], 0.0)
    self.assertEqual(_moments(np.full((1000, 1), 1e8 / 3)).variance[0], 0.0)

  def test_a_small_variance_is_one(self):
    points = 1.0 + 1e-6 * np.random.default_rng(0).standard_normal((1000, 1))
    np.testing.assert_allclose(_moments(points).variance, points.var(axis=0))


if __name__ == "__main__":
  absltest.main()
