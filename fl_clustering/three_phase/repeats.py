"""Trains a method or control again, to learn how much chance there is in its training.

A repeat makes its first clusters anew, and trains for as many rounds, with other random numbers:
other orders of the clients' examples, other participants where not all clients take part in a
round, and another start where a method draws one.  Phase 1 is the same.  How much the results
vary is what a difference between two methods has to be compared with.
"""

from __future__ import annotations

import re
from typing import Callable, Sequence, TYPE_CHECKING

import numpy as np

from fl_clustering.engine import divergence
from fl_clustering.engine import metrics as metrics_lib
from fl_clustering.engine import participation
from fl_clustering.three_phase import rounds
from fl_clustering.three_phase import scoring

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.three_phase import config as config_lib
  from fl_clustering.three_phase import stages

# Rounds of different repeats have different numbers, and so other random numbers.  More
# than any run has rounds.
_NUMBERS_PER_REPEAT = 1_000_000


def _in_words(error: divergence.TrainingDiverged, repeat: int) -> str:
  """Returns an error's message with the number of a round as users count them."""
  return re.sub(
      r"round (\d+)",
      lambda match: f"round {int(match[1]) % _NUMBERS_PER_REPEAT} of repeat {repeat}",
      str(error),
  )


def run(
    start_of: Callable[[int], rounds.Start], count: int, numbers: Sequence[int],
    config: config_lib.ThreePhaseConfig, engine: engine_lib.Engine,
    stage_runner: stages.StageRunner,
) -> np.ndarray:
  """Trains the repeats, from their checkpoints where there are any.

  Args:
    start_of: Returns the start of a repeat, from 1 on.
    count: How many repeats there are, at least one.
    numbers: The numbers of the rounds that are repeated.

  Returns:
    The accuracy at every client that is evaluated under each repeat, float64 of shape (count, n).

  Raises:
    divergence.TrainingDiverged: If a loss, a weight or an output is not finite.
  """
  evaluated = participation.evaluated(config, len(engine.clients))
  found = []
  for repeat in range(1, count + 1):
    own = [repeat * _NUMBERS_PER_REPEAT + number for number in numbers]
    try:
      outcome = rounds.run(
          start_of(repeat), own, config, engine, stage_runner, is_scored=False
      )
    except divergence.TrainingDiverged as e:
      raise divergence.TrainingDiverged(_in_words(e, repeat)) from e
    state = outcome.state
    with divergence.told(f"after repeat {repeat}"):
      clients, _ = scoring.on_clients_and_clusters(engine, state.vectors, state.members, evaluated)
      found.append(metrics_lib.accuracy(clients))
  return np.stack(found)
