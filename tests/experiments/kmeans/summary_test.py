import os
import tempfile
from unittest import mock

from absl.testing import absltest
import numpy as np

from experiment_shell import tidy_experiment
from experiment_shell import tidy_report
from experiments.kmeans import config
from experiments.kmeans import data
from experiments.kmeans import methods
from experiments.kmeans import papers
from experiments.kmeans import summary
from tests.experiments.kmeans import sample_papers

_GRID = data.grid_name(0.1, 50, 1.0)


def _frames(*arguments):
  with tempfile.TemporaryDirectory() as folder:
    run = sample_papers.write(folder, *arguments)
    return papers.EXPERIMENT.summarise(tidy_experiment.tidy(papers.EXPERIMENT, run), run.document)


def _row(frame, **values):
  for column, value in values.items():
    frame = frame[frame[column] == value]
  (row,) = frame.to_dict("records")
  return row


class SummaryTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.frames = _frames()

  def test_scores_have_mean_deviation_and_excess_over_central_in_percent(self):
    scores = self.frames["scores"]

    row = _row(scores, data=_GRID, method="central k-means")
    self.assertAlmostEqual(row["ari"], 0.905)
    self.assertAlmostEqual(row["ari sd"], 0.01 / 2**0.5)
    self.assertTrue(np.isnan(row["bytes_up"]))
    self.assertNotIn("child/parent", set(scores[scores["data"] == _GRID]["method"]))
    for method, label in methods.LABELS.items():
      excess = scores[scores["method"] == label][summary.EXCESS]
      np.testing.assert_allclose(excess, 2 * sample_papers.PLACES[method], atol=1e-9)

  def test_ours_stands_beside_the_papers(self):
    published = self.frames["published"]
    for method, name, paper in (
        ("FKM", _GRID, 0.949), ("k-FED", data.grid_name(10.0, 50, 1.5), 0.607),
        ("central k-means", data.grid_name(1.0, 50, 1.5), 0.725),
        ("FKM", data.extreme_name(1.0), 0.902),
    ):
      self.assertEqual(_row(published, data=name, method=method)["paper"], paper)
    self.assertLen(published, 2 * 3 * 3 + 1)
    # The crosses of the figure.
    self.assertLen(self.frames["noise"].dropna(subset="paper"), 2 * 3 * 3)
    self.assertEmpty(self.frames["more_points"].dropna(subset="paper"))

  def test_headline_counts_fits_that_missed(self):
    (row,) = _frames(("extreme",))["headline"].to_dict("records")

    self.assertEqual((row["exceeded"], row["fits"], row["verdict"]), (4, 4, "some"))
    self.assertAlmostEqual(row["worst"], 2 * sample_papers.PLACES["sums"])
    with mock.patch.dict(sample_papers.PLACES, {"sums": 0.4}):
      self.assertEqual(_frames(("extreme",))["headline"]["verdict"].tolist(), ["none"])
    self.assertEmpty(_frames(("sse", "real"))["headline"])

  def test_a_fit_that_ended_stays_where_it_was(self):
    rounds = self.frames["rounds"]

    own = rounds[(rounds["data"] == _GRID) & (rounds["method"] == "FKM")]
    self.assertEqual(own["round"].tolist(), [1, 2, 3])
    np.testing.assert_allclose(own["ari"], [0.6, 0.65, 0.725])

  def test_tables_over_noise_data_and_epsilon(self):
    places, over_noise = sample_papers.PLACES, self.frames["over_noise"]

    row = _row(over_noise, panel="50 points, beta 0.1", method="FKM")
    np.testing.assert_allclose([row["1"], row["1.5"]], 0.905 - 0.01 * places["fkm"])
    labels = [methods.LABELS[one] for one in methods.FIGURES["noise"][_GRID]]
    self.assertEqual(over_noise["method"].tolist(), 9 * labels)
    row = _row(self.frames["sse_table"], method="FKM, then Lloyd")
    self.assertAlmostEqual(row["breast cancer"], 2 * places["fkm_lloyd"])
    for method, kind, column in (
        ("private none epsilon=0.5", methods.NONE, "0.5"),
        ("central", "central k-means", "no privacy"),
    ):
      row = _row(self.frames["privacy"], of="noise 1.5", method=kind)
      expected = (1 + 0.02 * places[method]) / (1 + 0.02 * places["true_centers"])
      self.assertAlmostEqual(row[column], expected)

  def test_figures_have_means_and_deviations(self):
    for name in ("regular", "noise", "extreme"):
      frame = self.frames[name]
      row = frame[frame["method"] == "FKM"].iloc[0]
      self.assertAlmostEqual(row["mean"], 0.905 - 0.01 * sample_papers.PLACES["fkm"])
      self.assertAlmostEqual(row["high"] - row["mean"], 0.01 / 2**0.5)
      self.assertAlmostEqual(row["mean"] - row["low"], 0.01 / 2**0.5)
    self.assertEqual(set(self.frames["noise"]["points"]), {50})
    self.assertEqual(set(self.frames["more_points"]["points"]), {100, 200})
    self.assertNotIn("central k-means", set(self.frames["sse"]["method"]))
    loss = self.frames["loss_over_epsilon"]
    for method in ("true centers", methods.NONE):
      own = loss[(loss["of"] == "noise 1") & (loss["method"] == method)]
      self.assertEqual(own["epsilon"].tolist(), list(methods.EPSILONS))

  def test_report_has_the_figures_that_were_chosen(self):
    drawn = {
        "regular": {"regular_points", "regular"},
        "noise": {"noise_points", "noise", "more_points"},
        "rounds": {"rounds"},
        "extreme": {"extreme_points", "extreme"},
        "real": {"silhouettes"},
        "sse": {"sse"},
        "privacy": {"loss_over_epsilon"},
    }
    self.assertCountEqual(drawn, config.FIGURES)
    names = {figure.name for figure in papers.EXPERIMENT.figures}
    self.assertEqual(set().union(*drawn.values()), names)
    frames = _frames(("real",), 1)
    self.assertEqual({name for name in names if len(frames[name])}, drawn["real"])
    run = sample_papers.write(self.create_tempdir().full_path)
    tidy_report.report(papers.EXPERIMENT, run)
    self.assertEqual(set(os.listdir(run.join("figures"))), {f"{name}.png" for name in names})
    self.assertTrue(tidy_report.text(papers.EXPERIMENT, run))

  def test_a_cell_is_measured_once_though_several_figures_show_it(self):
    found = papers.cells(config.PaperConfig(("regular", "noise", "rounds"), num_seeds=1))

    keys = [tuple(cell.values()) for cell in found]
    self.assertLen(set(keys), len(keys))
    self.assertIn((_GRID, 0, "fkm"), keys)


if __name__ == "__main__":
  absltest.main()
