import html
import os
from unittest import mock

from absl.testing import absltest

from experiment_shell import finished_run
from experiments.multiview import figures
from experiments.multiview import methods
from experiments.multiview import report
from tests.experiments.multiview import sample_results


class ReportTest(absltest.TestCase):

  def _draw(self, **options):
    """Returns a run and its page."""
    run = sample_results.write_run(self.create_tempdir().full_path, **options)
    report.write_report(run)
    with open(run.join("report.html"), encoding="utf-8") as file:
      return run, file.read()

  def test_the_page_has_everything(self):
    run, page = self._draw()

    self.assertEqual(
        sorted(os.listdir(run.join("figures"))),
        ["sample_confusion.png", "sample_convergence.png", "sample_view_weights.png"],
    )
    self.assertEqual(page.count("<figure>"), 3)
    for text in ("reaches ARI 0.700 (IID)", "Left out: other", "not &lt;here&gt;",
                 "&lt;shape&gt;", "0.800 ± 0.014", "dirichlet_alpha"):
      self.assertIn(text, page)
    self.assertNotIn("<shape>", page)
    self.assertNotIn("simulated", page)
    self.assertIn("sample. 5 clients, IID and by Dirichlet(0.3) label skew. Seeds: 5 from 0.", page)
    self.assertNotIn("three sites", page)

  def test_warnings_of_the_run_are_shown(self):
    self.enter_context(mock.patch.object(
        finished_run.FinishedRun, "warnings", (("Other <versions>", "of numpy"),)
    ))
    _, page = self._draw(
        with_sample=False, demonstration=sample_results.demonstration_rows()
    )

    self.assertIn("Other &lt;versions&gt;", page)

  def test_the_page_of_the_tutorials_data(self):
    run, page = self._draw(with_sample=False, demonstration=sample_results.demonstration_rows())

    self.assertFalse(run.has("figures"))
    self.assertIn("simulated_dha. The tutorial's data: its three sites. Seeds: 5 from 42.",
                  html.unescape(page))
    self.assertNotIn("Dirichlet(", page)
    # Its claims beside our measurements.
    for text in ("simulated DHA: its claims and our measurements", "0.6999",
                 "central k-means, both views", "0.325 ± 0.035"):
      self.assertIn(text, page)
    self.assertEqual(page.count("finds them all"), 1)
    self.assertIn("<strong>simulated_dha: the clusters are so far apart", page)

  def test_what_plain_k_means_finds_is_what_was_measured(self):
    _, page = self._draw(
        with_sample=False, demonstration=sample_results.demonstration_rows(central_ari=0.9)
    )

    self.assertNotIn("finds them all", page)
    self.assertIn("reaches ARI 0.900, so it does not find all clusters", page)


class FiguresTest(absltest.TestCase):

  def test_captions_promise_scores_with_classes_alone(self):
    rows = [row for row in sample_results.sample_rows() if row["method"] in methods.RULES]
    for results, is_scored in (
        (sample_results.sample_results(), True),
        (sample_results.sample_results(rows, labelled=False), False),
    ):
      caption = report._figures(results)[1].caption
      self.assertEqual("numbers on the right" in caption, is_scored)

  def test_classes_of_the_user_have_their_names(self):
    results = sample_results.sample_results()
    axes = figures.confusion(results).axes[0]
    self.assertEqual([text.get_text() for text in axes.get_yticklabels()], ["0", "1", "2"])
    results.class_names = ["bird", "cat", "dog"]
    axes = figures.confusion(results).axes[0]
    self.assertEqual([text.get_text() for text in axes.get_yticklabels()], ["bird", "cat", "dog"])


class FindingsTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.results = sample_results.sample_results()

  def test_verdict_has_the_tables_numbers(self):
    verdict = report.verdict(self.results)
    self.assertIn("ARI 0.700 (IID) and 0.700 (Dirichlet)", verdict)
    self.assertIn("0.100 above k-means on all points", verdict)
    self.assertIn("0.200 above the best single view, pixels (0.500)", verdict)
    self.assertIn("0.400 above the paper's view weights (0.300)", verdict)

  def test_a_favourite_that_is_not_the_best_view_is_named(self):
    sentence = report.misplaced_weight(self.results)
    self.assertIn("most weight to <shape>, not to the best view, pixels", sentence)
    swapped = [
        {**row, "view_weights": "0.8 0.2"} if row["method"] == "mvkm" else row
        for row in sample_results.sample_rows()
    ]
    self.assertIsNone(report.misplaced_weight(sample_results.sample_results(swapped)))

  def test_a_favourite_as_good_as_the_best_view_is_no_reproach(self):
    for nmi, is_named in ((0.597, False), (0.59, True)):
      rows = [
          {**row, "nmi": nmi} if row["view"] == "<shape>" else row
          for row in sample_results.sample_rows()
      ]
      sentence = report.misplaced_weight(sample_results.sample_results(rows))
      self.assertEqual(sentence is not None, is_named)

  def test_clients_as_given_have_no_partition(self):
    rows = [
        {**row, "partition": "as given"} if row["partition"] == "IID" else row
        for row in sample_results.sample_rows() if row["partition"] != "Dirichlet"
    ]
    verdict = report.verdict(sample_results.sample_results(rows))
    self.assertIn("ARI 0.700 (as given); that is 0.100 above k-means on all points", verdict)

  def test_worse_and_level_are_said(self):
    rows = [
        {**row, "ari": 0.301, "nmi": 0.4} if row["method"] == "equal" else row
        for row in sample_results.sample_rows()
    ]
    verdict = report.verdict(sample_results.sample_results(rows))
    self.assertIn("0.299 below k-means on all points", verdict)
    self.assertIn("level with the paper's view weights", verdict)

  def test_nothing_is_said_without_classes(self):
    rows = [row for row in sample_results.sample_rows() if row["method"] in methods.RULES]
    results = sample_results.sample_results(rows, labelled=False)
    self.assertIsNone(report.verdict(results))
    self.assertIsNone(report.misplaced_weight(results))


if __name__ == "__main__":
  absltest.main()
