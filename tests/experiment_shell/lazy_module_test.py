import gc
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

  def test_no_garbage_is_collected_while_it_is_imported(self):
    folder = self.create_tempdir()
    folder.create_file(
        "makes_objects.py", "import gc\nwas_enabled = gc.isenabled()\n"
    )
    sys.path.insert(0, folder.full_path)
    self.addCleanup(sys.path.remove, folder.full_path)

    module = lazy_module.LazyModule("makes_objects")

    self.assertFalse(module.was_enabled)
    self.assertTrue(gc.isenabled())

  def test_garbage_is_collected_after_an_import_that_fails(self):
    module = lazy_module.LazyModule("no_such_module")

    with self.assertRaises(ModuleNotFoundError):
      _ = module.name
    self.assertTrue(gc.isenabled())


if __name__ == "__main__":
  absltest.main()
