"""Tests for experiments.kmeans.report and figures."""

import os

from absl.testing import absltest

from experiments.kmeans import config
from experiments.kmeans import report
from experiments.kmeans import results
from tests.experiments.kmeans import sample_rows


class ReportTest(absltest.TestCase):

  def _page(self, figures):
    folder = self.create_tempdir().full_path
    document = {
        "config": config.PaperConfig(figures).to_json(),
        "data": {"real": "digits of <nobody>"},
        "versions": {"numpy": "1"},
    }
    report.write_report(
        folder, results.Results(sample_rows.sample_rows(figures)), document,
        {"num_clients": 5, "seconds_per_round": 0.0123},
    )
    with open(os.path.join(folder, "report.html"), encoding="utf-8") as file:
      return file.read(), sorted(os.listdir(os.path.join(folder, "figures")))

  def test_everything_is_there(self):
    page, figures = self._page(config.FIGURES)
    self.assertEqual(figures, [
        "extreme.png", "noise.png", "noisy_data.png", "real.png", "regular.png", "rounds.png",
        "sse.png",
    ])
    self.assertEqual(page.count("<figure>"), 7)
    for text in ("took 0.012 s", "digits of &lt;nobody&gt;", "Figure 4: extreme split",
                 "188,160", "over the seeds 0 and 1"):
      self.assertIn(text, page)
    self.assertNotIn("<nobody>", page)

  def test_methods_that_a_figure_has_not_are_not_spoken_of(self):
    page, _ = self._page(("rounds",))
    self.assertIn("Above that limit ended FKM in", page)
    self.assertNotIn("of 0", page)

  def test_one_figure_alone(self):
    page, figures = self._page(("sse",))
    self.assertEqual(figures, ["sse.png"])
    self.assertNotIn("extreme split</h2>", page)


if __name__ == "__main__":
  absltest.main()
