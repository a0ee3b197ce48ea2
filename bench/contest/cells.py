"""What the comparison measures: launches in which the contestants take turns.

A cell is (workload, launch, contestant).  All contestants of a launch are measured at the
same time, one round each in turn, so that their ratios are of the same minutes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import tempfile
from typing import Any, Callable, Mapping, TYPE_CHECKING

import numpy as np

from bench.contest import contestant_process
from bench.contest import contestants as contestants_lib
from experiment_shell import child_process

if TYPE_CHECKING:
  from bench.contest import job as job_lib
  from fl_clustering.tasks import federated_task

# A function of a model, a vector, that returns its accuracy and its loss.
Evaluate = Callable[[np.ndarray], tuple[float, float]]

MEASUREMENTS = "measurements.csv"
KEYS = ("workload", "launch", "contestant")
VALUES = (
    "start_seconds", "seconds", "accuracies", "losses", "first_difference", "last_difference",
    "peak_megabytes", "load", "problem",
)


@dataclasses.dataclass
class _Turns:
  """A contestant's part in one launch."""

  process: contestant_process.ContestantProcess | None = None
  peak_megabytes: float | None = None
  seconds: list[float] = dataclasses.field(default_factory=list)
  accuracies: list[float] = dataclasses.field(default_factory=list)
  losses: list[float] = dataclasses.field(default_factory=list)
  differences: list[float] = dataclasses.field(default_factory=list)
  problem: str | None = None

  def values(self, load: float) -> dict[str, Any]:
    return {
        "start_seconds": None if self.process is None else self.process.start_seconds,
        "seconds": json.dumps(self.seconds),
        "accuracies": json.dumps(self.accuracies),
        "losses": json.dumps(self.losses),
        "first_difference": self.differences[0] if self.differences else None,
        "last_difference": self.differences[-1] if self.differences else None,
        "peak_megabytes": self.peak_megabytes,
        "load": load,
        "problem": self.problem and " ".join(self.problem.split()),
    }


def measure_launch(
    job: job_lib.Job,
    pythons: Mapping[str, str],
    evaluate: Evaluate,
    answer_seconds: float,
    registry: Mapping[str, contestants_lib.Contestant] = contestants_lib.CONTESTANTS,
) -> dict[str, dict[str, Any]]:
  """Has all contestants run all rounds of a job, one round each in turn.

  A contestant that fails takes no further part, and the others go on.

  Args:
    job: What they are given.
    pythons: From a contestant's name to the path of its Python.
    evaluate: As `build_evaluate` returns.
    answer_seconds: How long a contestant may take for each answer.
    registry: The contestants by name.

  Returns:
    From a contestant's name to a dict with `VALUES`.  `problem` is None unless it failed;
    differences are the largest of any weight to plain TensorFlow's, after the first round
    and after the last.
  """
  turns = {name: _Turns() for name in pythons}
  with contextlib.ExitStack() as stack:
    for name, python in pythons.items():
      # One of its own for each, which must be gone when the process writes no more.
      folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
      job.write(folder)
      try:
        turns[name].process = stack.enter_context(
            contestant_process.ContestantProcess(registry[name], python, folder, answer_seconds)
        )
      except child_process.Failed as e:
        turns[name].problem = f"did not start: {e}"
    for number in range(1, job.num_rounds + 1):
      _run_turn(turns, number, evaluate)
    load = os.getloadavg()[0]
  return {name: one.values(round(load, 1)) for name, one in turns.items()}


def turn_order(names: list[str], number: int) -> list[str]:
  """Returns the order of a round's turns: whoever was first is last in the next round."""
  first = number % len(names) if names else 0
  return [*names[first:], *names[:first]]


def _run_turn(turns: Mapping[str, _Turns], number: int, evaluate: Evaluate) -> None:
  """Has every contestant run one round, and notes what it has come to."""
  vectors = {}
  names = [name for name, one in turns.items() if one.problem is None]
  for name in turn_order(names, number):
    one, process = turns[name], turns[name].process
    assert process is not None
    try:
      seconds, vectors[name] = process.run_round(number)
    except child_process.Failed as e:
      one.problem = f"failed in round {number}: {e}"
      process.close()
      continue
    one.seconds.append(seconds)
    one.peak_megabytes = max(one.peak_megabytes or 0, process.child.peak_megabytes())
  for name, vector in vectors.items():
    accuracy, loss = evaluate(vector)
    turns[name].accuracies.append(accuracy)
    turns[name].losses.append(loss)
    if contestants_lib.PLAIN in vectors:
      difference = np.abs(vector - vectors[contestants_lib.PLAIN]).max()
      turns[name].differences.append(float(difference))


def build_evaluate(task: federated_task.FederatedTask) -> Evaluate:
  """Returns a function of a model, a vector, that returns its accuracy and its loss.

  All contestants' models are evaluated by this one function, on the global test set.
  """
  import tensorflow as tf  # pylint: disable=g-import-not-at-top

  from fl_clustering.engine import client_update  # pylint: disable=g-import-not-at-top

  test: Any = task.global_test
  images = client_update.model_inputs(tf.constant(test.features))
  labels = tf.constant(test.labels.astype(np.int32))

  @tf.function(input_signature=[tf.TensorSpec([task.model.num_parameters])])
  def scores(vector: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    logits = task.model.logits(client_update.unflatten(task.model, vector), images, None)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    hits = tf.equal(tf.argmax(logits, 1, tf.int32), labels)
    return tf.reduce_mean(tf.cast(hits, tf.float32)), tf.reduce_mean(losses)

  def evaluate(vector: np.ndarray) -> tuple[float, float]:
    accuracy, loss = scores(vector)
    return float(accuracy), float(loss)

  return evaluate


def by_cell(
    measure: Callable[[str, int], Mapping[str, dict[str, Any]]]
) -> Callable[[str, int, str], dict[str, Any]]:
  """Returns a function of a cell that measures its launch with the first of its cells.

  Args:
    measure: A function of (workload, launch) that returns what `measure_launch` does.
  """
  latest = functools.lru_cache(maxsize=1)(measure)
  return lambda workload, launch, contestant: latest(workload, launch)[contestant]
