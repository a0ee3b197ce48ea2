import os

from absl.testing import absltest
import numpy as np

from experiment_shell import figure_style
from experiments.grouping_study import figures
from experiments.grouping_study import report
from experiments.grouping_study import results as results_lib
from tests.experiments.grouping_study import sample_study


def _texts(figure):
  (axes,) = figure.axes
  return [text.get_text() for text in axes.texts]


class HeatMapTest(absltest.TestCase):

  def _heat_map(self, study, rows, reference="fedavg"):
    run = sample_study.write(self.create_tempdir().full_path, study, rows)
    with figure_style.style():
      return figures.gains(results_lib.read(run), reference)

  def test_only_differences_told_from_zero_have_a_colour(self):
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

    # Of K-means and of local the interval too, with t(2) at 1 - .05 / 14 = 11.77.
    self.assertEqual(
        _texts(figure),
        ["+21.0", "+14.2 to +27.8", "+0.0", "failed", "-19.0", "-25.8 to -12.2"],
    )
    (image,) = figure.axes[0].images
    self.assertEqual(np.isfinite(image.get_array().filled(np.nan)).flatten().tolist(),
                     [True, False, False, True])

  def test_only_what_has_no_accuracy_failed(self):
    study = sample_study.config(("iid",), num_seeds=3)
    rows = []
    for group in study.groups:
      rows += [
          sample_study.row(group, "fedavg", accuracy=0.5),
          sample_study.row(group, "kmeans", accuracy=0.7),
          sample_study.row(group, "ifca", "nan"),
          sample_study.row(group, "finetuned", "nan"),
          sample_study.row(group, "local", accuracy=0.3),
      ]

    figure = self._heat_map(study, rows, "finetuned")

    # K-means, IFCA, FedAvg and local.
    self.assertEqual(_texts(figure), ["–", "failed", "–", "–"])

  def test_gains_by_repetition(self):
    study = sample_study.config(("rotated", "iid"), num_seeds=3)
    rows = []
    for group in study.groups:
      index = {} if group.setting == "iid" else {"adjusted_rand_index": 0.9 + group.seed / 20}
      rows += [
          sample_study.row(group, "fedavg", accuracy=0.5),
          sample_study.row(group, "kmeans", accuracy=0.6 + group.seed / 10, **index),
      ]
    run = sample_study.write(self.create_tempdir().full_path, study, rows)
    with figure_style.style():
      rotated, iid = figures.gains_by_repetition(results_lib.read(run)).axes

    def gains(axes):
      # The first line is that of zero.
      return [[round(float(x)) for x in line.get_xdata()] for line in axes.lines[1:]]

    self.assertEqual(gains(rotated), [[20, 30], [10]])  # Groups found, and not found.
    self.assertEqual(gains(iid), [[10, 20, 30]])


class ReportTest(absltest.TestCase):

  def _page(self, study=None, rows=None):
    run = sample_study.write(self.create_tempdir().full_path, study, rows)
    report.write_report(run)
    with open(run.join("report.html"), encoding="utf-8") as file:
      return run, file.read()

  def test_figures_and_tables(self):
    run, page = self._page()
    self.assertIn("over the repetitions, with intervals that each hold alone; gains", page)

    self.assertCountEqual(
        os.listdir(run.join("figures")),
        [
            "gains_over_fedavg.png", "gains_over_finetuned.png", "gains_by_repetition.png",
            "accuracy_by_cost.png",
        ],
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
    # Its gains over both references, in both settings.
    self.assertEqual(page.count("<td>failed</td>"), 4)

  def test_without_the_fine_tuned_models_there_is_no_gain_over_them(self):
    study = sample_study.config()
    rows = [row for row in sample_study.rows(study) if row[3] != "finetuned"]
    rows += [sample_study.row(group, "finetuned", "no memory") for group in study.groups]

    _, page = self._page(study, rows)

    # That of the fine-tuned models over FedAvg, in both settings.
    self.assertEqual(page.count("<td>failed</td>"), 2)

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
