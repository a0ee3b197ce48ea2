"""The program that makes an environment from a lock, without the network: an index is a folder."""

import hashlib
import importlib.util
import os
import pathlib
import runpy
import shutil
import stat
import subprocess
import sys
from unittest import mock
import zipfile

from absl.testing import parameterized
import sklearn

from tests import nightly

_PROGRAM = pathlib.Path("tools/locked_env.py")
_UV = pathlib.Path(sys.executable).with_name("uv")


class LockedEnvTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = pathlib.Path(self.create_tempdir().full_path)
    (self.folder / "tools").mkdir()
    (self.folder / "requirements").mkdir()
    shutil.copy(_PROGRAM, self.folder / "tools")
    self.lock = self.folder / "lock.txt"
    self.lock.write_text(self._add_wheel("small", {"small.py": b""}), encoding="utf-8")

  def _add_wheel(self, name, files):
    """Puts a wheel into the index; returns its line of a lock."""
    folder = self.folder / "index" / name
    folder.mkdir(parents=True)
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    about = f"{name}-1.0.dist-info"
    files = {
        **files,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": b"",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
      for path, content in files.items():
        entry = zipfile.ZipInfo(path)
        entry.external_attr = (stat.S_IFREG | 0o755) << 16
        archive.writestr(entry, content)
    (folder / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>', encoding="utf-8")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return f"{name}==1.0 --hash=sha256:{digest}\n"

  def _add_uv(self, program):
    line = self._add_wheel("uv", {"uv-1.0.data/scripts/uv": program})
    (self.folder / "requirements" / "uv.txt").write_text(line, encoding="utf-8")

  def _real_uv(self):
    if not _UV.exists():
      self.skipTest("pip made this environment, so there is no uv.")
    return _UV.read_bytes()

  def _run(self, **settings):
    """Returns the exit code, what installed the lock's package, and how often pip is named."""
    result = subprocess.run(
        [sys.executable, "tools/locked_env.py", "env", "lock.txt"], cwd=self.folder, check=False,
        capture_output=True, text=True,
        env={
            "HOME": str(self.folder), "PATH": os.environ["PATH"], "PIP_CONFIG_FILE": "/dev/null",
            "PIP_INDEX_URL": (self.folder / "index").as_uri(), **settings,
        },
    )
    told = [line for line in result.stderr.splitlines() if line.startswith("locked_env.py: pip ")]
    installers = self.folder.glob("env/lib/*/site-packages/small-1.0.dist-info/INSTALLER")
    return result.returncode, [path.read_text().strip() for path in installers], told

  def test_pip_s_settings_for_installing_count_and_variables_most(self):
    listed = "\n".join((
        "global.timeout='1'", "install.timeout='2'", "install.proxy='p'", "global.cert='c'",
        ":env:.timeout='3'", "global.proxy='q'", "download.proxy='r'",
    ))
    pip = [sys.executable, "-c", f"print({listed!r})"]
    found = runpy.run_path(str(_PROGRAM))["_settings"](pip)
    self.assertEqual(found, {"timeout": "3", "proxy": "p", "cert": "c"})

  @nightly.only  # By day, so does Bazel, whose environments this program makes.
  def test_uv_installs_with_pip_s_settings(self):
    self._add_uv(self._real_uv())
    (self.folder / "ranges.txt").write_text("small<2\n", encoding="utf-8")
    self.assertEqual(self._run(PIP_CONSTRAINT="ranges.txt"), (0, ["uv"], []))

  @parameterized.named_parameters(
      ("it_fails", {}, "code 7"),
      ("it_lacks_a_setting", {"PIP_NO_BINARY": ":none:"}, "no-binary"),
  )
  @nightly.only  # By day, pip is asked where uv has failed, and fails, too.
  def test_pip_installs_where_uv_can_t(self, settings, reason):
    self._add_uv(b"#!/bin/sh\nexit 7\n")
    code, installers, (told,) = self._run(**settings)
    self.assertEqual((code, installers), (0, ["pip"]))
    self.assertIn(reason, told)

  def test_modules_are_compiled(self):
    self._real_uv()
    folder = pathlib.Path(sklearn.__file__).parent
    self.assertEmpty([
        path for path in folder.rglob("*.py")
        if not os.path.exists(importlib.util.cache_from_source(path))
    ])

  def test_nothing_is_installed_without_its_hash(self):
    installing = []

    def run(command, **unused_options):
      if "install" in command:
        installing.append(command)
      if command[0].endswith("uv"):
        raise subprocess.CalledProcessError(7, command)
      return mock.Mock(stdout="", returncode=0)

    with (
        mock.patch.object(subprocess, "run", run),
        mock.patch.object(sys, "argv", [str(_PROGRAM), "env", "lock.txt"]),
        mock.patch.dict(os.environ, clear=True),
    ):
      self.assertEqual(runpy.run_path(str(_PROGRAM))["main"](), 0)
    self.assertLen(installing, 3)  # Pip installs uv, uv fails, and pip takes its place.
    for command in installing:
      self.assertIn("--require-hashes", command)

  @nightly.only  # By day, the test above sees that both are told to compare hashes.
  def test_another_hash_is_an_error_of_both(self):
    self._add_uv(self._real_uv())
    name, _, digest = self.lock.read_text(encoding="utf-8").strip().rpartition(":")
    self.lock.write_text(f"{name}:{digest[::-1]}\n", encoding="utf-8")
    code, installers, told = self._run()
    self.assertNotEqual(code, 0)
    self.assertEmpty(installers)
    self.assertLen(told, 1)
