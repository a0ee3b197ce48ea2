import os

from absl.testing import absltest

from bench.contest import report
from bench.contest import results
from tests.bench import sample_comparison


class ReportTest(absltest.TestCase):

  def _report(self, **settings):
    run = sample_comparison.write(self.create_tempdir().full_path, **settings)
    report.write_report(run)
    with open(run.join("report.html"), encoding="utf-8") as file:
      return run, file.read()

  def test_has_tables_problems_and_the_figure(self):
    run, page = self._report()

    self.assertTrue(os.path.exists(run.join("figures/curves_and_ratios.png")))
    for part in (
        "small network: our round takes 1.22 (1.21-1.23) times that of plain TensorFlow.",
        "ours takes 2:43 (minutes:seconds) with the start of the program",
        "Apple&#x27;s pfl, cnn_small, launch 2", "no matching distribution &lt;for jax&gt;",
        "published, another machine", "invented &lt;digits&gt;", "data:image/png;base64,",
    ):
      self.assertIn(part, page)

  def test_the_verdict_compares_each_peer_with_ours(self):
    run = sample_comparison.write(self.create_tempdir().full_path)

    (sentence,) = report.verdict(results.read(run))

    self.assertIn("Apple's pfl 1.93, Flower with Ray 3.68 (3.59-3.78).", sentence)

  def test_without_the_published_comparison(self):
    _, page = self._report(workloads=("cnn_small",))

    self.assertNotIn("published, another machine", page)


if __name__ == "__main__":
  absltest.main()
