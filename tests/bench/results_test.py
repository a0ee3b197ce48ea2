import json

from absl.testing import absltest
from absl.testing import parameterized
import pandas as pd

from bench.contest import results
from tests.bench import sample_comparison


class ResultsTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.run_ = sample_comparison.write(self.create_tempdir().full_path)
    self.results = results.read(self.run_)

  def _row(self, contestant):
    return {row["contestant"]: row for row in self.results.of("cnn_small")}[contestant]

  def test_a_round_is_the_median_without_the_first(self):
    first, second = self._row("ours")["seconds_per_round"]

    self.assertAlmostEqual(first, 1.35)
    self.assertAlmostEqual(second, 1.45)

  def test_ratios_are_of_the_same_launch(self):
    ratios = self._row("flower")["ratios_to_plain"]

    self.assertLen(ratios, 2)
    self.assertAlmostEqual(ratios[0], 5.1 / 1.1)
    self.assertAlmostEqual(ratios[1], 5.2 / 1.2)

  def test_a_launch_that_failed_counts_nowhere_and_is_told(self):
    self.assertLen(self._row("pfl")["ratios_to_ours"], 1)
    self.assertIn(
        ("Apple's pfl, cnn_small, launch 2", sample_comparison.PFL_PROBLEM), self.results.problems
    )

  def test_what_is_not_installed_is_told(self):
    self.assertNotIn("fedjax", {row["contestant"] for row in self.results.rows})
    self.assertIn(("fedjax", sample_comparison.FEDJAX_REASON), self.results.problems)

  def _rows(self, number):
    """Returns the rows of a table by contestant."""
    return {row[0]: row[1:] for row in results.tables(self.results)[number].rows}

  def test_rows_are_as_wide_as_their_headers(self):
    tables = results.tables(self.results)

    self.assertLen(tables, 3)
    for table in tables:
      self.assertEqual({len(row) for row in table.rows}, {len(table.header)})

  def test_the_row_of_a_contestant(self):
    table = results.tables(self.results)[0]

    self.assertEqual(dict(zip(table.header, table.rows[1])), {
        "contestant": "ours", "s per round": "1.400 (1.350-1.450)",
        "times plain": "1.22 (1.21-1.23)", "times ours": "1.00 (1.00-1.00)",
        "memory, MB": "502", "start, s": "4.0 (4.0-4.0)", "last": "0.900",
        "most apart": "0.000", "first round": "2e-07", "last round": "3e-06",
    })

  def test_how_far_a_curve_is_from_ours(self):
    path = self.run_.join("measurements.csv")
    table = pd.read_csv(path)
    is_first = (table["workload"] == "cnn_small") & (table["launch"] == 1)
    moved = is_first & (table["contestant"] == "flower")
    table.loc[moved, "accuracies"] = json.dumps(
        [accuracy - 0.25 * (i == 0) for i, accuracy in enumerate(self._row("flower")["accuracies"])]
    )
    for kept, difference in ((table, 0.25), (table[table["contestant"] != "ours"], None)):
      kept.to_csv(path, index=False)
      self.results = results.read(self.run_)
      self.assertAlmostEqual(self._row("flower")["curve_difference"], difference)

  def test_published_times_are_marked(self):
    rows = self._rows(1)

    # 20 s, and 99 rounds of 1.35 or 1.45 s.
    self.assertEqual(rows["ours"], ["2:39", "2:43", "90.0%", "this machine"])
    self.assertEqual(
        rows["FLUTE"], ["–", "3:20", "about 80%", "published, another machine"]
    )
    self.assertEqual(rows["Flower 1.0.0 with Ray"][1], "30:14")

  def test_what_each_needs(self):
    rows = self._rows(2)

    self.assertEqual(rows["Apple's pfl"], ["Python 3.11, pfl 1.0", "61", "1,234"])
    self.assertEqual(
        rows["fedjax"], [f"left out: {sample_comparison.FEDJAX_REASON}", "–", "–"]
    )

  def test_the_text_has_everything(self):
    text = results.text(self.results)

    for part in (
        "small network", "FLUTE's LR_MNIST", "30:14", sample_comparison.PFL_PROBLEM,
        sample_comparison.FEDJAX_REASON, "highest load of the machine: 1"
    ):
      self.assertIn(part, text)

  def test_the_summary_has_ratios_and_curves(self):
    summary = results.summary(self.results)

    self.assertLen(summary["results"], 8)
    ours = summary["results"][1]
    self.assertEqual((ours["workload"], ours["contestant"]), ("cnn_small", "ours"))
    self.assertLen(ours["ratios_to_plain"], 2)
    self.assertLen(ours["accuracies"], 3)

  @parameterized.parameters(
      ([], "–"), ([None], "–"), ([1.0], "1.00"), ([3.0, 1.0, 2.5], "2.50 (1.00-3.00)"),
  )
  def test_shown(self, values, text):
    self.assertEqual(results.shown(values), text)

  @parameterized.parameters((0.4, "0:00"), (59.6, "1:00"), (200, "3:20"), (3599.7, "60:00"))
  def test_minutes(self, seconds, text):
    self.assertEqual(results.minutes(seconds), text)


if __name__ == "__main__":
  absltest.main()
