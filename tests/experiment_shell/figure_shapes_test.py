from absl.testing import absltest
import numpy as np
import pandas as pd

from experiment_shell import figure_shapes
from experiment_shell import figure_style


class FigureShapesTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.axes = figure_style.new_figure(2).add_subplot()

  def _labels(self):
    return [text.get_text() for text in self.axes.get_yticklabels()]

  def test_dots_are_in_their_rows_with_their_intervals(self):
    table = pd.DataFrame({
        "row": ["low", "high"], "mean": [1.0, 5.0], "low": [0.5, np.nan], "high": [2.0, np.nan],
        "color": ["red", "blue"],
    })

    figure_shapes.set_rows(self.axes, ["high", "low"])
    figure_shapes.dots(self.axes, ["high", "low"], table, shift=0.25)

    dots = [(*line.get_xydata()[0], line.get_color()) for line in self.axes.lines]
    self.assertEqual(dots, [(1, 1.25, "red"), (5, 0.25, "blue")])
    (interval,) = self.axes.collections
    np.testing.assert_array_equal(interval.get_segments(), [[[0.5, 1.25], [2, 1.25]]])
    self.assertGreater(*self.axes.get_ylim())  # The first row is at the top.
    self.assertEqual(self._labels(), ["high", "low"])

  def test_heat_map_has_a_text_for_each_cell_that_shows_on_its_colour(self):
    table = pd.DataFrame([[0.0, 1.0, -1.0]], index=["$a"], columns=["x", "y", "z"])

    figure_shapes.heat_map(self.axes, table, (-1, 1), "RdBu", texts=[["0", "1", "-1"]])

    texts = [(text.get_text(), text.get_color() == "white") for text in self.axes.texts]
    self.assertEqual(texts, [("0", False), ("1", True), ("-1", True)])
    self.assertEqual(self._labels(), ["$a"])


if __name__ == "__main__":
  absltest.main()
