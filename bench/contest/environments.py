"""The contestants' environments: one folder each, installed from a lock file when needed.

Bazel does not make them: together they hold some gigabytes, which no build or test of the
project should download, and one that can't be installed would fail the whole build.
"""

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from typing import Sequence

from bench.contest import contestants
from clustering_basics import atomic_file
from experiment_shell import child_process

_INSTALLED = "installed.json"
_INSTALL_SECONDS = 3600


class EnvironmentUnavailable(Exception):
  """The environment can't be installed; the message says why."""


@dataclasses.dataclass(frozen=True)
class Environment:
  """An environment that is installed.

  Attributes:
    python: Path of its Python.
    install_seconds: None for this project's own.
    megabytes: Size of its folder; None if it is not apart from the system's Python.
  """

  python: str
  install_seconds: float | None
  megabytes: float | None


def default_folder() -> str:
  """Returns the folder for environments in the user's cache folder."""
  cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
  return os.path.join(cache, "federated_clustering", "peers")


def get(name: str, contestant: contestants.Contestant, folder: str) -> Environment:
  """Returns a contestant's environment, and installs it the first time.

  Args:
    name: The contestant's name, with which its folder's name begins.
    contestant: The contestant.
    folder: The folder for all environments; made if it is not there.

  Raises:
    EnvironmentUnavailable: If it can't be installed.
  """
  if contestant.requirements is None:
    is_apart = sys.prefix != sys.base_prefix
    return Environment(sys.executable, None, _folder_megabytes(sys.prefix) if is_apart else None)
  lock = os.path.join(child_process.PROJECT_FOLDER, contestant.requirements)
  try:
    with open(lock, "rb") as file:
      digest = hashlib.sha256(file.read()).hexdigest()[:12]
  except OSError as e:
    raise EnvironmentUnavailable(f"{lock} can't be read ({e.strerror})") from e
  python_version = f"{sys.version_info.major}.{sys.version_info.minor}"
  path = os.path.join(os.path.abspath(folder), f"{name}-{python_version}-{digest}")
  try:
    return _read(path)
  except (OSError, ValueError, TypeError):  # It is not there, or only in part.
    pass
  print(
      f"installing {contestant.label} in {path}: about {contestant.download_megabytes} MB to "
      f"download, {contestant.disk_megabytes} MB on disk",
      flush=True,
  )
  try:
    return _install(path, lock)
  except EnvironmentUnavailable:
    shutil.rmtree(path, ignore_errors=True)
    raise


_VERSIONS = """
import importlib.metadata, json, platform, sys
versions = {"Python": platform.python_version()}
versions.update({name: importlib.metadata.version(name) for name in sys.argv[1:]})
print(json.dumps(versions))
"""


def versions(environment: Environment, contestant: contestants.Contestant) -> dict[str, str]:
  """Returns the versions of Python and of a contestant's packages, by name.

  Raises:
    EnvironmentUnavailable: If a package is not there.
  """
  answer = _run([environment.python, "-I", "-c", _VERSIONS, *contestant.packages])
  return json.loads(answer)


def _python_of(path: str) -> str:
  return os.path.join(path, "bin", "python3")


def _read(path: str) -> Environment:
  with open(os.path.join(path, _INSTALLED), encoding="utf-8") as file:
    return Environment(_python_of(path), **json.load(file))


def _install(path: str, lock: str) -> Environment:
  start = time.perf_counter()
  try:
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
  except OSError as e:
    raise EnvironmentUnavailable(f"{path} can't be made ({e.strerror})") from e
  _run([sys.executable, "-I", "-m", "venv", path])
  _run(
      [_python_of(path), "-I", "-m", "pip", "--disable-pip-version-check", "install"]
      + ["--no-deps", "--require-hashes", "--progress-bar=off", "-r", lock]
  )
  facts = {
      "install_seconds": round(time.perf_counter() - start, 1),
      "megabytes": _folder_megabytes(path),
  }
  atomic_file.write_text(os.path.join(path, _INSTALLED), json.dumps(facts))
  return _read(path)


def _run(arguments: Sequence[str]) -> str:
  """Runs a command and returns its standard output."""
  try:
    result = subprocess.run(
        arguments, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, errors="replace", timeout=_INSTALL_SECONDS,
    )
  except OSError as e:
    raise EnvironmentUnavailable(f"{arguments[0]} can't be run ({e.strerror})") from e
  except subprocess.TimeoutExpired as e:
    raise EnvironmentUnavailable(f"not installed in {_INSTALL_SECONDS} s") from e
  if result.returncode:
    raise EnvironmentUnavailable(_reason(result))
  return result.stdout


def _reason(result: subprocess.CompletedProcess[str]) -> str:
  """Returns pip's first error in the output, or else the last line."""
  lines = [line.strip() for line in (result.stdout + result.stderr).split("\n")]
  errors = [line for line in lines if line.startswith("ERROR:")]
  return (errors or [line for line in lines if line][-1:] or [f"code {result.returncode}"])[0]


def _folder_megabytes(path: str) -> int:
  total = 0
  for folder, _, names in os.walk(path):
    for name in names:
      total += os.lstat(os.path.join(folder, name)).st_size
  return round(total / 1e6)
