"""Tests for fl_clustering.multiview.column_moments."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.multiview import column_moments

_WIDTHS = (2, 3)


def _points():
  points = np.random.default_rng(0).standard_normal((500, 5)) * [1, 1000, 0.01, 3, 1]
  points[:, 4] = 0.1  # Its mean is not exactly 0.1.
  return points + [0, 1e6, 0, -5, 0]


def _moments(points):
  mean = points.sum(axis=0) / len(points)
  return column_moments.from_sums(len(points), mean, ((points - mean) ** 2).sum(axis=0))


class ColumnMomentsTest(parameterized.TestCase):

  def test_variance_is_numpys(self):
    points = _points()
    np.testing.assert_allclose(_moments(points).variance[:4], points.var(axis=0)[:4])

  def test_a_constant_column_has_no_variance_at_all(self):
    self.assertEqual(_moments(_points()).variance[4], 0.0)
    self.assertEqual(_moments(np.full((1000, 1), 1e8 / 3)).variance[0], 0.0)

  def test_a_small_variance_is_one(self):
    points = 1.0 + 1e-6 * np.random.default_rng(0).standard_normal((1000, 1))
    np.testing.assert_allclose(_moments(points).variance, points.var(axis=0))

  def test_standardised_columns_have_mean_zero_and_variance_one_or_are_zero(self):
    points = _points()
    scaled = column_moments.scaling(_moments(points), standardize=True).apply(points)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(scaled.var(axis=0), [1, 1, 1, 1, 0])

  def test_columns_keep_their_units_if_not_standardised(self):
    points = _points()
    moments = _moments(points)
    scaled = column_moments.scaling(moments, standardize=False).apply(points)
    np.testing.assert_allclose(scaled[:, :4], (points - moments.mean)[:, :4])

  @parameterized.named_parameters(("standardised", True), ("in_own_units", False))
  def test_beta_is_one_over_the_total_variance(self, standardize):
    points = _points()
    moments = _moments(points)
    scaled = column_moments.scaling(moments, standardize).apply(points)
    totals = [scaled[:, :2].var(axis=0).sum(), scaled[:, 2:].var(axis=0).sum()]
    np.testing.assert_allclose(
        column_moments.view_betas(moments, standardize, _WIDTHS), 1 / np.array(totals)
    )

  @parameterized.named_parameters(("standardised", True), ("in_own_units", False))
  def test_a_view_without_variance_is_refused(self, standardize):
    points = _points()
    points[:, 2:] = [7.0, 0.1, -3.0]
    with self.assertRaisesRegex(ValueError, "`clients` must .* everywhere in view 1"):
      column_moments.view_betas(_moments(points), standardize, _WIDTHS)


if __name__ == "__main__":
  absltest.main()
