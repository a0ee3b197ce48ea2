import math
import statistics

from absl.testing import parameterized
import pandas as pd

from clustering_basics import intervals
from experiment_shell import frames

_ROWS = pd.DataFrame(
    [
        ("b", 1, "loss", 4.0), ("b", 1, "ari", 0.5), ("a", 1, "loss", 2.0), ("a", 0, "loss", 3.0),
    ],
    columns=["method", "seed", "metric", "value"],
)


class FramesTest(parameterized.TestCase):

  def test_keys_and_metrics_in_width_come_as_in_the_rows_or_as_asked_for(self):
    found = frames.wide(_ROWS, ["method", "seed"])
    chosen = frames.wide(_ROWS, ["method", "seed"], ["none", "ari"])
    by_seed = frames.wide(_ROWS[_ROWS["metric"] == "loss"], ["method"], column="seed")

    expected = [["b", 1, 4.0, 0.5], ["a", 1, 2.0, "-"], ["a", 0, 3.0, "-"]]
    self.assertEqual(list(found), ["method", "seed", "loss", "ari"])
    self.assertEqual(found.astype(object).fillna("-").to_numpy().tolist(), expected)
    self.assertEqual(list(chosen), ["method", "seed", "none", "ari"])
    self.assertTrue(chosen["none"].isna().all())
    self.assertEqual(list(by_seed), ["method", 1, 0])
    self.assertEmpty(frames.wide(_ROWS[:0], ["method"]))
    with self.assertRaises(ValueError):
      frames.wide(_ROWS, ["method"])  # Two losses of one method.

  def test_rows_come_in_the_orders_of_columns(self):
    found = frames.in_order(_ROWS, metric=["loss"], method=["a", "b"])

    self.assertEqual(found["value"].tolist(), [2.0, 3.0, 4.0, 0.5])

  def test_spreads(self):
    losses = _ROWS[_ROWS["metric"] == "loss"]
    found = frames.spread(losses, ["method"])
    ranges = frames.spread(losses, ["method"], low="min", high="max").set_index("method")

    sd = statistics.stdev([2.0, 3.0])
    of_a = {"method": "a", "mean": 2.5, "sd": sd, "count": 2, "low": 2.5 - sd, "high": 2.5 + sd}
    self.assertEqual(found["method"].tolist(), ["b", "a"])
    self.assertEqual(found.iloc[1].to_dict(), of_a)
    self.assertEqual(ranges.loc["a", ["low", "high"]].tolist(), [2.0, 3.0])

  def test_values_of_a_reference_stand_at_the_rows_with_its_keys(self):
    losses = _ROWS[_ROWS["metric"] == "loss"]

    found = frames.at_reference(losses, "b", ["seed"], "value")

    self.assertEqual(found.index.tolist(), losses.index.tolist())
    self.assertEqual(found.fillna(-1).tolist(), [4.0, 4.0, -1])

  @parameterized.parameters((True, intervals.of_pairs), (False, intervals.of_means))
  def test_gains_have_intervals_and_verdicts(self, in_pairs, interval):
    first, second = [0.9, 0.8, 0.85, 0.9], [0.1, 0.2, 0.3, 0.25]
    low, high = interval(first, second, 3)

    found = frames.compared(pd.Series(first), pd.Series(second), 3, in_pairs=in_pairs, scale=100)
    limited = frames.compared(second, first, in_pairs=in_pairs, scale=100, limits=(-50, 50))

    mean = statistics.fmean(first) - statistics.fmean(second)
    for name, expected in {"gain": mean, "low": low, "high": high}.items():
      self.assertAlmostEqual(found[name], 100 * expected)
    self.assertEqual(found["verdict"], intervals.BETTER)
    self.assertEqual(list(found), list(frames.gain_columns()))
    self.assertEqual((limited["low"], limited["verdict"]), (-50, intervals.WORSE))

  def test_without_values_there_is_no_gain(self):
    found = frames.compared([], [])

    self.assertTrue(all(math.isnan(found.pop(name)) for name in ("gain", "low", "high")))
    self.assertEqual(found, {"verdict": intervals.UNCLEAR})

  def test_headlines_count_verdicts(self):
    gains = pd.DataFrame({"verdict": ["better", "unclear", "better"]})

    self.assertEqual(
        frames.headline(gains, seeds=4).to_dict("records"),
        [{"cases": 3, "better": 2, "unclear": 1, "worse": 0, "seeds": 4}],
    )
    self.assertEmpty(frames.headline(gains[:0], seeds=4))

  def test_labels_stand_in_place_of_names(self):
    found = frames.labelled({"rows": _ROWS, "other": pd.DataFrame({"k": [1]})}, {"a": "A"})

    self.assertEqual(found["rows"]["method"].tolist(), ["b", "b", "A", "A"])
    self.assertEqual(found["other"]["k"].tolist(), [1])
