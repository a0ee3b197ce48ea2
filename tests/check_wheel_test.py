import contextlib
import io
import os
import sys

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


if __name__ == "__main__":
  absltest.main()
