"""What all engines have: who the clients are, models to start from, and what the work costs."""

from __future__ import annotations

import dataclasses
from typing import Sequence, TYPE_CHECKING

import numpy as np

from fl_clustering.engine import cost as cost_lib

if TYPE_CHECKING:
  from fl_clustering.engine import participation
  from fl_clustering.tasks import model as model_lib

# Numbers travel as float32.
_BYTES_PER_NUMBER = 4


class CountedClients:
  """The clients of one task, and what they have done so far.

  A client is its place among all clients of the task.  Where several are asked for, they are an
  int64 array.

  Attributes:
    clients: The clients that train: 0, 1, and so on.
    new_clients: The clients that come after the training, which follow them.
    client_ids: The ids of the clients that train.
    new_client_ids: The ids of the others.
    num_examples: All clients' numbers of training examples, int64.
    validated: Those of `clients` that have validation examples.
    model: The task's model.
    seed: The run's seed.
    schedule: The run's rounds, for methods that plan for all of them; None if none does.
    cost: What the clients have done so far.
  """

  def __init__(
      self,
      model: model_lib.Model,
      client_ids: Sequence[str],
      num_new_clients: int,
      num_examples: np.ndarray,
      validated: np.ndarray,
      batch_size: int,
      seed: int,
      schedule: participation.Schedule | None,
  ):
    """Counts nothing yet.

    Args:
      client_ids: The clients' ids, new clients at the end.
      num_new_clients: How many of the clients come after the training.
      validated: The clients that have validation examples, new ones included.
      batch_size: The examples of a step of training; a pass's last one may have fewer.
    """
    num_clients = len(client_ids) - num_new_clients
    self.clients = np.arange(num_clients)
    self.new_clients = np.arange(num_clients, len(client_ids))
    self.client_ids = tuple(client_ids[:num_clients])
    self.new_client_ids = tuple(client_ids[num_clients:])
    self.num_examples = num_examples
    self.validated = validated[validated < num_clients]
    self.model = model
    self.seed = seed
    self.schedule = schedule
    self.cost = cost_lib.Cost()
    self._batch_size = batch_size

  def training_cost(self, clients: np.ndarray, num_epochs: int) -> cost_lib.Cost:
    """Returns the cost of sending clients a model each and getting it back trained.

    Args:
      clients: The clients; one that trains several models is there several times.
      num_epochs: Passes of a client over its data.
    """
    steps = int(-(-self.num_examples[clients] // self._batch_size).sum())
    num_bytes = len(clients) * _BYTES_PER_NUMBER * self.model.num_parameters
    return cost_lib.Cost(num_epochs * steps, num_bytes, num_bytes)

  def _count_training(
      self, clients: np.ndarray, num_epochs: int, down: bool = True, up: bool = True
  ) -> cost_lib.Cost:
    """Counts a training, and returns its cost.

    Args:
      down: Whether the models are sent to the clients.
      up: Whether they are sent back.
    """
    cost = self.training_cost(clients, num_epochs)
    cost = dataclasses.replace(
        cost, bytes_down=down * cost.bytes_down, bytes_up=up * cost.bytes_up
    )
    self.cost += cost
    return cost

  def _count_bytes(self, down: int = 0, up: int = 0) -> None:
    """Counts so many numbers that clients are sent, and that they send."""
    self.cost += cost_lib.Cost(0, _BYTES_PER_NUMBER * down, _BYTES_PER_NUMBER * up)

  def initial_vectors(self, num_models: int, rng: np.random.Generator) -> np.ndarray:
    """Returns models as they are before any training, float32 of shape (num_models, P)."""
    drawn = [self.model.initial_parameters(rng) for _ in range(num_models)]
    return np.stack([np.concatenate([p.ravel() for p in one]) for one in drawn])
