import contextlib
import os
import re
import statistics
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

from experiment_shell import finished_run
from experiments.private import methods
from experiments.private import findings
from experiments.private import report
from experiments.private import results as results_lib
from tests.experiments.private import sample_benchmark


def _cells(page, label):
  """Returns the cells of all rows with this label, without markup."""
  rows = re.findall(f'<tr><th scope="row">{re.escape(label)}</th>(.*?)</tr>', page)
  return [
      [re.sub("<.*?>", "", cell) for cell in re.findall("<td.*?>(.*?)</td>", row)]
      for row in rows
  ]


class ReportTest(parameterized.TestCase):

  def _write(self, draw=False, **changes):
    """Writes a sample and its report; returns the run and the page's text."""
    run = sample_benchmark.write(self.create_tempdir().full_path, **changes)
    with contextlib.ExitStack() as stack:
      if not draw:  # Figures take nearly all of the time.
        stack.enter_context(mock.patch.object(report, "_figures", return_value=()))
      report.write_report(run)
    with open(run.join("report.html"), encoding="utf-8") as file:
      return run, file.read()

  def test_writes_page_and_figures(self):
    run, page = self._write(draw=True)

    self.assertCountEqual(
        os.listdir(run.path),
        ["config.json", "figures", "ledgers.json", "measurements.csv", "report.html"],
    )
    self.assertCountEqual(
        os.listdir(run.join("figures")), ["loss_over_epsilon.png", "loss_over_k.png"]
    )
    self.assertEqual(page.count("<figure>"), 2)

  @parameterized.named_parameters(
      ("all", {}, True, True),
      ("no_peer", {"fixed_epsilon": 2.0}, True, False),
      ("all_private", {"factors": {"lsh": 1.0}}, False, True),
  )
  def test_the_caption_is_of_what_was_drawn(self, changes, has_line, has_crosses):
    run = sample_benchmark.write(self.create_tempdir().full_path, **changes)
    caption = report._figures(results_lib.read(run))[0].caption

    self.assertEqual("dashed line" in caption, has_line)
    self.assertEqual("Crosses" in caption, has_crosses)

  def test_warnings_of_the_run_are_shown(self):
    self.enter_context(mock.patch.object(
        finished_run.FinishedRun, "warnings", (("Other <versions>", "of numpy"),)
    ))
    _, page = self._write()

    self.assertIn("Other &lt;versions&gt;", page)

  def test_begins_with_the_verdict(self):
    _, page = self._write()

    first = page[page.index("<h2>Summary") :]
    self.assertRegex(first, "^<h2>Summary</h2>\n<p><strong>Split and refine has the smallest")

  def test_tables_show_means_and_deviations_and_mark_the_best_private_loss(self):
    _, page = self._write()

    mean = sample_benchmark.invented_loss(0.75, 2, 1.0, 1.5)
    over_k_of_letter = _cells(page, "split and refine")[0]
    losses = [sample_benchmark.invented_loss(0.75, 2, 1.0, run) for run in range(4)]
    deviation = statistics.stdev(losses)
    self.assertEqual(over_k_of_letter[0].split(), [f"{mean:#.3g}", "±", f"{deviation:#.3g}"])
    self.assertIn(f"<strong>{mean:#.3g}</strong>", page)
    not_private = sample_benchmark.invented_loss(0.5, 2, float("inf"), 1.5)
    self.assertNotIn(f"<strong>{not_private:#.3g}</strong>", page)

  def test_lists_all_cases_that_are_lost(self):
    _, page = self._write(factors={"lsh": 0.5, "refine": 0.75})

    rows = _cells(page[page.index("<h2>Where split") :], "letter")
    self.assertIn(["2", "1", "LSH tree", *rows[0][3:5], "1.500"], rows)
    self.assertLen([row for row in rows if row[-1] == "1.500"], 4)
    self.assertNotIn("<h2>Where split", self._write()[1])

  def test_shows_the_ratio_to_the_optimum(self):
    optimum = {"k": 16, "loss": 0.01, "paper_epsilon": 2.0}
    letter = {**sample_benchmark.DATASETS["letter"], "optimum": optimum, "unit_points": 50}
    _, page = self._write(datasets={"letter": letter}, factors={"refine_server": 0.75})

    mean = sample_benchmark.invented_loss(0.75, 16, 2.0, 1.5) / 0.01
    self.assertIn(
        ["one client with at most 50 points", "2, the paper&#x27;s",
         methods.LABELS["refine_server"], f"{mean:.4f}"],
        [row[:4] for row in _cells(page, "letter")],
    )
    self.assertIn("all points of a client together", page)
    self.assertIn("the server has no data", page)

  def test_compares_with_the_peer_and_says_what_was_not_run(self):
    _, page = self._write()

    (row,) = [row for row in _cells(page, "letter") if row[0] == "16" and "yes" in row]
    self.assertEqual(row[1], "0.0985")
    self.assertIn("was not run here", page)

  @parameterized.named_parameters(
      ("over_epsilon", {"epsilon_to_try": ()}, "<h2>Loss over epsilon"),
      ("the_peer", {"fixed_epsilon": 2.0}, "<h2>Comparison with google"),
      ("ledgers", {"factors": {"sklearn": 0.5, "lsh": 1.0}}, "<h2>What was released"),
  )
  def test_leaves_out_what_there_is_none_of(self, changes, heading):
    self.assertIn(heading, self._write()[1])
    self.assertNotIn(heading, self._write(**changes)[1])

  def test_shows_the_ledger(self):
    _, page = self._write()

    self.assertIn("1 releases for a budget of epsilon 1 at delta 1e-06", page)
    self.assertEqual(_cells(page, "split step 0"), [["1.25", "5", "0.25"]])
    self.assertIn("seeded with 4: NOT private", page)

  def test_what_is_skipped_is_escaped(self):
    _, page = self._write(skipped={"gas_emissions": "<urlopen error>"})

    self.assertIn("gas_emissions is left out", page)
    self.assertIn("&lt;urlopen error&gt;", page)

  def test_only_without_privacy(self):
    _, page = self._write(draw=True, factors={"sklearn": 0.5})

    self.assertIn("No private method was run.", page)


class FindingsTest(parameterized.TestCase):

  def _read(self, **changes):
    run = sample_benchmark.write(self.create_tempdir().full_path, **changes)
    return results_lib.read(run)

  @parameterized.named_parameters(
      ("refine", {"lsh": 1.0, "refine": 0.75}, "Split and refine has the smallest mean loss of "
       "the 2 central private methods on every data set and for every k"),
      ("another", {"lsh": 0.6, "refine": 0.75, "diffprivlib": 2.0},
       "LSH tree has the smallest mean loss of the 3 central private methods on every"),
      ("only_one", {"sklearn": 0.5, "lsh": 1.0}, "LSH tree is the only central "
       "private method that was run."),
      ("beside_a_federated_one", {"refine": 0.75, "refine_server": 0.6},
       "Split and refine is the only central private method that was run."),
      ("only_federated", {"refine_server": 0.6, "refine_none": 0.7},
       "Federated, noise by the server has the smallest mean loss of the 2 private methods on"),
      ("none", {"sklearn": 0.5}, "No private method was run"),
  )
  def test_verdict_follows_the_numbers(self, factors, expected):
    self.assertStartsWith(findings.verdict(self._read(factors=factors)), expected)

  def test_verdict_counts_where_no_method_is_best_everywhere(self):
    results = self._read(factors={"lsh": 1.0, "refine": 0.75})
    results.losses.loc[("letter", "refine", 2, 1.0), "mean"] = 9.0

    self.assertIn("Split and refine has the smallest", findings.verdict(results))
    self.assertIn("in 3 of 4 cases (data set and k)", findings.verdict(results))

  def test_the_cost_of_privacy_is_a_range_over_data_sets_and_k(self):
    results = self._read()
    better = results.loss("letter", "sklearn", 2) / 2
    results.losses.loc[("letter", "refine", 2, 1.0), "mean"] = better

    # The factors 0.75 and 0.5, and a tenth more for the noise of epsilon 1.
    self.assertIn(
        "split and refine has 0.50 to 1.65 times the loss of k-means without privacy",
        findings.price(results),
    )

  @parameterized.named_parameters(("no_private", ("sklearn",)), ("all_private", ("lsh", "refine")))
  def test_without_both_kinds_privacy_has_no_cost(self, methods):
    factors = {method: sample_benchmark.FACTORS[method] for method in methods}

    self.assertIsNone(findings.price(self._read(factors=factors)))

  def test_counts_where_it_is_the_best_on_new_data(self):
    new = {**sample_benchmark.DATASETS["letter"], "is_new": True}
    datasets = {**sample_benchmark.DATASETS, "letter": new}
    results = self._read(datasets=datasets, factors={"lsh": 1.0, "refine": 0.75})
    results.losses.loc[("letter", "refine", 2, 1.0), "mean"] = 9.0

    # k = 2 and 16 at epsilon 1, and two more epsilons with 16 clusters.
    self.assertStartsWith(findings.new_data(results), "On the 1 data set never used to")
    self.assertIn("in 3 of 4 cases", findings.new_data(results))
    self.assertIsNone(findings.new_data(self._read()))

  def test_federated_forms_are_compared_with_the_central_one(self):
    factors = {"sklearn": 0.5, "lsh": 1.0, "refine": 0.75, "refine_server": 0.6}
    results = self._read(factors=factors)

    (sentence,) = findings.federation(results)
    self.assertIn("Federated, noise by the server: 0.80 to 0.80 times", sentence)
    self.assertIn("bit for bit", " ".join(findings.notes(results)))
    # The federated form does not compete with its own central form.
    self.assertStartsWith(findings.verdict(results), "Split and refine has the smallest")

  @parameterized.named_parameters(("one", 1, "1 run:"), ("four", 4, "4 runs:"))
  def test_warns_of_few_runs(self, runs, words):
    (title, text), = findings.warnings(self._read(runs=runs))

    self.assertEqual(title, "Few runs")
    self.assertIn(words, text)

  def test_names_what_is_left_out(self):
    found = findings.warnings(self._read(runs=20, skipped={"gas_emissions": "no network"}))

    self.assertEqual(found, [("gas_emissions is left out", "no network.")])

  @parameterized.named_parameters(
      ("with_diffprivlib", ("diffprivlib", "refine"), True), ("without", ("refine",), False)
  )
  def test_says_that_diffprivlib_promises_more(self, methods, expected):
    factors = {method: sample_benchmark.FACTORS[method] for method in methods}
    notes = " ".join(findings.notes(self._read(factors=factors)))

    self.assertEqual("stricter" in notes, expected)
    self.assertIn("dp-clustering-icml17", notes)
    self.assertIn("Nothing in this folder is private", notes)


if __name__ == "__main__":
  absltest.main()
