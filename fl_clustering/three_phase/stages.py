"""Runs a stage of rounds from its checkpoint or its start, and tells observers of it."""

import collections
import dataclasses
import hashlib
import json
from typing import Any, Callable

import numpy as np

from fl_clustering.three_phase import checkpoint

# A metric's value: `cluster` is "" for all clusters together, `round` "" for
# what does not belong to a round.
Row = collections.namedtuple(
    "Row", ["phase", "method", "cluster", "round", "metric", "value"]
)


def metric_rows(phase, method, cluster, round_num, metrics):
  """Returns metrics as `Row`s.

  Args:
    phase: The column `phase`, `pretrain` or `cluster`.
    method: The column `method`.
    cluster: The column `cluster`, an index; "" for all clusters together.
    round_num: The column `round`.
    metrics: A dict from a metric's name to its value.
  """
  return [
      Row(phase, method, cluster, round_num, metric, float(value))
      for metric, value in metrics.items()
  ]


def digest(*parts):
  """Returns a SHA-256 (hex) of what a stage starts from.

  Args:
    *parts: Arrays, or plain values that JSON can hold.
  """
  found = hashlib.sha256()
  for part in parts:
    if isinstance(part, np.ndarray):
      found.update(repr((part.shape, part.dtype.str)).encode())
      found.update(np.ascontiguousarray(part))
    else:
      found.update(json.dumps(part, sort_keys=True).encode())
  return found.hexdigest()


@dataclasses.dataclass(frozen=True)
class Stage:
  """A sequence of rounds, each of which makes a state of the one before.

  Attributes:
    name: The stage's name: `pretrain` or a method's.
    started_from: The `digest` of everything that its numbers follow from.  A checkpoint
      of another start is refused.
    first_round: 0 if `start` has rows of its own, else 1.
    num_rounds: The number of the last round.
    start: A function that returns (state, rows) before round 1.
    step: A function (state, round) -> (state, rows).
    pack: A function from a state to a dict of arrays.
    unpack: The inverse of `pack`.  A checkpoint that makes it raise a ValueError or
      KeyError is damaged.
    save_all: Whether every round is saved before it is told: for rounds that can't be
      repeated.
  """

  name: str
  started_from: str
  first_round: int
  num_rounds: int
  start: Callable[[], tuple[Any, list]]
  step: Callable[[Any, int], tuple[Any, list]]
  pack: Callable[[Any], dict[str, np.ndarray]]
  unpack: Callable[[dict[str, np.ndarray]], Any]
  save_all: bool = False


def _started_from(stage):
  # A stage of fewer rounds can't go on from a state after more of them.
  return digest(stage.started_from, stage.num_rounds)


class RunObserver:
  """Is told what happens in a run; a subclass overrides what it needs.

  A resumed run tells everything again, from its start.
  """

  def stage_begins(self, stage):
    """What follows is of this stage, until another begins.

    Every method begins twice: all make their first clusters before any of them trains.

    Args:
      stage: `pretrain` or a method's name.
    """

  def stage_started(self, stage, num_rounds, rounds_done):
    """The rounds of a stage start or go on.

    Args:
      stage: `pretrain` or a method's name.
      num_rounds: The number of its last round.
      rounds_done: How many rounds its checkpoint holds.
    """

  def round_finished(self, stage, round_num, rows):
    """A round ended.

    Args:
      stage: `pretrain` or a method's name.
      round_num: The round's number in its stage; 0 is before the first.
      rows: The round's `Row`s.
    """

  def clients_grouped(self, client_weights, assignments):
    """The clients are grouped for the first time.

    Args:
      client_weights: The clients' own weights, a `ClientWeights`.
      assignments: From each chosen method's name to its first `ClusterAssignment`.
    """


class StageRunner:
  """Runs the stages of one run, saves them on the way, and tells what happens."""

  def __init__(self, checkpoints, observers):
    """Keeps what a stage needs.

    Args:
      checkpoints: `checkpoint.Checkpoints`, or `None` to save nothing.
      observers: `RunObserver`s.
    """
    self._checkpoints = checkpoints or checkpoint.NoCheckpoints()
    self._observers = observers

  def run(self, stage):
    """Runs a `Stage` from its checkpoint or its start; returns its last state.

    Raises:
      checkpoint.DamagedCheckpoint: If its checkpoint can't be read, or is of another start.
    """
    self.tell_begins(stage.name)
    done, state, history = self._load(stage)
    for observer in self._observers:
      observer.stage_started(stage.name, stage.num_rounds, done)
    for round_num in range(stage.first_round, done + 1):
      self._tell(stage.name, round_num, [row for row in history if row.round == round_num])
    for round_num in range(done + 1, stage.num_rounds + 1):
      state, rows = stage.step(state, round_num)
      history += rows
      self._checkpoints.save(
          stage.name, _started_from(stage), round_num, stage.pack(state), history,
          stage.save_all or round_num == stage.num_rounds,
      )
      self._tell(stage.name, round_num, rows)
    return state

  def _load(self, stage):
    """Returns the rounds that are done, the state after them, and all their rows."""
    saved = self._checkpoints.load(stage.name, _started_from(stage))
    if not saved:
      return 0, *stage.start()
    done, arrays, history = saved
    try:
      return done, stage.unpack(arrays), [Row(*row) for row in history]
    except (ValueError, KeyError, TypeError) as e:
      raise self._checkpoints.damaged(stage.name, e) from e

  def tell_begins(self, stage):
    """Tells the observers that what follows is of a stage.

    Args:
      stage: The stage's name.
    """
    for observer in self._observers:
      observer.stage_begins(stage)

  def tell_grouped(self, client_weights, assignments):
    """Tells the observers that the clients are grouped.

    Args:
      client_weights: The clients' own weights, a `ClientWeights`.
      assignments: From each chosen method's name to its first `ClusterAssignment`.
    """
    for observer in self._observers:
      observer.clients_grouped(client_weights, assignments)

  def _tell(self, stage, round_num, rows):
    for observer in self._observers:
      observer.round_finished(stage, round_num, rows)
