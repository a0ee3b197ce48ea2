import os
from unittest import mock

from absl import flags
from absl.testing import absltest
from absl.testing import parameterized

from experiment_shell import path_flag


class PathFlagTest(parameterized.TestCase):

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


class OutputTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    os.mkfifo(self._path("pipe"))
    for name in ("here", "there"):
      with open(self._path(name), "w", encoding="utf-8"):
        pass
    for link, target in (
        ("to_file", "here"), ("to_none", "new"), ("to_pipe", "pipe"), ("to_itself", "to_itself"),
        ("into_none", "no/file"), ("to_open_pipe", f"/dev/fd/{os.pipe()[1]}"),
    ):
      os.symlink(target, self._path(link))

  def _path(self, name):
    return os.path.join(self.folder, name)

  def _given(self, value):
    values = flags.FlagValues()
    path_flag.define_output("output", "File.", flag_values=values)
    values(["program", f"--output={value}"])
    return values.output

  @parameterized.parameters("new", "here", "to_file", "to_none", "./-")
  def test_files_to_write(self, name):
    self.assertEqual(self._given(self._path(name)), self._path(name))

  @parameterized.parameters(
      "", "pipe", "to_pipe", "to_itself", "to_open_pipe", "no/file", "into_none", "here/file",
      "new/", "here/",
  )
  def test_what_can_t_be_written(self, name):
    with self.assertRaisesRegex(flags.IllegalFlagValueError, "--output=.* must be a file "):
      self._given(self._path(name))

  @parameterized.parameters("", "-", "/dev/null")
  def test_what_is_no_file(self, value):
    with self.assertRaisesRegex(flags.IllegalFlagValueError, "--output=.* must be a file "):
      self._given(value)

  def test_a_name_is_a_file_of_the_working_folder(self):
    self.addCleanup(os.chdir, os.getcwd())
    os.chdir(self.folder)
    self.assertEqual(self._given("new"), "new")


if __name__ == "__main__":
  absltest.main()
