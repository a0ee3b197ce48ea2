"""Makes a virtual environment with the packages of a lock file: by uv, or by pip where uv can't.

  python3 tools/locked_env.py ENV LOCK

Both check the hashes and follow pip's settings.  pip gets uv, which stays in ENV.  Any Python with
venv runs this file.
"""

import ast
import os
import pathlib
import subprocess
import sys
from typing import Dict, List

_LOCK_OF_UV = str(pathlib.Path(__file__).resolve().parents[1] / "requirements" / "uv.txt")

# uv's variables that say what pip's settings say, by the names of these.
_VARIABLES = {
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "constraint": "UV_CONSTRAINT",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "no-cache-dir": "UV_NO_CACHE",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "trusted-host": "UV_INSECURE_HOST",
}
# Settings that don't say what is installed, nor from where.
_OF_PIP_ALONE = {
    "break-system-packages", "config-file", "disable-pip-version-check", "no-color", "no-input",
    "progress-bar", "quiet", "require-virtualenv", "retries", "root-user-action", "verbose",
}


def _settings(pip: List[str]) -> Dict[str, str]:
  """Returns what pip's files and variables set for installing, by name."""
  listed = subprocess.run(
      [*pip, "config", "list"], check=True, stdout=subprocess.PIPE, universal_newlines=True
  ).stdout
  found: Dict[str, Dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
  for line in listed.splitlines():
    key, _, value = line.partition("=")
    section, _, name = key.rpartition(".")
    found.setdefault(section, {})[name] = ast.literal_eval(value)
  return {**found["global"], **found["install"], **found[":env:"]}


def _for_uv(settings: Dict[str, str]) -> Dict[str, str]:
  """Returns uv's variables for settings of pip; KeyError if it has no such setting."""
  found = {}
  for name in settings.keys() - _OF_PIP_ALONE:
    separator = "," if name == "find-links" else " "
    found[_VARIABLES[name]] = separator.join(settings[name].split())
  return found


def _install_by_uv(env: str, lock: str, pip: List[str], install: List[str]) -> None:
  """Raises a KeyError or CalledProcessError if it can't."""
  variables = {**_for_uv(_settings(pip)), **os.environ}
  # A wheel or nothing: to build uv takes longer than all that pip does here.
  subprocess.run([*install, "--only-binary=:all:", "-r", _LOCK_OF_UV], check=True)
  # The hashes tell the right file, so any index may have it.  Modules are compiled, as pip does:
  # in a sandbox, where nothing can be written beside them, every process would do so for itself.
  command = [
      f"{env}/bin/uv", "pip", "install", "--quiet", f"--python={env}/bin/python3", "--no-deps",
      "--compile-bytecode", "--system-certs", "--index-strategy=unsafe-best-match", "-r", lock,
  ]
  # It takes no ranges as constraints beside hashes.
  if variables.get("UV_CONSTRAINT"):
    subprocess.run([*command, "--dry-run"], env=variables, check=True)
    del variables["UV_CONSTRAINT"]
  subprocess.run([*command, "--require-hashes"], env=variables, check=True)


def main() -> int:
  """Makes the environment; returns the exit code."""
  env, lock = map(os.path.abspath, sys.argv[1:])
  pip = [f"{env}/bin/python3", "-I", "-m", "pip", "--disable-pip-version-check"]
  install = [*pip, "install", "--no-deps", "--require-hashes", "--progress-bar=off"]
  subprocess.run([sys.executable, "-I", "-m", "venv", env], check=True)
  try:
    _install_by_uv(env, lock, pip, install)
    return 0
  except KeyError as e:
    reason = f"it has nothing like pip's setting {e}"
  except OSError as e:
    reason = f"{e}"
  except subprocess.CalledProcessError as e:
    reason = f"{os.path.basename(e.cmd[0])} ended with code {e.returncode}"
  print(f"locked_env.py: pip installs {lock}, as uv can't: {reason}", file=sys.stderr, flush=True)
  # What uv left may be half a package, which pip could not remove.
  return subprocess.run([*install, "--ignore-installed", "-r", lock]).returncode


if __name__ == "__main__":
  sys.exit(main())
