from absl import flags
from absl.testing import absltest
from absl.testing import flagsaver
from absl.testing import parameterized

from experiment_shell import run_flags


class RunFlagsTest(parameterized.TestCase):

  def test_a_new_folder_by_default(self):
    names = {flag.name for flag in flags.FLAGS.get_key_flags_for_module(run_flags)}
    self.assertEqual(names, {"output_dir", "resume", "overwrite"})
    self.assertFalse(flags.FLAGS.resume or flags.FLAGS.overwrite)
    self.assertRegex(run_flags.output_dir("dp_benchmark"), r"^results/dp_benchmark-\d{8}-\d{6}$")

  @parameterized.parameters("resume", "overwrite")
  def test_an_earlier_run_must_be_named(self, flag):
    with flagsaver.flagsaver(**{"output_dir": "out", flag: True}):
      self.assertEqual(run_flags.output_dir("dp_benchmark"), "out")
    with flagsaver.flagsaver(**{flag: True}), self.assertRaisesRegex(ValueError, "`output_dir`"):
      run_flags.output_dir("dp_benchmark")


if __name__ == "__main__":
  absltest.main()
