"""The controls that run beside the methods.

Most of what phase 2 gains over phase 1 comes from training longer, and a model that every
client fits to its own data often beats a cluster's.  So three controls always run, for as
many rounds as the methods:

*   `fedavg` keeps training everyone together.  It starts as a method with one cluster
    would, and equals it bit for bit; one by sketches, if clients are grouped by these.
*   `finetuned` trains every client alone from the global model of phase 1.  If all clients train
    once more before they are grouped (`grouping_epochs`), it goes on from these own models, as the
    clusters do from their means.
*   `local` trains every client alone from the beginning, without phase 1.
"""

from __future__ import annotations

from typing import Callable, Protocol, TYPE_CHECKING

import numpy as np

from fl_clustering.engine import participation
from fl_clustering.methods import grouping
from fl_clustering.methods import method
from fl_clustering.methods import new_clients
from fl_clustering.methods import personal

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.methods import client_weights as client_weights_lib

  # From what phase 1 came to, the clients' own weights after it, and the clients to the models
  # that these start from, float32 of shape (n, P).
  StartsOf = Callable[
      [method.Pretrained, client_weights_lib.ClientWeights | None, np.ndarray], np.ndarray
  ]


class Settings(participation.Schedule, Protocol):
  """What a run's settings say to controls."""

  @property
  def representation(self) -> str | None: ...


def fedavg(config: Settings, engine: engine_lib.Engine) -> method.Method:
  """Returns the control that trains one model with all clients."""
  by_sketches = config.representation == grouping.SKETCH

  def initialize(pretrained: method.Pretrained, rng: np.random.Generator) -> method.ClusterState:
    del rng  # Nothing here is random.
    if by_sketches:  # Clusters start from the last global model, too.
      return method.ClusterState(pretrained.vector[None], (engine.clients,))
    weights = pretrained.used_weights
    return method.ClusterState(weights.mean_of(weights.clients)[None], (engine.clients,))

  def place(
      pretrained: method.Pretrained, state: method.ClusterState, clients: np.ndarray
  ) -> method.Placement:
    del pretrained
    return new_clients.in_cluster(state.vectors, np.zeros(len(clients), int))

  return method.Method(
      initialize, method.TrainClusters(engine), place, uses_own_weights=not by_sketches
  )


def _alone(
    config: participation.Schedule, engine: engine_lib.Engine, starts_of: StartsOf,
    from_start: bool,
) -> method.Method:
  numbers = participation.numbers_of(config, from_start)
  all_rounds = [participation.round_of(config, len(engine.clients), number) for number in numbers]

  def initialize(pretrained: method.Pretrained, rng: np.random.Generator) -> method.ClusterState:
    del rng  # Nothing here is random.
    return personal.state(starts_of(pretrained, pretrained.client_weights, engine.clients))

  def next_state(state: method.ClusterState, round_: participation.Round) -> method.Trained:
    # A client needs nobody else for this, so it sends nothing.
    vectors, _, losses = engine.train_own(state.vectors, engine.clients, round_)
    for client in losses.clients:
      # As TFF rounds the mean over a cluster of this client alone, to which it is equal there.
      number = np.float32(engine.num_examples[client])
      vectors[client] = (number * vectors[client]).astype(np.float64) / number
    return personal.state(vectors), personal.losses_by_client(engine.clients, losses)

  def place(
      pretrained: method.Pretrained, state: method.ClusterState, clients: np.ndarray
  ) -> method.Placement:
    del state  # No other client's model is used.
    vectors = np.array(starts_of(pretrained, pretrained.new_client_weights, clients))
    for round_ in all_rounds:  # Whoever takes part in them.
      vectors, _ = engine.train_each(vectors, clients, round_)
    return personal.placement(vectors)

  return method.Method(
      initialize, next_state, place, from_start,
      uses_own_weights=config.grouping_epochs is not None,
  )


def finetuned(config: participation.Schedule, engine: engine_lib.Engine) -> method.Method:
  """Returns the control that fits the global model of phase 1 to every client alone."""

  def starts_of(
      pretrained: method.Pretrained, weights: client_weights_lib.ClientWeights | None,
      clients: np.ndarray,
  ) -> np.ndarray:
    if config.grouping_epochs is None:
      return personal.for_each(pretrained.vector, clients)
    assert weights is not None  # There are none only where there are no such clients.
    vectors = weights.represented("weights", clients)[:]
    vectors.flags.writeable = False  # The rounds write into what they can.
    return vectors

  return _alone(config, engine, starts_of, from_start=False)


def local(config: participation.Schedule, engine: engine_lib.Engine) -> method.Method:
  """Returns the control that trains every client's model alone, from the beginning."""

  def starts_of(
      pretrained: method.Pretrained, unused_weights: client_weights_lib.ClientWeights | None,
      clients: np.ndarray,
  ) -> np.ndarray:
    return personal.for_each(pretrained.initial_vector, clients)

  return _alone(config, engine, starts_of, from_start=True)
