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
import pandas as pd

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
  """Calls `act()` after a round of a stage, as soon as it is saved."""
  from experiments.three_phase import measure  # pylint: disable=g-import-not-at-top

  round_finished = measure.Recorder.round_finished

  def finish_and_act(recorder, this_stage, this_round, rows):
    round_finished(recorder, this_stage, this_round, rows)
    if (this_stage, this_round) == (stage, round_num):
      act()

  with mock.patch.object(measure.Recorder, "round_finished", finish_and_act):
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


@contextlib.contextmanager
def without_figures():
  """Leaves out the figures, which take much of the time."""
  from experiments.three_phase import experiment  # pylint: disable=g-import-not-at-top

  without = dataclasses.replace(experiment.EXPERIMENT, figures=())
  with mock.patch.object(experiment, "EXPERIMENT", without):
    yield


def table(folder, name, **values):
  """Returns the rows of a tidy table that have such values, as a `pandas.DataFrame`."""
  kinds = {"client": str, "epochs": str, "group": str}
  rows = pd.read_csv(
      os.path.join(folder, f"{name}.csv"), dtype=kinds, float_precision="round_trip"
  )
  for column, value in values.items():
    rows = rows[rows[column].isna() if value is None else rows[column] == value]
  return rows


def clusters(folder, method, phase="cluster"):
  """Returns the clients of each cluster of a method."""
  rows = table(folder, "clients", method=method, phase=phase, metric="cluster")
  return {int(k): set(own["client"]) for k, own in rows.groupby("value")}


def read_text(folder, name):
  with open(os.path.join(folder, name), encoding="utf-8") as f:
    return f.read()


def read_json(folder, name):
  return json.loads(read_text(folder, name))
