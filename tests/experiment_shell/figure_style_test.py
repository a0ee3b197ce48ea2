from absl.testing import absltest
from absl.testing import parameterized
import matplotlib
import numpy as np

from experiment_shell import figure_style


class FigureStyleTest(parameterized.TestCase):

  @parameterized.parameters(1, 2, 5, 9, 10)
  def test_evenly_spaced_is_in_order_without_repeats(self, limit):
    shown = figure_style.evenly_spaced(list(range(10)), limit)

    self.assertLen(shown, limit)
    self.assertEqual(shown, sorted(set(shown)))

  def test_shortened_keeps_both_ends(self):
    self.assertEqual(figure_style.shortened("abcdefgh", 8), "abcdefgh")
    self.assertEqual(figure_style.shortened("abcdefghi", 8), "abc...hi")

  def test_blocks(self):
    self.assertEqual(
        figure_style.blocks(np.array([4, 4, 4, 0, 7, 7])), [(0, 3), (3, 4), (4, 6)]
    )

  def test_style_leaves_no_trace(self):
    before = dict(matplotlib.rcParams)
    with figure_style.style():
      self.assertNotEqual(dict(matplotlib.rcParams), before)

    self.assertEqual(dict(matplotlib.rcParams), before)

  def test_title_says_what_on_which_data_and_what_was_left_out(self):
    figure = figure_style.new_figure(2)

    figure_style.set_title(figure, "digits, 6 clients", "Loss per round", "shown: 3 of 6")

    self.assertEqual(
        figure.get_suptitle().splitlines(), ["Loss per round", "digits, 6 clients", "shown: 3 of 6"]
    )


if __name__ == "__main__":
  absltest.main()
