"""The controls that run beside the methods.

Most of what phase 2 gains over phase 1 comes from training longer, and a model that every
client fits to its own data often beats a cluster's.  So three controls always run, for as
many rounds as the methods:

*   `fedavg` keeps training everyone together.  It starts as a method with one cluster
    would, and equals it bit for bit.
*   `finetuned` trains every client alone from the global model of phase 1.
*   `local` trains every client alone from the beginning, without phase 1.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Sequence, TYPE_CHECKING

import numpy as np

from fl_clustering.engine import participation
from fl_clustering.methods import method
from fl_clustering.methods import new_clients

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib


def fedavg(config: participation.Schedule, engine: engine_lib.Engine) -> method.Method:
  """Returns the control that trains one model with all clients."""
  del config  # It has no settings.

  def initialize(pretrained: method.Pretrained, rng: np.random.Generator) -> method.ClusterState:
    del rng  # Nothing here is random.
    weights = pretrained.client_weights
    return method.ClusterState(
        weights.mean_of(weights.client_ids)[None], (weights.client_ids,)
    )

  def place(
      pretrained: method.Pretrained, state: method.ClusterState, new_client_ids: Sequence[str]
  ) -> method.Placement:
    del pretrained
    return new_clients.in_cluster(state.vectors, [0] * len(new_client_ids))

  return method.Method(initialize, method.train_clusters(engine), place)


def _alone(
    config: participation.Schedule, engine: engine_lib.Engine,
    start_of: Callable[[method.Pretrained], np.ndarray], from_start: bool,
) -> method.Method:
  def initialize(pretrained: method.Pretrained, rng: np.random.Generator) -> method.ClusterState:
    del rng  # Nothing here is random.
    start, client_ids = start_of(pretrained), engine.client_ids
    return method.ClusterState(
        # A view: for large models, a copy per client would be gigabytes.
        np.broadcast_to(start, (len(client_ids), len(start))),
        tuple((client_id,) for client_id in client_ids),
    )

  def next_rounds(
      state: method.ClusterState, rounds: Sequence[participation.Round]
  ) -> tuple[method.ClusterState, list[engine_lib.AloneRound]]:
    vectors, made = engine.train_alone(state.vectors, rounds)
    return dataclasses.replace(state, vectors=vectors), made

  numbers = participation.numbers_of(config, from_start)
  rounds = [participation.round_of(config, engine.client_ids, number) for number in numbers]
  return method.Method(
      initialize,
      method.train_clusters(engine),
      new_clients.train_alone(engine, start_of, rounds),
      from_start,
      next_rounds,
  )


def finetuned(config: participation.Schedule, engine: engine_lib.Engine) -> method.Method:
  """Returns the control that fits the global model of phase 1 to every client alone."""
  return _alone(config, engine, lambda pretrained: pretrained.vector, from_start=False)


def local(config: participation.Schedule, engine: engine_lib.Engine) -> method.Method:
  """Returns the control that trains every client's model alone, from the beginning."""
  return _alone(config, engine, lambda pretrained: pretrained.initial_vector, from_start=True)
