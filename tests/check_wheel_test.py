import contextlib
import io
import os
import pathlib
import subprocess
import sys
from unittest import mock

from absl.testing import absltest

from tools import check_wheel

_OWN = "%d.%d" % sys.version_info[:2]


class CheckWheelTest(absltest.TestCase):

  def _python(self, version, code=0):
    """Returns a program that says it is a Python of this version."""
    path = self.create_tempfile(
        f"python{version}-{code}", f"#!/bin/sh\necho {version}\nexit {code}\n"
    ).full_path
    os.chmod(path, 0o755)
    return path

  def _choose(self, *candidates):
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
      return check_wheel._choose(iter(candidates)), errors.getvalue()

  def test_the_newest_that_the_wheel_is_for(self):
    newest = self._python("3.14")
    others = [self._python(version) for version in ("3.9", "3.12", "3.15")]
    self.assertEqual(self._choose(*others, newest, self._python(_OWN)), (newest, ""))

  def test_none_without_venv(self):
    older = self._python("3.12")
    self.assertEqual(self._choose(self._python("3.14", code=1), older), (older, ""))

  def test_the_own_where_there_is_no_other_and_says_so(self):
    chosen, said = self._choose(self._python(_OWN), self._python("3.9"))
    self.assertEqual(chosen, sys.executable)
    self.assertEqual(said, f"wheel: no other Python here than the project's own, {_OWN}\n")

  def test_fails_if_either_of_the_tests_does(self):
    root, python = self.create_tempdir(), self._python("3.14")
    root.create_file("tests/light_install_test.py")

    def check(codes):
      codes, folder = iter(codes), self.create_tempdir().full_path

      def run(command, cwd=None, **unused_options):
        if "wheel" in command:
          pathlib.Path(folder, "dist").mkdir()
          pathlib.Path(folder, "dist", "a.whl").touch()
        return subprocess.CompletedProcess(command, 0 if cwd is None else next(codes), "3.14")

      with mock.patch.object(subprocess, "run", run), contextlib.redirect_stdout(io.StringIO()):
        return check_wheel.check(root.full_path, python, folder)

    self.assertEqual([check(codes) for codes in ((0, 0), (3, 0), (0, 4))], [0, 3, 4])


if __name__ == "__main__":
  absltest.main()
