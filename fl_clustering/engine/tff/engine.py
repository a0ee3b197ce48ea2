"""The engine in TensorFlow Federated: all kinds of work, each with its computations in a file."""

from __future__ import annotations

from typing import Any, Sequence, TYPE_CHECKING

import numpy as np

from fl_clustering.engine import engine
from fl_clustering.engine import participation
from fl_clustering.engine.tff import alone_training
from fl_clustering.engine.tff import client_files
from fl_clustering.engine.tff import client_losses
from fl_clustering.engine.tff import client_moments
from fl_clustering.engine.tff import client_sketches
from fl_clustering.engine.tff import client_subspaces
from fl_clustering.engine.tff import cluster_training
from fl_clustering.engine.tff import evaluation
from fl_clustering.engine.tff import personal_training

if TYPE_CHECKING:
  from fl_clustering.engine import personalization
  from fl_clustering.engine.tff import client_update
  from fl_clustering.tasks import federated_task


class Engine(engine.Engine):
  """Trains and evaluates models on the clients of one task.

  Attributes:
    files: Where each client's data are.
  """

  def __init__(
      self,
      task: federated_task.FederatedTask,
      data_dir: str,
      local_training: client_update.LocalTraining,
      seed: int,
      schedule: participation.Schedule | None = None,
  ):
    """Writes the clients' files.

    Args:
      task: The clients and their model.
      data_dir: An existing folder for the clients' files.  It must stay as long as
        the engine is used.
      local_training: How a client trains.
      seed: The run's seed, from which each local training gets its random numbers.
      schedule: The run's rounds.
    """
    self.files = client_files.write_client_files(task, data_dir)
    super().__init__(
        task.model, self.files.client_ids, len(task.new_clients), self.files.num_examples,
        np.array(sorted(self.files.validation), np.int64), local_training.batch_size, seed,
        schedule,
    )
    self._local_training = local_training
    self._training = cluster_training.ClusterTraining(task, self.files, local_training, seed)

  def train(
      self,
      vectors: np.ndarray,
      members: participation.Clusters,
      round_: participation.Round,
      already_sent: bool = False,
  ) -> tuple[np.ndarray, list[participation.ClientLosses]]:
    """Trains every model for one round of FedAvg over its members."""
    new_vectors, losses = self._training.train(vectors, members, round_)
    self._count_training(_clients_of(losses), round_.num_epochs, down=not already_sent)
    return new_vectors, losses

  def train_members(
      self,
      vectors: np.ndarray,
      members: participation.Clusters,
      round_: participation.Round,
  ) -> tuple[np.ndarray, list[np.ndarray], list[participation.ClientLosses]]:
    """Trains every model as `train` does, and returns the members' own models too."""
    new_vectors, own, losses = self._training.train_members(vectors, members, round_)
    self._count_training(_clients_of(losses), round_.num_epochs)
    return new_vectors, own, losses

  def train_each(
      self, vectors: np.ndarray, clients: np.ndarray, round_: participation.Round
  ) -> tuple[np.ndarray, participation.ClientLosses]:
    """Trains clients alone and returns their own models."""
    trained, losses = self._training.train_each(vectors, clients, round_)
    self._count_training(losses.clients, round_.num_epochs)
    return trained, losses

  def train_alone(
      self, vectors: np.ndarray, rounds: Sequence[participation.Round]
  ) -> tuple[np.ndarray, list[participation.AloneRound]]:
    """Trains every client's own model for some rounds, in one call, and evaluates it after each."""
    vectors, losses, confusions = alone_training.train(
        self.model, self.files, self._local_training, self.seed, vectors, rounds
    )
    made = []
    for round_, of_round, matrices in zip(rounds, losses, confusions):
      cost = self._count_training(round_.clients, round_.num_epochs, down=False, up=False)
      made.append(participation.AloneRound(of_round, matrices, cost))
    return vectors, made

  def train_own(
      self,
      vectors: np.ndarray,
      clients: np.ndarray,
      round_: participation.Round,
      common: np.ndarray,
      how: personalization.Personalization,
      shares: np.ndarray | None = None,
      num_shared: int = 0,
  ) -> tuple[np.ndarray, np.ndarray, participation.ClientLosses]:
    """Trains clients' own models for one round beside a model that they have in common."""
    if shares is None:
      shares = np.ones(len(clients), np.float32)
    trained, shares, losses = personal_training.train(
        self.model, self.files, self._local_training, self.seed, vectors, clients, round_, common,
        how, shares,
    )
    num_epochs = (how.head_epochs or 0) + round_.num_epochs
    self._count_training(losses.clients, num_epochs, down=False, up=False)
    num_sent = len(losses.clients) * num_shared
    self._count_bytes(down=num_sent, up=num_sent)
    return trained, shares, losses

  def confusions(
      self, vectors: Any, members: participation.Clusters, part: str = "test"
  ) -> list[np.ndarray]:
    """Evaluates models on clients' data."""
    files: Any = {"test": self.files.test, "validation": self.files.validation}[part]
    requests = [
        evaluation.Request(k, tuple(files[client] for client in clients))
        for k, clients in enumerate(members)
    ]
    return evaluation.confusions(self.model, vectors, requests)

  def global_confusions(self, vectors: Any) -> np.ndarray:
    """Evaluates models as `confusions` does on the global test set; of shape (num_models, C, C)."""
    requests = [evaluation.Request(k, self.files.global_test) for k in range(len(vectors))]
    return np.stack([
        of_files.sum(axis=0)
        for of_files in evaluation.confusions(self.model, vectors, requests)
    ])

  def losses(self, vectors: np.ndarray, clients: np.ndarray) -> np.ndarray:
    """Returns every model's mean loss on every client's training data."""
    num_sent = len(vectors) * len(clients)
    self._count_bytes(down=num_sent * self.model.num_parameters, up=num_sent)
    return client_losses.losses(self.model, self.files, vectors, clients)

  def moments(self, vector: np.ndarray, clients: np.ndarray, by_label: bool) -> np.ndarray:
    """Returns the moments of a model's outputs on the clients' training data."""
    found = client_moments.moments(self.model, self.files, vector, clients, by_label)
    self._count_bytes(
        down=len(clients) * self.model.num_parameters, up=int(np.isfinite(found).sum())
    )
    return found

  def sketches(self, clients: np.ndarray, size: int) -> np.ndarray:
    """Returns what a linear probe learns of the clients' training data, projected at random."""
    self._count_bytes(up=len(clients) * size)
    return client_sketches.sketches(self.model, self.files, clients, size)

  def subspaces(self, clients: np.ndarray, num_vectors: int) -> list[dict[int, np.ndarray]]:
    """Returns the first left singular vectors of the clients' examples of each label."""
    found = client_subspaces.subspaces(self.model, self.files, clients, num_vectors)
    self._count_bytes(up=sum(basis.size for bases in found for basis in bases.values()))
    return found


def _clients_of(losses: Sequence[participation.ClientLosses]) -> np.ndarray:
  """Returns the clients of all models, one that trained several of them several times."""
  return np.concatenate([of_model.clients for of_model in losses])
