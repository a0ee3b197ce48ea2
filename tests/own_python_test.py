"""The script that installs a Python, without the network: apt's archives are folders."""

import os
import pathlib
import shutil
import subprocess
import tempfile

from absl.testing import absltest

_SCRIPT = pathlib.Path("tools/own_python.sh").resolve()
_PACKAGES = (
    "libpython3.11-minimal", "libpython3.11-stdlib", "python3.11-minimal", "python3.11-venv",
)
_ADVICE = ("install Python 3.11 or 3.10 with venv, or name it with PYTHON_BIN=/path/to/python3.11")
# In the place of apt-get: knows the mirror, and asks the real one or copies prepared packages.
_APT_GET = """#!/bin/sh
case "$*" in
  *indextargets*) echo "{mirror}" ;;
  *update) {update} ;;
  *download*) cp "{packages}"/*.deb . ;;
esac
"""


class OwnPythonTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    if shutil.which("dpkg-deb") is None:
      self.skipTest("this machine has no dpkg-deb, with which Debian's packages are unpacked.")
    self.folder = pathlib.Path(self.enter_context(tempfile.TemporaryDirectory()))
    # A short path: apt makes one file's name of all of it.
    self.mirror = pathlib.Path(self.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
    self.packages = self.folder / "packages"
    self.packages.mkdir()
    self.cache = self.folder / "cache" / "federated_clustering"

    self._write_program("bin/python3", "#!/bin/sh\nexit 1\n")  # Without it, there is no uv.

  def _write_program(self, name, text):
    path = self.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)

  def _set_up_apt_get(self, update="true"):
    self._write_program(
        "bin/apt-get",
        _APT_GET.format(mirror=self.mirror.as_uri(), update=update, packages=self.packages),
    )

  def _make_packages(self):
    for name in _PACKAGES:
      source = self.folder / name
      (source / "DEBIAN").mkdir(parents=True)
      (source / "DEBIAN" / "control").write_text(
          f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: a test\nDescription: -\n",
          encoding="utf-8",
      )
      if name == "python3.11-minimal":
        self._write_program(f"{name}/usr/bin/python3.11", "#!/bin/sh\n")
      subprocess.run(["dpkg-deb", "--build", source, self.packages], check=True,
                     stdout=subprocess.DEVNULL)

  def _run(self, cache_home=None):
    return subprocess.run(
        [_SCRIPT], check=False, capture_output=True, text=True,
        env={
            **os.environ,
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(cache_home or self.folder / "cache"),
        },
    )

  def _check_fails(self, reason):
    result = self._run()
    self.assertEqual(result.returncode, 1)
    self.assertEqual(result.stdout, "")
    log = self.cache / "own_python.log"
    self.assertEqual(
        result.stderr.splitlines()[1:],
        [f"own_python.sh: that failed, see {log}; {_ADVICE}"],
    )
    self.assertIn(reason, log.read_text(encoding="utf-8"))
    self.assertEqual(list(self.cache.iterdir()), [log])

  def test_debian_s_python_where_uv_finds_none(self):
    self._make_packages()
    self._set_up_apt_get()
    expected = f"{self.cache}/python/debian-12/usr/bin/python3.11\n"
    self.assertEqual(self._run().stdout, expected)
    again = self._run()
    self.assertEqual((again.stdout, again.stderr), (expected, ""))
    self.assertLen(list(self.cache.iterdir()), 2)  # Beside the log.

  def test_no_network(self):
    self._set_up_apt_get(update="echo 'could not resolve the host'; exit 100")
    self._check_fails("could not resolve the host")

  def test_half_an_archive(self):
    self._make_packages()
    self._set_up_apt_get()
    package = next(self.packages.glob("python3.11-venv*"))
    package.write_bytes(package.read_bytes()[:200])
    self._check_fails("python3.11-venv")

  def test_no_signature(self):
    apt_get = shutil.which("apt-get")
    if apt_get is None:
      self.skipTest("this machine has no apt-get, which checks signatures.")
    self._make_packages()
    self._set_up_apt_get(update=f'{apt_get} "$@"')
    release = self.mirror / "dists" / "bookworm" / "Release"
    release.parent.mkdir(parents=True)
    release.write_text(
        "Origin: Debian\nCodename: bookworm\nDate: Sat, 10 Jun 2023 08:00:00 UTC\nSHA256:\n",
        encoding="utf-8",
    )
    self._check_fails("bookworm Release' is not signed")

  def test_no_room_in_the_cache(self):
    result = self._run(cache_home="/dev/full")
    self.assertEqual(result.returncode, 1)
    self.assertEqual(
        result.stderr.splitlines()[1:],
        [f"own_python.sh: can't write in /dev/full/federated_clustering; {_ADVICE}"],
    )
