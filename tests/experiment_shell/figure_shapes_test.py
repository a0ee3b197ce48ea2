from absl.testing import absltest
import numpy as np
import pandas as pd

from experiment_shell import figure_shapes
from experiment_shell import figure_style


class FigureShapesTest(absltest.TestCase):

  def test_an_axis_of_powers_of_two_has_ticks_at_its_values_alone(self):
    axes = figure_style.new_figure(2).add_subplot()
    figure_shapes.set_powers_of_two(axes, pd.Series([8.0, 0.5, 2.0, 8.0], name="k"))
    self.assertEqual(axes.get_xticks().tolist(), [0.5, 2, 8])
    self.assertEqual([text.get_text() for text in axes.get_xticklabels()], ["0.5", "2", "8"])
    self.assertEmpty(axes.get_xticks(minor=True))
    self.assertEqual((axes.get_xscale(), axes.get_xlabel()), ("log", "k"))

  def test_texts_of_a_heat_map_stand_in_their_fields(self):
    table = pd.DataFrame([[1.0, 2, 3], [5, 4, np.nan]], index=["a", "b"], columns=["x", "y", "z"])
    axes = figure_style.new_figure(2).add_subplot()
    figure_shapes.heat_map(axes, table, (0, 6), "Blues", [["1", "2", "3"], ["5", "4", ""]])
    texts = {text.get_position(): (text.get_text(), text.get_color()) for text in axes.texts}
    self.assertEqual((texts[2, 0], texts[0, 1]), (("3", "#1c1e21"), ("5", "white")))
    self.assertEqual([text.get_text() for text in axes.get_xticklabels()], ["x", "y", "z"])
    self.assertEqual([text.get_text() for text in axes.get_yticklabels()], ["a", "b"])

  def test_dots_are_in_their_rows_with_their_intervals(self):
    table = pd.DataFrame({
        "row": ["low", "high"], "mean": [1.0, 5.0], "low": [0.5, np.nan], "high": [2.0, np.nan],
        "color": ["red", "blue"],
    })
    axes = figure_style.new_figure(2).add_subplot()

    figure_shapes.set_rows(axes, ["high", "low"])
    figure_shapes.dots(axes, ["high", "low"], table, shift=0.25)

    dots = [(*line.get_xydata()[0], line.get_color()) for line in axes.lines]
    self.assertEqual(dots, [(1, 1.25, "red"), (5, 0.25, "blue")])
    (interval,) = axes.collections
    np.testing.assert_array_equal(interval.get_segments(), [[[0.5, 1.25], [2, 1.25]]])
    self.assertGreater(*axes.get_ylim())  # The first row is at the top.
    self.assertEqual([text.get_text() for text in axes.get_yticklabels()], ["high", "low"])
