"""What the personal models have in common: a model per client, beside one for all.

They are controls, as no client is grouped with another.  They go on from phase 1: every client's
own model starts from the global one, where the papers start from models before any training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fl_clustering.engine import participation
from fl_clustering.methods import method

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.engine import personalization


def for_each(vector: np.ndarray, clients: np.ndarray) -> np.ndarray:
  """Returns the same model for every client, as a read-only view: copies may be gigabytes."""
  return np.broadcast_to(vector, (len(clients), len(vector)))


def state(vectors: np.ndarray, **memory: np.ndarray) -> method.ClusterState:
  """Returns the state in which every client has a model of its own, of shape (N, P)."""
  return method.ClusterState(vectors, tuple(np.arange(len(vectors))[:, None]), memory)


def losses_by_client(
    clients: np.ndarray, losses: participation.ClientLosses
) -> list[participation.ClientLosses]:
  """Returns the losses of clients that took part as `method.Losses`, both in their order."""
  ends = np.cumsum(np.isin(clients, losses.clients))[:-1]
  parts = (np.split(of_all, ends) for of_all in losses)
  return [participation.ClientLosses(*of_client) for of_client in zip(*parts)]


def train_new(
    engine: engine_lib.Engine, start: np.ndarray, clients: np.ndarray,
    common: np.ndarray, how: personalization.Personalization, shares: np.ndarray | None = None,
    num_epochs: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
  """Trains the own models of clients that come after the training.

  They train in every round of phase 2, where the other clients train in those they take part in.

  Args:
    start: The model that each starts from, of shape (P,).
    common: The common model, which stays as it is.
    shares: The own models' shares in a mixture at first.
    num_epochs: Passes over a client's data in a round; as many as the other clients make if not
      given.

  Returns:
    The own models, float32 of shape (num_clients, P), and their shares.
  """
  assert engine.schedule is not None  # Runs have one.
  if num_epochs is None:
    num_epochs = engine.schedule.client_epochs_per_round
  vectors = for_each(start, clients)
  for number in participation.cluster_numbers(engine.schedule):
    round_ = participation.Round(number, clients, num_epochs)
    vectors, shares, _ = engine.train_own(vectors, clients, round_, common, how, shares)
  assert shares is not None  # There is a round.
  return vectors, shares


def placement(vectors: np.ndarray) -> method.Placement:
  """Returns the placement of new clients with models of their own, of shape (num_clients, P)."""
  return method.Placement(((),) * len(vectors), vectors)
