import os
from unittest import mock

from absl import flags
from absl.testing import absltest
from absl.testing import flagsaver
from absl.testing import parameterized

from experiment_shell import path_flag
from experiment_shell import run_flags


class RunFlagsTest(parameterized.TestCase):

  def test_a_new_folder_by_default(self):
    self.assertFalse(flags.FLAGS.resume or flags.FLAGS.overwrite)
    self.assertRegex(run_flags.output_dir("dp_benchmark"), r"^results/dp_benchmark-\d{8}-\d{6}$")

  @parameterized.parameters("resume", "overwrite")
  def test_the_folder_that_is_named(self, flag):
    with flagsaver.flagsaver(**{"output_dir": "out", flag: True}):
      self.assertEqual(run_flags.output_dir("dp_benchmark"), "out")

  def test_a_tilde_is_the_home_folder(self):
    values = flags.FlagValues()
    path_flag.define("data", None, "Folder.", flag_values=values)
    with mock.patch.dict(os.environ, {"HOME": "/home/jo"}):
      for given, path in (
          ("~/out", "/home/jo/out"), ("~", "/home/jo"), ("out/~", "out/~"), ("/a/~b", "/a/~b"),
      ):
        values(["program", f"--data={given}"])
        self.assertEqual(values.data, path)

  @parameterized.named_parameters(
      ("given", "/caf\udce9", "/"), ("from_the_home_folder", "~/out", "/"),
      ("from_the_working_folder", "out", "/caf\udce9"),
  )
  def test_a_path_is_in_utf_8(self, argument, working_folder):
    values = flags.FlagValues()
    path_flag.define("data", None, "Folder.", flag_values=values)
    with (
        mock.patch.dict(os.environ, {"HOME": "/caf\udce9"}),
        mock.patch.object(os, "getcwd", return_value=working_folder),
    ):
      values(["program", "--data=/größer 中文"])
      with self.assertRaisesRegex(flags.IllegalFlagValueError, "--data=.*UTF-8"):
        values(["program", f"--data={argument}"])

  def test_it_is_among_a_program_s_own_flags(self):
    names = {flag.name for flag in flags.FLAGS.get_key_flags_for_module(run_flags)}
    self.assertEqual(names, {"output_dir", "resume", "overwrite"})

  @parameterized.parameters("resume", "overwrite")
  def test_an_earlier_run_must_be_named(self, flag):
    with flagsaver.flagsaver(**{flag: True}):
      with self.assertRaisesRegex(ValueError, "`output_dir` must be given with --resume and"):
        run_flags.output_dir("dp_benchmark")


if __name__ == "__main__":
  absltest.main()
