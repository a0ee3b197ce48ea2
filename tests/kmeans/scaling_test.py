"""Tests for fl_clustering.kmeans.scaling."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.kmeans import point_sums
from fl_clustering.kmeans import scaling


def _chosen(points, standardize):
  """Returns the scaling as two rounds of sums give it."""
  moments = lambda values: {k: v.numpy() for k, v in point_sums.moments(values).items()}
  shifted = scaling.shift_to_mean(moments(points))
  return scaling.unit_scaling(shifted, moments(points - shifted.shift), standardize)


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


if __name__ == "__main__":
  absltest.main()
