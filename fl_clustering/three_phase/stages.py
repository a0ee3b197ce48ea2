"""Runs a stage of rounds from its checkpoint or its start, and tells observers of it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any, Callable, Mapping, NamedTuple, Sequence, TYPE_CHECKING

import numpy as np

from clustering_basics import file_format
from fl_clustering.three_phase import checkpoint

if TYPE_CHECKING:
  from fl_clustering.methods import client_weights as client_weights_lib
  from fl_clustering.methods import cluster_assignment


class Row(NamedTuple):
  """A metric's value.

  Attributes:
    cluster: An index; "" for all clusters together.
  """

  method: str
  cluster: int | str
  round: int
  metric: str
  value: float


def metric_rows(
    method: str, cluster: int | str, round_num: int, metrics: Mapping[str, Any]
) -> list[Row]:
  """Returns metrics, numbers by name, as `Row`s."""
  return [Row(method, cluster, round_num, name, float(value)) for name, value in metrics.items()]


def digest(*parts: Any) -> str:
  """Returns a SHA-256 (hex) of what a stage starts from: arrays, or values that JSON can hold.

  With another format of files it is another.
  """
  found = hashlib.sha256(str(file_format.FORMAT).encode())
  for part in parts:
    if isinstance(part, np.ndarray):
      found.update(repr((part.shape, part.dtype.str)).encode())
      found.update(np.ascontiguousarray(part).data)
    else:
      found.update(json.dumps(part, sort_keys=True).encode())
  return found.hexdigest()


@dataclasses.dataclass(frozen=True)
class Stage:
  """A sequence of rounds, each of which makes a state of the one before.

  Attributes:
    name: The stage's name: `pretrain`, a method's, or that of a method's repeat.
    started_from: The `digest` of everything that its numbers follow from.  A checkpoint
      of another start is refused.
    first_round: 0 if `start` has rows of its own, else 1.
    num_rounds: The number of the last round.
    start: Returns the state and the rows before round 1.
    step: Returns those after a round, from the state before it and its number.
    pack: Returns a state as arrays by name.
    unpack: The inverse of `pack`.  A checkpoint that makes it raise a ValueError or
      KeyError is damaged.
    alike: Two methods that find the same clusters, for example, train the same models: their
      stages have the same text here, and only the first is run.  None if no other stage can have
      the same rounds.
    to_alike: Returns the part of the last state that is the same after every stage with this text.
    of_alike: Returns this stage's last state, given that part.
  """

  name: str
  started_from: str
  first_round: int
  num_rounds: int
  start: Callable[[], tuple[Any, list[Row]]]
  step: Callable[[Any, int], tuple[Any, list[Row]]]
  pack: Callable[[Any], dict[str, np.ndarray]]
  unpack: Callable[[dict[str, np.ndarray]], Any]
  alike: str | None = None
  to_alike: Callable[[Any], Any] = lambda state: state
  of_alike: Callable[[Any], Any] = lambda state: state


def _started_from(stage: Stage) -> str:
  # A stage of fewer rounds can't go on from a state after more of them.
  return digest(stage.started_from, stage.num_rounds)


class RunObserver:
  """Receives the events of a run; a subclass overrides what it needs.

  A stage is `pretrain`, a method or a method's repeat, which has no rows.  A resumed run repeats
  all events, from its start.
  """

  def rounds_planned(self, num_rounds: int) -> None:
    """The run will have so many rounds in all stages together; told anew if there will be more."""

  def stage_begins(self, stage: str) -> None:
    """What follows is of this stage, until another begins.

    Every method begins twice: all make their first clusters before any of them trains.
    """

  def round_finished(self, stage: str, round_num: int, rows: list[Row]) -> None:
    """A round of a stage ended; round 0 is before the first."""

  def clients_grouped(
      self, client_weights: client_weights_lib.ClientWeights | None,
      assignments: Mapping[str, cluster_assignment.ClusterAssignment],
  ) -> None:
    """The clients are grouped for the first time, by each chosen method."""


class StageRunner:
  """Runs the stages of one run, saves them on the way, and tells what happens."""

  def __init__(self, checkpoints: checkpoint.Checkpoints | None, observers: Sequence[RunObserver]):
    """Keeps what a stage needs; without checkpoints, nothing is saved."""
    self._checkpoints = checkpoints
    self._observers = observers
    # By `Stage.alike`, of the stage that was run: what its `to_alike` returned, and its rows.
    self._finished: dict[str | None, tuple[Any, list[Row]]] = {}

  def run(self, stage: Stage) -> Any:
    """Runs a stage from its checkpoint or its start; returns its last state.

    After a stage with the same `alike`, nothing is run: the last state is made from that stage's.

    Raises:
      checkpoint.DamagedCheckpoint: If its checkpoint can't be read, or is of another start.
    """
    self.tell_begins(stage.name)
    done, state, history = self._load(stage)
    for round_num in range(stage.first_round, done + 1):
      self._tell(stage.name, round_num, [row for row in history if row.round == round_num])
    for round_num in range(done + 1, stage.num_rounds + 1):
      state, rows = stage.step(state, round_num)
      history += rows
      self._save(stage, round_num, state, history)
      self._tell(stage.name, round_num, rows)
    if stage.alike is not None:
      self._finished[stage.alike] = stage.to_alike(state), history
    return state

  def _save(self, stage: Stage, done: int, state: Any, history: list[Row]) -> None:
    if self._checkpoints is not None:
      self._checkpoints.save(
          stage.name, _started_from(stage), done, stage.pack(state), history,
          done == stage.num_rounds,
      )

  def _load(self, stage: Stage) -> tuple[int, Any, list[Row]]:
    """Returns the rounds that are done, the state after them, and all their rows."""
    saved = self._checkpoints and self._checkpoints.load(stage.name, _started_from(stage))
    if not saved:
      state, rows = stage.start()
      if stage.alike not in self._finished:
        return 0, state, rows
      of_other, history = self._finished[stage.alike]
      state = stage.of_alike(of_other)
      rows += [row._replace(method=stage.name) for row in history if row.round != 0]
      self._save(stage, stage.num_rounds, state, rows)
      return stage.num_rounds, state, rows
    assert self._checkpoints is not None  # As types can't say.
    done, arrays, history = saved
    try:
      return done, stage.unpack(arrays), [Row(*row) for row in history]
    except (ValueError, KeyError, TypeError) as e:
      raise self._checkpoints.damaged(stage.name, e) from e

  def tell_planned(self, num_rounds: int) -> None:
    """Tells the observers how many rounds there will be in all stages together."""
    for observer in self._observers:
      observer.rounds_planned(num_rounds)

  def tell_begins(self, stage: str) -> None:
    """Tells the observers that what follows is of this stage."""
    for observer in self._observers:
      observer.stage_begins(stage)

  def tell_grouped(
      self, client_weights: client_weights_lib.ClientWeights | None,
      assignments: Mapping[str, cluster_assignment.ClusterAssignment],
  ) -> None:
    """Tells the observers how each chosen method has grouped the clients."""
    for observer in self._observers:
      observer.clients_grouped(client_weights, assignments)

  def _tell(self, stage: str, round_num: int, rows: list[Row]) -> None:
    for observer in self._observers:
      observer.round_finished(stage, round_num, rows)
