"""Tests for experiments.multiview.tables and findings."""

from absl.testing import absltest

from experiments.multiview import cells
from experiments.multiview import demonstration
from experiments.multiview import findings
from experiments.multiview import methods
from experiments.multiview import outcome
from experiments.multiview import summary
from experiments.multiview import tables
from tests.experiments.multiview import sample_results


def _demonstration_results():
  rows = []
  for index, method in enumerate(demonstration.ROWS):
    for seed in (42, 43):
      one = outcome.Outcome(nmi=0.9, ari=0.1 * index + (0.05 if seed == 43 else 0))
      rows.append({
          "dataset": "simulated_dha", "partition": cells.AS_GIVEN, "seed": seed,
          "method": method, "view": methods.ALL_VIEWS, **one.to_row(),
      })
  return summary.Results(rows, "simulated_dha")


class TablesTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.results = summary.Results(sample_results.sample_rows(), "sample")

  def test_a_row_per_method(self):
    groups, header, rows = tables.method_rows(self.results)
    self.assertEqual(sum(count for _, count in groups), len(header))
    self.assertLen(rows, len(methods.METHODS))
    self.assertEqual(rows[0][:2], ["best single view (pixels)", "central"])
    self.assertEqual(
        rows[-1],
        ["equal weights", "federated"] + ["0.800 ± 0.014", "0.700 ± 0.014"] * 2,
    )

  def test_a_row_per_view(self):
    header, rows = tables.view_rows(self.results, sample_results.VIEW_NAMES)
    self.assertLen(header, 7)
    self.assertEqual(rows[1][0], "<shape>")
    self.assertEqual(rows[1][3], "0.800 ± 0.000")

  def test_claims_stand_beside_what_comes_out(self):
    _, rows = tables.demonstration_rows(_demonstration_results())
    self.assertEqual(rows[0][1:5], ["0.8925", "0.6999", "0.900", "0.000"])
    self.assertEqual(rows[0][6], "0.025 ± 0.035")
    self.assertEqual(rows[-1][1:3], ["–", "–"])

  def test_text_for_the_terminal(self):
    text = tables.dataset_text(self.results, "sample")
    self.assertIn("IID", text.splitlines()[0])
    self.assertIn("the paper's weights", text)
    self.assertIn("as printed", tables.dataset_text(_demonstration_results(), "simulated_dha"))

  def test_points_without_classes(self):
    rows = [
        {**row, "nmi": None, "ari": None, "partition": cells.AS_GIVEN}
        for row in sample_results.sample_rows()
        if not methods.METHODS[row["method"]].needs_labels and row["partition"] == "IID"
    ]
    results = summary.Results(rows, "sample")
    _, _, scored = tables.method_rows(results)
    self.assertEmpty(scored)
    header, unscored = tables.unscored_rows(results)
    self.assertEqual(header, ["method", "rounds", "objective"])
    self.assertEqual(unscored[0], ["equal weights", "3.5", "1.5"])
    self.assertIsNone(findings.verdict("sample", results))
    self.assertIsNone(findings.weights_sentence("sample", results, sample_results.VIEW_NAMES))


class FindingsTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.results = summary.Results(sample_results.sample_rows(), "sample")

  def test_verdict_has_the_tables_numbers(self):
    verdict = findings.verdict("sample", self.results)
    self.assertIn("ARI 0.700 (IID) and 0.700 (Dirichlet)", verdict)
    self.assertIn("0.100 above k-means on all points", verdict)
    self.assertIn("0.200 above the best single view, pixels (0.500)", verdict)
    self.assertIn("0.400 above the paper's view weights (0.300)", verdict)

  def test_the_papers_favourite_view(self):
    sentence = findings.weights_sentence("sample", self.results, sample_results.VIEW_NAMES)
    self.assertRegex(sentence, r"most weight \(0.80\) to <shape> \(NMI 0.30 alone\) and not")
    swapped = [
        {**row, "view_weights": "0.8 0.2"} if row["method"] == "mvkm" else row
        for row in sample_results.sample_rows()
    ]
    sentence = findings.weights_sentence(
        "sample", summary.Results(swapped, "sample"), sample_results.VIEW_NAMES
    )
    self.assertRegex(sentence, r"\(0.80\) to pixels, which is also the best view")

  def test_worse_and_level_are_said(self):
    rows = [
        {**row, "ari": 0.301, "nmi": 0.4} if row["method"] == "equal" else row
        for row in sample_results.sample_rows()
    ]
    verdict = findings.verdict("sample", summary.Results(rows, "sample"))
    self.assertIn("0.299 below k-means on all points", verdict)
    self.assertIn("level with the paper's view weights", verdict)

  def test_demonstration(self):
    first, second, _ = findings.demonstration_sentences(_demonstration_results())
    self.assertIn("its printed program gives 0.900 and 0.000", first)
    self.assertIn("reach ARI 0.300, which is above the printed program", second)
    self.assertIn("0.100 with the colour view alone and 0.200 with both", second)
    self.assertIn("the tutorial prints 0.428 and 0.527", second)


if __name__ == "__main__":
  absltest.main()
