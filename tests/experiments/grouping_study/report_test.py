import os

from absl.testing import absltest

from experiment_shell import figure_style
from experiments.grouping_study import figures
from experiments.grouping_study import report
from experiments.grouping_study import results as results_lib
from tests.experiments.grouping_study import sample_study


def _texts(figure):
  (axes,) = figure.axes
  return [text.get_text() for text in axes.texts]


class HeatMapTest(absltest.TestCase):

  def _heat_map(self, study, rows):
    run = sample_study.write(self.create_tempdir().full_path, study, rows)
    with figure_style.style():
      return figures.gains(results_lib.read(run), "fedavg")

  def test_a_field_is_blank_where_the_interval_includes_zero(self):
    study = sample_study.config(("iid",), num_seeds=3)
    rows = []
    for group in study.groups:
      some = group.seed / 100
      rows += [
          sample_study.row(group, "fedavg", accuracy=0.5),
          sample_study.row(group, "kmeans", accuracy=0.7 + some),
          sample_study.row(group, "ifca", accuracy=0.49 + some),
          sample_study.row(group, "finetuned", "nan"),
          sample_study.row(group, "local", accuracy=0.3 + some),
      ]

    figure = self._heat_map(study, rows)

    # Of K-means and of local: the mean, and the interval with t(2) at 97.5% = 4.3027.
    self.assertEqual(
        _texts(figure),
        ["+21.0", "+18.5 to +23.5", "-19.0", "-21.5 to -16.5", "failed"],
    )

  def test_bold_gains_hold_for_all_comparisons_together(self):
    study = sample_study.config(("iid",), num_seeds=3)
    rows = []
    for group in study.groups:
      some = group.seed / 100
      rows += [
          sample_study.row(group, "fedavg", accuracy=0.5),
          sample_study.row(group, "kmeans", accuracy=0.7 + some),
          sample_study.row(group, "ifca", accuracy=0.52 + some),
      ]

    (axes,) = self._heat_map(study, rows).axes

    weights = {text.get_text(): text.get_fontweight() for text in axes.texts}
    # 3 points: more than 4.3 standard errors of 0.58, and less than 8.9 (t(2), 4 comparisons).
    self.assertEqual((weights["+21.0"], weights["+3.0"]), ("bold", "normal"))


class ReportTest(absltest.TestCase):

  def _page(self, study=None, rows=None):
    run = sample_study.write(self.create_tempdir().full_path, study, rows)
    report.write_report(run)
    with open(run.join("report.html"), encoding="utf-8") as file:
      return run, file.read()

  def test_figures_and_tables(self):
    run, page = self._page()

    self.assertCountEqual(
        os.listdir(run.join("figures")),
        ["gains_over_fedavg.png", "gains_over_finetuned.png", "accuracy_by_cost.png"],
    )
    for text in (
        "rotated: four groups", "over FedAvg", "Grouping the clients beats", "1.000 ± 0.000"
    ):
      self.assertIn(text, page)
    self.assertNotIn("Failures", page)

  def test_failures_are_listed(self):
    study = sample_study.config()
    rows = sample_study.rows(study)
    for place, row in enumerate(rows):
      if row[3] == "ifca":
        group = next(g for g in study.groups if (g.setting, g.seed) == (row[0], row[1]))
        rows[place] = sample_study.row(group, "ifca", "the loss is nan")

    _, page = self._page(study, rows)

    self.assertIn("Failures", page)
    self.assertEqual(page.count("the loss is nan"), 8)

  def test_folds(self):
    study = sample_study.config(("rotated",), num_seeds=1, num_folds=10)

    _, page = self._page(study)

    self.assertIn("10 folds of seed 0", page)
    self.assertIn("Nadeau and Bengio 2003", page)

  def test_without_methods_there_are_the_controls(self):
    _, page = self._page(sample_study.config(("iid",), methods=(), num_clusters=None))

    self.assertIn("No method was chosen", page)


if __name__ == "__main__":
  absltest.main()
