from absl.testing import absltest

from experiment_shell import spread


class SpreadTest(absltest.TestCase):

  def test_of_several_values(self):
    found = spread.spread([3, 1, None, 5, 7])

    self.assertEqual((found.mean, found.low, found.high, found.count), (4, 2.5, 5.5, 4))
    # Squared distances to the mean of 1, 9, 1, 9, over n - 1.
    self.assertAlmostEqual(found.sd, (20 / 3) ** 0.5)
    self.assertEqual(found.text(".1f"), "4.0 ± 2.6")

  def test_one_value_does_not_spread(self):
    found = spread.spread([0.25])

    self.assertEqual(found, spread.Spread(mean=0.25, sd=0, low=0.25, high=0.25, count=1))
    self.assertEqual(found.text(), "0.250")

  def test_nothing_has_no_mean(self):
    self.assertIsNone(spread.spread([]))
    self.assertIsNone(spread.spread([None]))


if __name__ == "__main__":
  absltest.main()
