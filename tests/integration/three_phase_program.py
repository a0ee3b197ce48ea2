"""Runs the three-phase program, for the tests of this folder.

In this process, with flags parsed as on the command line, as TensorFlow Federated takes
seconds to import; or in a process of its own, as a user does.
"""

import contextlib
import dataclasses
import os
from unittest import mock

import pandas as pd

from experiments.three_phase_emnist import __main__ as three_phase_emnist
from tests.experiment_shell import in_process
from tests.experiment_shell import run_folder


@dataclasses.dataclass(frozen=True)
class Result:
  """How the program ended: its exit code, and what it printed."""

  code: int
  stdout: str
  stderr: str


def run(*flags):
  """Runs the program in this process; returns its `Result`."""
  return Result(*in_process.run_program(three_phase_emnist.main, *flags))


@contextlib.contextmanager
def after(stage, round_num, act):
  """Calls `act()` after a round of a stage, as soon as it is saved."""
  from experiments.three_phase_emnist import measure  # pylint: disable=g-import-not-at-top

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


def run_in_a_process(*flags):
  """Runs the program in a process of its own; returns its `Result`."""
  return Result(*run_folder.ended("-m", "experiments.three_phase_emnist", *flags))


@contextlib.contextmanager
def without_figures():
  """Leaves out the figures, which take much of the time."""
  from experiments.three_phase_emnist import experiment  # pylint: disable=g-import-not-at-top

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
