from absl.testing import absltest
import numpy as np
import pandas as pd

from experiment_shell import figure_style
from experiments.cluster_tables import cluster_profiles


class ClusterProfilesTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    rng = np.random.default_rng(0)
    # Far from zero, where sums of squares would lose the spread.
    self.features = 1e7 + rng.standard_normal((90, 3)) * [1, 2, 0]
    self.clusters = np.repeat([0, 2, 3], [10, 30, 50])
    self.features[:, 1] += 10 * self.clusters
    blocks = [
        (self.features[rows], self.clusters[rows]) for rows in (slice(1), slice(1, 7), slice(7, 90))
    ]
    self.profiles = cluster_profiles.measure(blocks, 4, 3)

  def test_moments_are_those_of_all_rows(self):
    np.testing.assert_array_equal(self.profiles.counts, [10, 0, 30, 50])
    for cluster in (0, 2, 3):
      rows = self.features[self.clusters == cluster]
      np.testing.assert_allclose(self.profiles.means[cluster], rows.mean(axis=0), rtol=1e-14)
      np.testing.assert_allclose(
          self.profiles.deviations[cluster], rows.std(axis=0), rtol=1e-6, atol=1e-6
      )
    self.assertTrue(np.isnan(self.profiles.means[1]).all())
    offsets = self.profiles.means[[0, 2, 3]] - self.features.mean(axis=0)
    between = np.average(offsets**2, axis=0, weights=[10, 30, 50])
    shares = np.append(between[:2] / self.features.var(axis=0)[:2], 0)
    np.testing.assert_allclose(self.profiles.shares_explained, shares, rtol=1e-6)

  def test_variances_of_fields_are_those_of_all_rows(self):
    rows = cluster_profiles.rows(self.profiles, ["a", "b", "c"])
    table = pd.DataFrame(rows, columns=cluster_profiles.HEADER)
    found = cluster_profiles.field_variances(table, {"b": "f", "c": "f"}, standardize=False)
    first, *others = self.features.var(axis=0)
    np.testing.assert_allclose(found.loc[["a", "f"], "total"], [first, sum(others)], rtol=1e-6)

  def test_a_constant_column_has_no_variance(self):
    # The sum of equal decimals, divided by their number, is another number.
    for value, num_rows in ((0.1, 10), (-1 / 3, 1000), (1e5 + 0.7, 99)):
      features = np.full((num_rows, 1), value)
      clusters = np.arange(num_rows) % 3
      blocks = [(features[:7], clusters[:7]), (features[7:], clusters[7:])]
      found = cluster_profiles.measure(blocks, 4, 1)
      np.testing.assert_array_equal(found.means[:3], np.full((3, 1), value))
      self.assertFalse(found.deviations[:3].any())
      self.assertEqual(found.shares_explained, 0)

  def test_shares_are_parts_of_one_whatever_rounding_leaves(self):
    rng = np.random.default_rng(0)
    clusters = rng.integers(3, size=300)
    values = rng.uniform(1, 2, 200) * 10.0 ** rng.integers(-90, 90, 200)
    places = np.append(rng.integers(-2, 3, (296, 200)), [[-2] * 200, [2] * 200] * 2, axis=0)
    constant = values + places * np.spacing(values)
    # Of the other half, clusters explain all.
    features = np.append(constant, values * clusters[:, np.newaxis], axis=1)
    found = cluster_profiles.measure([(features, clusters)], 3, 400)
    shares = found.shares_explained
    np.testing.assert_array_equal(shares[:200], 0)
    np.testing.assert_allclose(shares[200:], 1, rtol=1e-6)
    self.assertLessEqual(shares.max(), 1)
    self.assertFalse(cluster_profiles._scores(  # pylint: disable=protected-access
        found.means.T, found.deviations.T, found.counts
    )[:200].any())

  def test_means_have_three_digits_or_all_before_the_point(self):
    means = (1104.6, 0.12345, -99_999.5, 2e-7)
    rows = [(k, 1, "a", mean, 1.0, 0.5) for k, mean in enumerate(means)]
    axes = figure_style.new_figure(3).add_subplot()
    cluster_profiles.FIGURE.draw(pd.DataFrame(rows, columns=cluster_profiles.HEADER), axes)
    texts = [text.get_text() for text in axes.texts]
    self.assertEqual(texts, ["1,105", "0.123", "-100,000", "2e-07"])
