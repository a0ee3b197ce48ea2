"""Runs the three-phase program as a user does, for the tests of this folder."""

import json
import os
import subprocess
import sys

# Two rounds of few clients: seconds, of which most are the import of TFF.
SMALL = (
    "--dataset=digits",
    "--num_clients=8",
    "--partition=iid",
    "--pretrain_rounds=2",
    "--cluster_rounds=2",
    "--num_clusters=2",
)


def command(*flags):
  """Returns the command line with these flags."""
  return [sys.executable, "-m", "experiments.three_phase_emnist", *flags]


def environment():
  """Returns the environment for `command`."""
  return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def run(*flags, cwd=None):
  """Runs the program to its end; returns its `CompletedProcess`, output as text."""
  return subprocess.run(
      command(*flags),
      check=False,
      capture_output=True,
      text=True,
      env=environment(),
      cwd=cwd,
  )


def read_text(folder, name):
  with open(os.path.join(folder, name), encoding="utf-8") as f:
    return f.read()


def read_json(folder, name):
  return json.loads(read_text(folder, name))
