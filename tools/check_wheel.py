"""Builds the wheel, and tests it in a new environment of another Python than the project's.

Then it adds the extra `sites`, and tests that.

  ./bazelw run tools:check_wheel

It takes the newest Python that the wheel is for and that it finds: on the PATH, of pyenv or of uv,
which is asked to get one.  Where there is no other, it takes the project's, and says so.
"""

import glob
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Iterator

_TEST, _TEST_OF_SITES = "light_install_test.py", "LightInstallTest.test_sites_fit"
_VERSIONS = [f"3.{minor}" for minor in range(14, 9, -1)]
_PREFERRED_OF_UV = "3.13"
_PROBE = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
_NOT_SOURCE = shutil.ignore_patterns(
    ".git", "__pycache__", "*.egg-info", "bazel-*", "build", "results", "site"
)


def _of_uv() -> Iterator[str]:
  uv = shutil.which("uv")
  if uv is None:
    return
  # Without a network, it may have one already.
  subprocess.run([uv, "python", "install", "--no-bin", _PREFERRED_OF_UV], check=False,
                 stderr=subprocess.DEVNULL)
  for version in _VERSIONS:
    found = subprocess.run([uv, "python", "find", "--managed-python", version], check=False,
                           capture_output=True, text=True)
    if found.returncode == 0:
      yield found.stdout.strip()


def _candidates() -> Iterator[str]:
  pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
  for version in _VERSIONS:
    on_path = shutil.which(f"python{version}")
    if on_path:
      yield on_path
    yield from glob.glob(f"{glob.escape(pyenv)}/versions/{version}.*/bin/python{version}")
  yield from filter(None, [shutil.which("python3")])
  yield from _of_uv()


def _version(python: str) -> str | None:
  """Returns a Python's version; None if it can't make an environment."""
  probe = subprocess.run([python, "-c", _PROBE], check=False, capture_output=True, text=True)
  return probe.stdout.strip() if probe.returncode == 0 else None


def _choose(candidates: Iterator[str]) -> str:
  """Returns the newest Python of another version than this one, or this one."""
  own = "%d.%d" % sys.version_info[:2]
  found: dict[str, str] = {}
  for python in candidates:
    version = _version(python)
    if version in _VERSIONS and version != own:
      found.setdefault(version, python)
  if found:
    return next(found[version] for version in _VERSIONS if version in found)
  print(f"wheel: no other Python here than the project's own, {own}", file=sys.stderr)
  return sys.executable


def check(root: str, python: str, folder: str) -> int:
  """Builds the wheel and tests it in an environment of a Python; returns the tests' exit code.

  Args:
    root: The project's folder, where nothing is written.
    folder: An empty folder.
  """
  source, dist, env, test = (
      os.path.join(folder, name) for name in ("source", "dist", "env", "test")
  )
  shutil.copytree(root, source, symlinks=True, ignore=_NOT_SOURCE)
  subprocess.run([python, "-m", "venv", env], check=True)
  pip = [f"{env}/bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
  subprocess.run([*pip, "wheel", "--no-deps", f"--wheel-dir={dist}", source], check=True)
  (wheel,) = pathlib.Path(dist).iterdir()
  subprocess.run([*pip, "install", wheel], check=True)
  os.mkdir(test)
  # It must find the installed modules, and not the project's.
  shutil.copy(os.path.join(root, "tests", _TEST), test)
  environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
  print(f"wheel: testing {wheel.name} with Python {_version(python)} ({python})", flush=True)
  run = [f"{env}/bin/python", _TEST]
  code = subprocess.run(run, cwd=test, env=environment).returncode
  subprocess.run([*pip, "install", f"{wheel}[sites]"], check=True)
  return code or subprocess.run([*run, _TEST_OF_SITES], cwd=test, env=environment).returncode


def main() -> None:
  with tempfile.TemporaryDirectory() as folder:
    sys.exit(check(os.environ["BUILD_WORKSPACE_DIRECTORY"], _choose(_candidates()), folder))


if __name__ == "__main__":
  main()
