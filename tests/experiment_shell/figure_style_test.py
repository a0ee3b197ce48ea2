import io
import os
from unittest import mock
import warnings

from absl import logging
from absl.testing import absltest
from absl.testing import parameterized
from matplotlib import font_manager
import numpy as np
from PIL import Image

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

  def _told(self, text):
    """Saves two figures with text on their axes; returns what is logged or warned of."""
    path = os.path.join(self.create_tempdir().full_path, "figure.png")
    figure_style.tell_of_boxes.cache_clear()
    with (
        figure_style.style(), warnings.catch_warnings(record=True) as warned,
        mock.patch.object(logging, "warning") as logged,
    ):
      for _ in range(2):
        figure = figure_style.new_figure(2)
        figure.add_subplot().set_yticks([0, 1], [text, "b"])
        figure_style.save(figure, path)
    self.assertGreater(os.path.getsize(path), 0)
    return [call.args[0] for call in logged.call_args_list] + [str(w) for w in warned]

  def test_other_fonts_have_what_the_first_has_not(self):
    # Both come with matplotlib.
    first, other = (
        font_manager.get_font(font_manager.findfont(name)).get_charmap()
        for name in ("DejaVu Sans", "STIXGeneral")
    )
    code = next(code for code in other if code not in first)
    self.assertEmpty(self._told(f"a{chr(code)}"))

  def test_files_are_small_and_keep_colors(self):
    figure = figure_style.new_figure(3)
    axes = figure.add_subplot()
    axes.imshow(np.arange(64).reshape(8, 8), cmap="viridis")
    axes.plot(np.sin(np.arange(200)).cumsum(), color="#cc79a7", linewidth=0.5)
    path = os.path.join(self.create_tempdir().full_path, "figure.png")
    figure_style.save(figure, path)
    figure.savefig(whole := io.BytesIO(), dpi=160)
    found, exact = (np.asarray(Image.open(one).convert("RGB"), int) for one in (path, whole))
    self.assertLess(os.path.getsize(path), whole.tell() / 2)
    errors = np.abs(found - exact).max(axis=-1)
    self.assertLess(errors.max(), 64)
    self.assertLess((errors > 0).mean(), 0.02)


if __name__ == "__main__":
  absltest.main()
