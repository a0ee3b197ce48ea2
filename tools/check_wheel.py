"""Builds the wheel, and tests it in a new environment of another Python than the project's.

Then it adds the extra `sites`, and tests that.

  ./bazelw run tools:check_wheel

uv finds or gets the other Python: on the PATH, of pyenv or of its own.  Where it can't, this takes
the project's, and says so.
"""

import glob
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

_TEST, _TEST_OF_SITES = "light_install_test.py", "LightInstallTest.test_sites_fit"
_VERSION = "3.13"
_NOT_SOURCE = shutil.ignore_patterns(
    ".git", "__pycache__", "*.egg-info", "bazel-*", "build", "results", "site"
)


def other_python(uv: str) -> str:
  """Returns the path of a Python of `_VERSION`; that of this one where uv finds and gets none."""
  # uv looks at the PATH, where pyenv has programs that fail for a version that is not chosen.
  pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
  folders = glob.glob(f"{glob.escape(pyenv)}/versions/{_VERSION}.*/bin")
  path = os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)])
  command = [uv, "run", "--no-project", "--isolated", f"--python={_VERSION}", "python", "-c"]
  try:
    return subprocess.run(
        [*command, "import ensurepip, sys, venv; print(sys._base_executable)"], check=True,
        env={**os.environ, "PATH": path}, capture_output=True, text=True,
    ).stdout.strip()
  except (OSError, subprocess.CalledProcessError):
    print(f"wheel: uv has no Python {_VERSION}, so this is the project's own", file=sys.stderr)
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
  print(f"wheel: testing {wheel.name} with {python}", flush=True)
  run = [f"{env}/bin/python", _TEST]
  code = subprocess.run(run, cwd=test, env=environment).returncode
  subprocess.run([*pip, "install", f"{wheel}[sites]"], check=True)
  return code or subprocess.run([*run, _TEST_OF_SITES], cwd=test, env=environment).returncode


def main() -> None:
  python = other_python(os.path.join(os.path.dirname(sys.executable), "uv"))
  with tempfile.TemporaryDirectory() as folder:
    sys.exit(check(os.environ["BUILD_WORKSPACE_DIRECTORY"], python, folder))


if __name__ == "__main__":
  main()
