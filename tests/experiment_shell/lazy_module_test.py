import sys

from absl.testing import absltest

from experiment_shell import lazy_module


class LazyModuleTest(absltest.TestCase):

  def test_is_imported_when_it_is_used(self):
    sys.modules.pop("colorsys", None)

    module = lazy_module.LazyModule("colorsys")

    self.assertNotIn("colorsys", sys.modules)
    self.assertEqual(module.rgb_to_hls(0, 0, 0), (0, 0, 0))
    self.assertIn("colorsys", sys.modules)


if __name__ == "__main__":
  absltest.main()
