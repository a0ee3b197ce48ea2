"""Repeats the control `fedavg`, to learn how much chance there is in training.

Every repeat starts where the control starts and trains for as many rounds, with other
random numbers: other orders of the clients' examples, and other participants where not all
clients take part in a round.  How much the repeats' accuracy varies is what a difference
from the control has to be compared with.
"""

import numpy as np

from fl_clustering.engine import participation
from fl_clustering.three_phase import stages

STAGE = "fedavg_repeats"

# Rounds of different repeats have different numbers, and so other random numbers.  More
# than any run has rounds.
_NUMBERS_PER_REPEAT = 1_000_000


def run(config, start, engine, scorer, stage_runner):
  """Trains the repeats, from their checkpoint if there is one.

  Args:
    config: The run's `ThreePhaseConfig`.
    start: The control's `method_rounds.Start`.
    engine: The run's `engine.Engine`.
    scorer: The run's `scoring.Scoring`.
    stage_runner: The run's `stages.StageRunner`.

  Returns:
    Confusion matrices of every client under every repeat, of shape (config.control_repeats,
    N, C, C); `None` without repeats.
  """
  if not config.control_repeats:
    return None
  numbers = participation.cluster_numbers(config)

  def begin():
    return np.repeat(start.state.vectors, config.control_repeats, axis=0), []

  def step(vectors, round_num):
    trained = []
    for repeat, vector in enumerate(vectors, 1):
      number = repeat * _NUMBERS_PER_REPEAT + numbers[round_num - 1]
      round_ = participation.round_of(config, engine.client_ids, number)
      new, _ = engine.train(vector[None], start.state.members, round_)
      trained.append(new[0])
    return np.stack(trained), []

  def unpack(arrays):
    return arrays["vectors"].reshape(config.control_repeats, -1)

  vectors = stage_runner.run(stages.Stage(
      STAGE, stages.digest(start.digest, config.control_repeats), 1, len(numbers),
      begin, step, lambda vectors: {"vectors": vectors}, unpack,
  ))
  return np.stack([
      scorer.on_clients_and_clusters(vector[None], start.state.members)[0]
      for vector in vectors
  ])
