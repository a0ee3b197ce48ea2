from absl.testing import absltest
import numpy as np

from bench import decimal_columns
from fl_clustering.points import secure_sums

# Of a grid as that of standardised columns.  Two numbers of two decimals are 8192.1 steps apart.
_NUM_COLUMNS = 9
_SCALING = secure_sums.Scaling(np.full(_NUM_COLUMNS, 0.123456), np.full(_NUM_COLUMNS, 819213.7))


def _on_grid(table):
  return np.rint(_SCALING.apply(table)).astype(np.int64)


def _table(rng, num_rows):
  return np.round(rng.uniform(-9, 9, (num_rows, _NUM_COLUMNS)), 2)


class DecimalColumnsTest(absltest.TestCase):

  def test_finds_the_columns_of_few_decimals_among_claims_of_which_some_are_no_rows(self):
    rng = np.random.default_rng(0)
    table = _table(rng, 40)
    table[:, [2, 5]] = rng.uniform(-9, 9, (40, 2))
    claims = np.concatenate([_on_grid(table), rng.integers(-(2**22), 2**22, (60, _NUM_COLUMNS))])
    columns = decimal_columns.find(claims, _SCALING)
    self.assertEqual(columns.columns, (0, 1, 3, 4, 6, 7, 8))
    self.assertFalse(columns.certify)
    self.assertTrue(columns.all_fit(claims[:40]).all())
    self.assertEmpty(decimal_columns.find(claims[:1], _SCALING).columns)

  def test_leaves_out_a_column_of_which_half_of_the_rows_have_more_decimals(self):
    rng = np.random.default_rng(0)
    table = _table(rng, 40)
    table[::2, 3] = rng.uniform(-9, 9, 20)
    self.assertEqual(
        decimal_columns.find(_on_grid(table), _SCALING).columns, (0, 1, 2, 4, 5, 6, 7, 8)
    )

  def test_leaves_out_thirds(self):
    claims = _on_grid(_table(np.random.default_rng(0), 40) / 3)
    self.assertEmpty(decimal_columns.find(claims, _SCALING).columns)

  def test_leaves_out_a_constant_column(self):
    factor = np.array([0.0] + [819213.7] * (_NUM_COLUMNS - 1))
    claims = _on_grid(_table(np.random.default_rng(0), 40)) * (factor > 0).astype(int)
    found = decimal_columns.find(claims, secure_sums.Scaling(_SCALING.shift, factor))
    self.assertEqual(found.columns, tuple(range(1, _NUM_COLUMNS)))

  def test_two_thirds_of_combinations_of_three_rows_fit_in_a_column(self):
    rng, num_claims = np.random.default_rng(0), 20_000
    first, second, third = (_on_grid(_table(rng, num_claims)) for _ in range(3))
    columns = decimal_columns.find(first, _SCALING)
    self.assertTrue(columns.certify)
    claims = first + second - third
    shares = [columns.fit(claims[:, column], column).mean() for column in range(_NUM_COLUMNS)]
    # Six standard deviations of a share.
    np.testing.assert_allclose(shares, 2 / 3, atol=6 * np.sqrt(2 / 9 / num_claims))
    # In all columns together, the mean's deviation is a part of the mean.
    expected = (2 / 3) ** _NUM_COLUMNS
    share = columns.all_fit(claims).mean()
    self.assertAlmostEqual(share, expected, delta=6 * np.sqrt(expected / num_claims))
