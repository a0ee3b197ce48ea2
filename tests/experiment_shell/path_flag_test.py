import os
from unittest import mock

from absl import flags
from absl.testing import flagsaver
from absl.testing import parameterized

from experiment_shell import path_flag


_PATH, _OUTPUT = "a_path", "an_output"
path_flag.define(_PATH, None, "Folder.")
path_flag.define_output(_OUTPUT, "File.")


@flagsaver.flagsaver
def _given(name, value):
  """Returns what a flag has as a value."""
  flags.FLAGS(["program", f"--{name}={value}"])
  return flags.FLAGS[name].value


class PathFlagTest(parameterized.TestCase):

  @parameterized.parameters(("~/out", "/home/jo/out"), ("~", "/home/jo"), ("out/~", "out/~"),
                            ("/a/~b", "/a/~b"), ("/größer 中文", "/größer 中文"))
  def test_a_tilde_is_the_home_folder(self, given, path):
    with mock.patch.dict(os.environ, {"HOME": "/home/jo"}):
      self.assertEqual(_given(_PATH, given), path)


class OutputTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    os.mkfifo(self._path("pipe"))
    self.create_tempfile(self._path("here"))
    for link, target in (
        ("to_file", "here"), ("to_none", "new"), ("to_pipe", "pipe"), ("to_itself", "to_itself"),
        ("into_none", "no/file"),
    ):
      os.symlink(target, self._path(link))

  def _path(self, name):
    return os.path.join(self.folder, name)

  @parameterized.parameters("new", "here", "to_file", "to_none", "./-")
  def test_files_to_write(self, name):
    self.assertEqual(_given(_OUTPUT, self._path(name)), self._path(name))

  @parameterized.parameters(
      "", "pipe", "to_pipe", "to_itself", "no/file", "into_none", "here/file", "new/", "here/",
  )
  def test_what_can_t_be_written(self, name):
    with self.assertRaisesRegex(flags.IllegalFlagValueError, "--an_output="):
      _given(_OUTPUT, self._path(name))
