"""Tests for experiments.kmeans.report and figures."""

import html
import json
import os
from unittest import mock

from absl.testing import absltest

from clustering_basics import file_format
from experiment_shell import finished_run
from experiment_shell import output_folder
from experiments.kmeans import cells
from experiments.kmeans import config
from experiments.kmeans import methods
from experiments.kmeans import report
from experiments.kmeans import results
from fl_clustering.kmeans import kmeans_config
from tests.experiments.kmeans import sample_rows


class FindingsTest(absltest.TestCase):

  def test_the_verdict_counts_fits_that_missed(self):
    scores = results.of_rows(sample_rows.sample_rows(("extreme",)))
    # Two data sets, two seeds, all 2% above.
    self.assertRegex(report.verdict(scores), r"^4 of 4 default fits .*worst: \+2\.00%")
    self.assertRegex(report.others_missed(scores), "; FKM in 4 of 4 fits; k-FED in 4 of 4 fits")

  def test_without_synthetic_data(self):
    scores = results.of_rows(sample_rows.sample_rows(("sse",)))
    self.assertRegex(report.verdict(scores), "^The tables of the report")
    self.assertIsNone(report.others_missed(scores))


class ReportTest(absltest.TestCase):

  def _finished(self, figures):
    """Returns a finished run in a folder, as the program leaves it."""
    folder = self.create_tempdir().full_path
    rows = sample_rows.sample_rows(figures)
    files = {
        "config.json": json.dumps(file_format.stamped({
            "config": config.PaperConfig(figures).to_json(),
            "data": {"real": "digits of <nobody>"},
            "versions": {"numpy": "1"},
        })),
        "timing.json": '{"num_clients": 5, "seconds_per_round": 0.0123}',
        "measurements.csv": output_folder.csv_text(
            (*cells.KEYS, *cells.VALUES), (row.values() for row in rows)
        ),
    }
    for name, text in files.items():
      with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)
    return finished_run.FinishedRun(folder)

  def _page(self, figures):
    finished = self._finished(figures)
    report.write_report(finished)
    with open(finished.join("report.html"), encoding="utf-8") as file:
      return file.read(), sorted(os.listdir(finished.join("figures")))

  def test_warnings_of_the_run_are_shown(self):
    self.enter_context(mock.patch.object(
        finished_run.FinishedRun, "warnings", (("Other <versions>", "of numpy"),)
    ))
    page, _ = self._page(("rounds",))
    self.assertIn("Other &lt;versions&gt;", page)

  def test_everything_is_there(self):
    page, figures = self._page(config.FIGURES)
    self.assertEqual(figures, [
        "extreme.png", "noise.png", "noisy_data.png", "privacy.png", "real.png", "regular.png",
        "rounds.png", "sse.png",
    ])
    self.assertEqual(page.count("<figure>"), 8)
    for text in ("took 0.012 s", "digits of &lt;nobody&gt;", "Figure 4: extreme split",
                 "188,160", "over the seeds 0 and 1"):
      self.assertIn(text, page)
    self.assertNotIn("<nobody>", page)

  def test_what_leaves_a_client_is_said_of_every_algorithm(self):
    page, _ = self._page(("rounds",))
    for method in kmeans_config.ALGORITHMS:
      self.assertIn(f"<strong>{html.escape(methods.METHODS[method].label)}:</strong>", page)
    for text in (
        "A cluster of one point is that point", "every client&#x27;s own means and counts",
        "the difference of two messages can be a row", "Every client adds a share of the noise",
        "The server adds the noise",
    ):
      self.assertIn(text, page)

  def test_losses_of_private_fits_are_said_to_be_exact(self):
    page, figures = self._page(("privacy",))
    self.assertEqual(figures, ["privacy.png"])
    self.assertIn("exact and NOT private", page)
    self.assertIn("it can&#x27;t be repeated", page)

  def test_methods_that_a_figure_has_not_are_not_spoken_of(self):
    page, _ = self._page(("rounds",))
    self.assertIn("exceeded that limit: FKM in", page)
    self.assertNotIn("of 0", page)

  def test_one_figure_alone(self):
    page, figures = self._page(("sse",))
    self.assertEqual(figures, ["sse.png"])
    self.assertNotIn("extreme split</h2>", page)
    self.assertIn("The synthetic data have five clients", page)
    self.assertIn("All federated fits but those of FKM as printed ran", page)


if __name__ == "__main__":
  absltest.main()
