"""Repeats the control `fedavg`, to learn how much chance there is in training.

Every repeat starts where the control starts and trains for as many rounds, with other
random numbers: other orders of the clients' examples, and other participants where not all
clients take part in a round.  How much the repeats' accuracy varies is what a difference
from the control has to be compared with.
"""

from __future__ import annotations

from typing import Mapping, Sequence, TYPE_CHECKING

import numpy as np

from fl_clustering.engine import participation
from fl_clustering.three_phase import scoring
from fl_clustering.three_phase import stages

if TYPE_CHECKING:
  from fl_clustering import config as config_lib
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.three_phase import rounds

STAGE = "fedavg_repeats"

# Rounds of different repeats have different numbers, and so other random numbers.  More
# than any run has rounds.
_NUMBERS_PER_REPEAT = 1_000_000


def run(
    config: config_lib.ThreePhaseConfig, start: rounds.Start, engine: engine_lib.Engine,
    stage_runner: stages.StageRunner,
) -> np.ndarray | None:
  """Trains the repeats of the control, from their checkpoint if there is one.

  Returns:
    Confusion matrices of every client under every repeat, of shape (config.control_repeats,
    N, C, C); `None` without repeats.
  """
  if not config.control_repeats:
    return None
  numbers = participation.cluster_numbers(config)

  def begin() -> tuple[np.ndarray, list[stages.Row]]:
    return np.repeat(start.state.vectors, config.control_repeats, axis=0), []

  def step(vectors: np.ndarray, round_nums: Sequence[int]) -> tuple[np.ndarray, list[stages.Row]]:
    (round_num,) = round_nums
    trained = []
    for repeat, vector in enumerate(vectors, 1):
      number = repeat * _NUMBERS_PER_REPEAT + numbers[round_num - 1]
      round_ = participation.round_of(config, engine.client_ids, number)
      new, _ = engine.train(vector[None], start.state.members, round_)
      trained.append(new[0])
    return np.stack(trained), []

  def unpack(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    return arrays["vectors"].reshape(config.control_repeats, -1)

  vectors = stage_runner.run(stages.Stage(
      STAGE, stages.digest(start.digest, config.control_repeats), 1, len(numbers),
      begin, step, lambda vectors: {"vectors": vectors}, unpack,
  ))
  return np.stack([
      scoring.on_clients_and_clusters(engine, vector[None], start.state.members)[0]
      for vector in vectors
  ])
