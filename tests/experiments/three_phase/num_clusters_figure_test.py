from absl.testing import absltest
import numpy as np

from experiment_shell import figure_style
from experiments.three_phase import num_clusters_figure


def _rows(scores, criterion):
  chosen = np.argmax(scores)
  return [
      {"criterion": criterion, "num_clusters": k + 1, "score": score, "chosen": int(k == chosen)}
      for k, score in enumerate(scores)
  ]


_ROWS = [
    *_rows([0.08, 0.1, 0.12, 0.2, 0.17], "silhouette"),
    *_rows([0.6, 0.01, 0.05, 0.3, 0.02], "eigengap"),
]


class NumClustersTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.enter_context(figure_style.style())

  def _draw(self, rows=_ROWS, **options):
    return num_clusters_figure.num_clusters(rows, "digits, 20 clients", **options)

  def test_a_panel_a_criterion_with_its_choice(self):
    figure = self._draw(decisive="eigengap")
    titles = [axes.get_title("left") for axes in figure.axes]
    self.assertEqual(titles, ["silhouette: 4", "eigengap: 1 (used by this run)"])
    self.assertIn("digits, 20 clients", figure.get_suptitle())

  def test_draws_the_scores_and_marks_the_choice(self):
    silhouette, eigengap = self._draw().axes
    score, level, choice = silhouette.lines
    self.assertEqual(list(score.get_xdata()), [2, 3, 4, 5])
    self.assertEqual(list(score.get_ydata()), [0.1, 0.12, 0.2, 0.17])
    self.assertEqual(set(level.get_ydata()), {0.08})
    self.assertEqual((list(choice.get_xdata()), list(choice.get_ydata())), ([4], [0.2]))
    score, choice = eigengap.lines
    self.assertEqual(list(score.get_xdata()), [1, 2, 3, 4, 5])
    self.assertEqual((list(choice.get_xdata()), list(choice.get_ydata())), ([1], [0.6]))

  def test_order_of_the_rows_does_not_matter(self):
    score = self._draw(_ROWS[::-1]).axes[-1].lines[0]
    self.assertEqual(list(score.get_ydata()), [0.1, 0.12, 0.2, 0.17])

  def test_one_client(self):
    (axes,) = self._draw(_rows([0.0], "stability")).axes
    self.assertEqual(axes.get_title("left"), "stability: 1")


if __name__ == "__main__":
  absltest.main()
