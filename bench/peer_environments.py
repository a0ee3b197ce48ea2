"""The environments of `peers/`: a peer with requirements beside it has a Python of its own."""

import hashlib
import os
import subprocess
import sys
import tempfile
from typing import Sequence

from absl import flags

from clustering_basics import child_process
from experiment_shell import path_flag

path_flag.define(
    "environments_dir", "~/.cache/federated_clustering/peers", "Folder of the peers' environments.")

_SECONDS = 3600
# No peer tells anybody that it runs.
_QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}


def call(command: Sequence[str]) -> None:
  """Runs a command; a `RuntimeError` with its last words if it fails."""
  environment = {**os.environ, **_QUIET, "PYTHONPATH": child_process.PROJECT_FOLDER}
  with tempfile.TemporaryFile() as errors:
    try:
      subprocess.run(
          command, check=True, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
          timeout=_SECONDS, env=environment,
      )
    except (OSError, subprocess.SubprocessError) as e:
      raise RuntimeError(child_process.last_line(errors) or str(e)) from e


def python(peer: str) -> str:
  """Returns the Python of a peer, in an environment that is made the first time.

  Raises:
    RuntimeError: If it can't be installed.
  """
  requirements = os.path.join(os.path.dirname(__file__), "peers", f"{peer}.txt")
  if not os.path.exists(requirements):
    return sys.executable
  with open(requirements, "rb") as file:
    digest = hashlib.sha256(sys.version.encode() + file.read()).hexdigest()[:12]
  path = os.path.join(os.path.abspath(flags.FLAGS.environments_dir), f"{peer}-{digest}")
  found, installed = os.path.join(path, "bin", "python3"), os.path.join(path, "installed")
  if not os.path.exists(installed):
    print(f"installing {peer} in {path}", flush=True)
    call([sys.executable, "-I", "-m", "venv", "--clear", path])
    call([found, "-I", "-m", "pip", "install", "--progress-bar=off", "-r", requirements])
    open(installed, "w", encoding="utf-8").close()
  return found
