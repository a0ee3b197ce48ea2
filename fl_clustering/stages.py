"""Runs a stage of rounds from its checkpoint or its start, and tells observers of it."""

import collections

from fl_clustering import checkpoint

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


class RunObserver:
  """Is told what happens in a run; a subclass overrides what it needs.

  A resumed run tells everything again, from its start.
  """

  def stage_started(self, stage, num_rounds, rounds_done):
    """A stage starts or goes on.

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

  def run(self, stage, first_round, num_rounds, start, step, save_all=False):
    """Runs a stage from its checkpoint or its start.

    Args:
      stage: The stage's name.
      first_round: 0 if `start` has rows of its own, else 1.
      num_rounds: The number of the last round.
      start: A function that returns (state, rows) before round 1.
      step: A function (state, round) -> (state, rows).
      save_all: Whether every round is saved before it is told: for rounds that can't be
        repeated.

    Returns:
      The state after the last round, a dict of arrays.
    """
    saved = self._checkpoints.load(stage)
    if saved:
      done, state, history = saved
      history = [Row(*row) for row in history]
    else:
      done = 0
      state, history = start()
    for observer in self._observers:
      observer.stage_started(stage, num_rounds, done)
    for round_num in range(first_round, done + 1):
      self._tell(stage, round_num, [row for row in history if row.round == round_num])
    for round_num in range(done + 1, num_rounds + 1):
      state, rows = step(state, round_num)
      history += rows
      self._checkpoints.save(
          stage, round_num, state, history, save_all or round_num == num_rounds
      )
      self._tell(stage, round_num, rows)
    return state

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
