import json

from absl.testing import absltest
import numpy as np

from experiments.multiview import cells
from experiments.multiview import methods
from experiments.multiview import results as results_lib
from tests.experiments.multiview import sample_results


def _demonstration_results():
  return results_lib.Results("simulated_dha", sample_results.demonstration_rows(), {})


class ResultsTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.results = sample_results.sample_results()

  def test_seeds_and_partitions(self):
    self.assertEqual(self.results.seeds, [0, 1])
    self.assertEqual(self.results.partitions, ["IID", "Dirichlet"])

  def test_scores_are_means_over_the_seeds(self):
    score = self.results.score("equal", "IID", "ari")
    self.assertAlmostEqual(score.mean, 0.7)
    self.assertAlmostEqual(score.sd, np.std([0.69, 0.71], ddof=1))
    self.assertEqual(score.count, 2)
    self.assertAlmostEqual(self.results.score("equal", "IID", "rounds").mean, 3.5)

  def test_central_methods_have_the_same_score_for_every_partition(self):
    for partition in self.results.partitions:
      self.assertAlmostEqual(self.results.score("concatenated", partition, "ari").mean, 0.6)

  def test_the_best_view_is_the_one_with_the_best_nmi(self):
    self.assertEqual(self.results.best_view(), "pixels")
    self.assertAlmostEqual(self.results.score("single_view", "IID", "nmi").mean, 0.6)

  def test_view_weights(self):
    weights = self.results.view_weights("mvkm", "IID")
    self.assertEqual([score.mean for score in weights], [0.2, 0.8])

  def test_what_is_not_measured_is_none(self):
    empty = results_lib.Results("other", sample_results.sample_rows(), {})
    self.assertIsNone(empty.best_view())
    self.assertIsNone(empty.score("single_view", "IID", "nmi"))
    self.assertIsNone(empty.score("equal", "IID", "nmi"))
    self.assertEmpty(empty.outcomes("equal", "IID"))

  def test_matched_points_are_on_the_diagonal(self):
    matrix = results_lib.matched_points({0: (0, 4, 0, 1), 1: (3, 0, 1, 1), 2: (0, 1, 3, 1)})
    np.testing.assert_array_equal(matrix, [[4, 0, 0, 1], [0, 3, 1, 1], [1, 0, 3, 1]])

  def test_the_summary_has_all_scores_as_numbers(self):
    summary = results_lib.summary({"sample": self.results})
    json.dumps(summary, allow_nan=False)
    self.assertAlmostEqual(summary["sample"]["equal"]["IID"]["ari"]["mean"], 0.7)
    self.assertIsNone(summary["sample"]["local_only"]["IID"]["rounds"])
    self.assertEqual(summary["sample"]["best_view"], "pixels")


class TablesTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.results = sample_results.sample_results()

  def test_a_row_per_method(self):
    groups, header, rows = results_lib.method_table(self.results)
    self.assertEqual(sum(count for _, count in groups), len(header))
    self.assertLen(rows, len(methods.METHODS))
    self.assertEqual(rows[0][:2], ["best single view (pixels)", "central"])
    self.assertEqual(
        rows[-1],
        ["equal weights", "federated"] + ["0.800 ± 0.014", "0.700 ± 0.014"] * 2,
    )

  def test_a_row_per_view(self):
    header, rows = results_lib.view_table(self.results)
    self.assertLen(header, 7)
    self.assertEqual(rows[1][0], "<shape>")
    self.assertEqual(rows[1][3], "0.800 ± 0.000")

  def test_claims_stand_beside_what_comes_out(self):
    _, rows = results_lib.demonstration_table(_demonstration_results())
    self.assertEqual(rows[-1][1:5], ["0.8925", "0.6999", "0.900", "0.300"])
    self.assertEqual(rows[-1][6], "0.325 ± 0.035")
    self.assertEqual(rows[1][1:3], ["–", "–"])

  def test_text_for_the_terminal(self):
    text = results_lib.text(
        {"sample": self.results, "simulated_dha": _demonstration_results()}
    )
    self.assertEqual(text.splitlines()[:2], ["", "sample"])
    self.assertIn("IID", text.splitlines()[2])
    self.assertIn("the paper's weights", text)
    self.assertIn("colour alone", text[text.index("\nsimulated_dha\n"):])

  def test_points_without_classes(self):
    rows = [
        {**row, "nmi": None, "ari": None, "partition": cells.AS_GIVEN}
        for row in sample_results.sample_rows()
        if not methods.METHODS[row["method"]].needs_labels and row["partition"] == "IID"
    ]
    results = sample_results.sample_results(rows, labelled=False)
    _, _, scored = results_lib.method_table(results)
    self.assertEmpty(scored)
    header, unscored = results_lib.unscored_table(results)
    self.assertEqual(header, ["method", "rounds", "objective"])
    self.assertEqual(unscored[0], ["equal weights", "3.5", "1.5"])
    self.assertFalse(results.has_classes)


if __name__ == "__main__":
  absltest.main()
