import contextlib
import io
import os
import pathlib
import subprocess
import sys
from unittest import mock

from absl.testing import absltest

from tools import check_wheel


class CheckWheelTest(absltest.TestCase):

  def test_the_python_of_uv_or_else_the_own_and_says_so(self):
    folder = self.create_tempdir()
    folder.create_file("pyenv/versions/3.13.9/bin/python3.13")
    # It fails without what was on the PATH before.
    program = 'case "$PATH" in *:/of/the/user) echo ${PATH%%:*}/python3.13;; *) exit 1;; esac'
    uv = folder.create_file("uv", f"#!/bin/sh\n{program}").full_path
    for mode, expected in (
        (0o755, f"{folder.full_path}/pyenv/versions/3.13.9/bin/python3.13"), (0, sys.executable),
    ):
      os.chmod(uv, mode)
      errors = io.StringIO()
      with (
          mock.patch.dict(
              os.environ, PYENV_ROOT=os.path.join(folder.full_path, "pyenv"), PATH="/of/the/user"
          ),
          contextlib.redirect_stderr(errors),
      ):
        self.assertEqual(check_wheel.other_python(uv), expected)
      self.assertEqual("own" in errors.getvalue(), not mode)

  def test_fails_if_either_of_the_tests_does(self):
    root = self.create_tempdir()
    for name in ("tests/light_install_test.py", ".git/config", "results/run/config.json"):
      root.create_file(name)

    def check(codes):
      codes, folder = iter(codes), self.create_tempdir().full_path

      def run(command, cwd=None, env=None, **unused_options):
        if cwd is not None:  # Else it would test the project.
          self.assertNotIn("PYTHONPATH", env)
          self.assertIn("PATH", env)
        if "wheel" in command:
          self.assertEqual(os.listdir(command[-1]), ["tests"])
          pathlib.Path(folder, "dist").mkdir()
          pathlib.Path(folder, "dist", "a.whl").touch()
        return subprocess.CompletedProcess(command, 0 if cwd is None else next(codes))

      with (
          mock.patch.object(subprocess, "run", run), contextlib.redirect_stdout(io.StringIO()),
          mock.patch.dict(os.environ, PYTHONPATH=root.full_path),
      ):
        return check_wheel.check(root.full_path, sys.executable, folder)

    self.assertEqual([check(codes) for codes in ((0, 0), (3, 0), (0, 4))], [0, 3, 4])
