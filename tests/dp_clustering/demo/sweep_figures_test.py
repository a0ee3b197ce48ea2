import math

from absl.testing import absltest
import numpy as np

from dp_clustering.demo import sweep_figures
from experiment_shell import figure_style


def _row(k, epsilon, loss_per_point):
  return {
      "k": k, "epsilon": epsilon, "loss_per_point": loss_per_point,
      "dominant_label_accuracy": 0.9, "true_nonmatch_frac": 0.2, "false_match_frac": math.nan,
  }


class SweepFigureTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.enter_context(figure_style.style())

  def _figure(self, rows, over):
    return sweep_figures.sweep_figure(rows, over, 0.1, "9 points", "a budget")

  def _line(self, figure, panel, index):
    return figure.axes[panel].lines[index].get_xydata().tolist()

  def test_lines_are_the_rows_in_order(self):
    figure = self._figure([_row(8, 1.0, 0.2), _row(2, 1.0, 0.5)], "k")
    self.assertEqual(self._line(figure, 0, 0), [[2, 0.5], [8, 0.2]])
    self.assertEqual(self._line(figure, 1, 0), [[2, 0.9], [8, 0.9]])
    self.assertEqual(self._line(figure, 1, 1), [[2, 0.2], [8, 0.2]])

  def test_infinite_epsilon_has_a_place_and_a_name(self):
    figure = self._figure(
        [_row(8, math.inf, 0.2), _row(8, 0.5, 0.4), _row(8, 3.0, 0.3)], "epsilon"
    )
    self.assertEqual(self._line(figure, 0, 0), [[0.5, 0.4], [3, 0.3], [6, 0.2]])
    names = [text.get_text() for text in figure.axes[1].get_xticklabels()]
    self.assertEqual(names, ["0.5", "3", "no noise"])

  def test_infinite_epsilon_alone(self):
    self.assertLen(self._line(self._figure([_row(8, math.inf, 0.2)], "epsilon"), 0, 0), 1)

  def test_many_values_have_few_ticks(self):
    figure = self._figure([_row(k, 1.0, 1 / k) for k in range(1, 60)], "k")
    self.assertLen(figure.axes[0].get_xticks(), 10)

  def test_title_names_data_and_setting(self):
    title = self._figure([_row(2, 1.0, 0.5)], "k").get_suptitle()
    self.assertIn("9 points", title)
    self.assertIn("a budget", title)

  def test_all_losses_are_in_view(self):
    figure = self._figure([_row(2, 1.0, 0.01), _row(4, 1.0, 0.02)], "k")
    low, high = figure.axes[0].get_ylim()
    self.assertTrue(np.all(np.array([low, 0.01, 0.1]) < [0.0, 0.1, high]))


if __name__ == "__main__":
  absltest.main()
