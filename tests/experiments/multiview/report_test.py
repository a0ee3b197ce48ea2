"""Tests for experiments.multiview.report and figures."""

import json
import os

from absl.testing import absltest

from experiments.multiview import config as config_lib
from experiments.multiview import loaded_data
from experiments.multiview import report
from tests.experiments.multiview import sample_results


class ReportTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.config = config_lib.MultiViewStudyConfig()
    self.loaded = loaded_data.LoadedData(
        {"sample": sample_results.sample_data()}, False, {"other": "not <here>"}
    )

  def _page(self):
    document = loaded_data.describe(self.config, self.loaded)
    report.write_report(self.folder, self.loaded, sample_results.sample_rows(), document)
    with open(os.path.join(self.folder, "report.html"), encoding="utf-8") as file:
      return file.read()

  def test_the_page_has_everything(self):
    page = self._page()
    self.assertEqual(
        sorted(os.listdir(os.path.join(self.folder, "figures"))),
        ["sample_confusion.png", "sample_convergence.png", "sample_view_weights.png"],
    )
    self.assertEqual(page.count("<figure>"), 3)
    for text in ("reaches ARI 0.700 (IID)", "Left out: other", "not &lt;here&gt;",
                 "&lt;shape&gt;", "0.800 ± 0.014", "dirichlet_alpha"):
      self.assertIn(text, page)
    self.assertNotIn("<shape>", page)

  def test_the_summary_has_all_scores_as_numbers(self):
    summary = report.summary_json(self.loaded, sample_results.sample_rows())
    json.dumps(summary, allow_nan=False)
    self.assertAlmostEqual(summary["sample"]["equal"]["IID"]["ari"]["mean"], 0.7)
    self.assertIsNone(summary["sample"]["local_only"]["IID"]["rounds"])
    self.assertEqual(summary["sample"]["best_view"], "pixels")


if __name__ == "__main__":
  absltest.main()
