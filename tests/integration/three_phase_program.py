"""Runs the three-phase program, for the tests of this folder.

In this process, with flags parsed as on the command line, as TensorFlow Federated takes
seconds to import; or in a process of its own, as a user does.
"""

import contextlib
import dataclasses
import io
import json
import os
import subprocess
import sys
from unittest import mock

from absl.testing import flagsaver

from experiment_shell import launch
from experiments import three_phase_emnist


@dataclasses.dataclass(frozen=True)
class Result:
  """How the program ended: its exit code, and what it printed."""

  code: int
  stdout: str
  stderr: str


def run(*flags):
  """Runs the program in this process; returns its `Result`."""
  stdout, stderr = io.StringIO(), io.StringIO()
  with contextlib.ExitStack() as stack:
    stack.enter_context(flagsaver.flagsaver())
    stack.enter_context(mock.patch.object(sys, "argv", ["three_phase_emnist", *flags]))
    stack.enter_context(contextlib.redirect_stdout(stdout))
    stack.enter_context(contextlib.redirect_stderr(stderr))
    try:
      launch.run(three_phase_emnist.main)
    except SystemExit as e:
      code = e.code
  return Result(code, stdout.getvalue(), stderr.getvalue())


@contextlib.contextmanager
def after(stage, round_num, act):
  """Calls `act()` after a round of a stage, as soon as its metrics are written."""
  from experiments.three_phase import run_files  # pylint: disable=g-import-not-at-top

  round_finished = run_files.RunFiles.round_finished

  def finish_and_act(files, this_stage, this_round, rows):
    round_finished(files, this_stage, this_round, rows)
    if (this_stage, this_round) == (stage, round_num):
      act()

  with mock.patch.object(run_files.RunFiles, "round_finished", finish_and_act):
    yield


def interrupted_after(stage, round_num):
  """Presses Ctrl-C after a round of a stage."""

  def interrupt():
    raise KeyboardInterrupt

  return after(stage, round_num, interrupt)


def start(*flags, **options):
  """Starts the program in a process of its own; returns its `Popen`.

  Args:
    *flags: Its flags.
    **options: Arguments for `Popen`, beside the command and the environment.
  """
  return subprocess.Popen(
      [sys.executable, "-m", "experiments.three_phase_emnist", *flags],
      env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
      **options,
  )


def run_in_a_process(*flags):
  """Runs the program in a process of its own; returns its `Result`."""
  process = start(*flags, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
  stdout, stderr = process.communicate()
  return Result(process.returncode, stdout, stderr)


def read_text(folder, name):
  with open(os.path.join(folder, name), encoding="utf-8") as f:
    return f.read()


def read_json(folder, name):
  return json.loads(read_text(folder, name))
