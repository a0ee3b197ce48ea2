import dataclasses

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd

from experiment_shell import scores


class TextTest(parameterized.TestCase):

  @parameterized.parameters(
      (0.2294, "+22.9"), (-0.0166, "-1.7"), (0, "+0.0"), (-0.0004, "-0.0"), (1, "+100.0")
  )
  def test_points(self, share, text):
    self.assertEqual(scores.points(share), text)

  def test_interval(self):
    self.assertEqual(scores.interval_text(-0.01, 0.0246), "-1.0 to +2.5")
    self.assertEqual(scores.interval_text(None, None), "unknown")

  def test_score(self):
    self.assertEqual(scores.score_text(0.1239), "0.124")
    self.assertEqual(scores.score_text(12.3, "{:.0f}".format), "12")
    self.assertEqual(scores.score_text(None), scores.ABSENT)


class SpreadTest(absltest.TestCase):

  def test_of_several_values(self):
    found = scores.summarize([3, 1, None, 5, 7])

    self.assertEqual((found.mean, found.low, found.high, found.count), (4, 2.5, 5.5, 4))
    # Squared distances to the mean of 1, 9, 1, 9, over n - 1.
    self.assertAlmostEqual(found.sd, (20 / 3) ** 0.5)
    self.assertEqual(found.text(".1f"), "4.0 ± 2.6")

  def test_one_value_does_not_spread(self):
    found = scores.summarize([0.25])

    self.assertEqual(found, scores.Spread(mean=0.25, sd=0, low=0.25, high=0.25, count=1))
    self.assertEqual(found.text(), "0.250")

  def test_nothing_has_no_mean(self):
    self.assertIsNone(scores.summarize([]))
    self.assertIsNone(scores.summarize([None]))
    self.assertEqual(scores.text(None), "–")


class SummaryTest(absltest.TestCase):

  def test_each_setting_has_a_row_with_the_same_numbers_to_the_last_bit(self):
    values = np.random.default_rng(0).standard_normal((2, 30))
    table = pd.DataFrame({
        "method": ["b"] * 30 + ["a"] * 30, "k": 4, "loss": values.ravel()
    })
    table.loc[40, "loss"] = None

    found = scores.summary(table, ["method", "k"], "loss")

    self.assertEqual(found["method"].tolist(), ["b", "a"])
    for row, expected in zip(
        found.to_dict("records"), (values[0], np.delete(values[1], 10))
    ):
      spread = scores.summarize(expected)
      self.assertEqual(
          row, {"method": row["method"], "k": 4, **dataclasses.asdict(spread)}
      )

  def test_what_has_no_value_has_no_row(self):
    table = pd.DataFrame({"method": ["a"], "loss": [None]})

    self.assertEmpty(scores.summary(table, ["method"], "loss"))


class ScoresTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    rows = [
        {"data": "grid", "method": method, "seed": seed, "ari": value and value + seed, "more": 1}
        for seed in (1, 0) for method, value in (("a", 10.0), ("b", None))
    ]
    measured = scores.table(rows, ("data", "method", "seed", "ari"), "seed")
    self.scores = scores.Scores(measured, ("data", "method"), "seed")

  def test_values_follow_the_repetitions(self):
    self.assertEqual(self.scores.repetitions, [0, 1])
    self.assertEqual(self.scores.settings, (("grid", "a"), ("grid", "b")))
    self.assertEqual(self.scores.values("ari", "grid", "a"), [10.0, 11.0])
    self.assertEqual(self.scores.spread("ari", "grid", "a").mean, 10.5)

  def test_what_has_no_value_has_no_spread(self):
    self.assertTrue(self.scores.has("grid", "b"))
    self.assertIsNone(self.scores.spread("ari", "grid", "b"))

  def test_what_was_not_measured_is_absent(self):
    self.assertFalse(self.scores.has("grid", "c"))
    self.assertIsNone(self.scores.spread("ari", "grid", "c"))
    self.assertEqual(self.scores.values("ari", "grid", "c"), [])


if __name__ == "__main__":
  absltest.main()
