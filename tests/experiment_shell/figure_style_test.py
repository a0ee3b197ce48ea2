import io
import os

from absl.testing import absltest
import numpy as np
from PIL import Image

from experiment_shell import figure_style


class FigureStyleTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.path = os.path.join(self.create_tempdir().full_path, "figure.png")

  def test_evenly_spaced_is_in_order_without_repeats(self):
    for limit in (1, 2, 5, 9, 10):
      shown = figure_style.evenly_spaced(list(range(10)), limit)
      self.assertEqual((len(shown), shown), (limit, sorted(set(shown))))

  def test_shortened_keeps_both_ends(self):
    self.assertEqual(figure_style.shortened("abcdefgh", 8), "abcdefgh")
    self.assertEqual(figure_style.shortened("abcdefghi", 8), "abc...hi")

  def test_files_are_small_and_keep_colors(self):
    figure = figure_style.new_figure(3)
    axes = figure.add_subplot()
    axes.imshow(np.arange(64).reshape(8, 8), cmap="viridis")
    axes.plot(np.sin(np.arange(200)).cumsum(), color="#cc79a7", linewidth=0.5)
    figure_style.save(figure, self.path)
    figure.savefig(whole := io.BytesIO(), dpi=160)
    found, exact = (np.asarray(Image.open(one).convert("RGB"), int) for one in (self.path, whole))
    self.assertLess(os.path.getsize(self.path), whole.tell() / 2)
    self.assertLess(np.abs(found - exact).max(), 64)
