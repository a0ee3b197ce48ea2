"""Federated averaging over all clients that train, by the weighted mean.

FedAvg (McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
AISTATS 2017, Algorithm 1): every client trains the model it is sent on its own examples, the server
averages the results weighted by the number of examples.

That is the training of one cluster, which any engine does.  `federated_training.py` averages by
TFF's aggregators.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from clustering_basics import randomness

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.engine import participation
  from fl_clustering.tasks import model as model_lib


@dataclasses.dataclass(frozen=True)
class FedAvgState:
  """The server's state between rounds.

  Attributes:
    vector: The global model, float32 of shape (P,).
    aggregator_state: The leaves of the aggregator's own state.
  """

  vector: np.ndarray
  aggregator_state: tuple[np.ndarray, ...] = ()


def initial_vector(model: model_lib.Model, seed: int) -> np.ndarray:
  """Returns the model that a run with this seed starts from, float32 of shape (P,)."""
  parameters = model.initial_parameters(randomness.generator(seed, "initial_parameters"))
  return np.concatenate([p.ravel() for p in parameters])


class FedAvg:
  """FedAvg over the clients of an engine that train: `initialize`, then `next` every round."""

  def __init__(self, engine: engine_lib.Engine):
    self._engine = engine

  def initialize(self) -> FedAvgState:
    """Returns the state before the first round."""
    return FedAvgState(initial_vector(self._engine.model, self._engine.seed))

  def next(
      self, state: FedAvgState, round_: participation.Round
  ) -> tuple[FedAvgState, participation.ClientLosses]:
    """Runs one round; returns the state after it and the clients' mean training losses.

    Raises:
      divergence.TrainingDiverged: If a loss or weight is not finite.
    """
    vectors, (losses,) = self._engine.train(
        state.vector[np.newaxis], (self._engine.clients,), round_
    )
    return FedAvgState(vectors[0]), losses
