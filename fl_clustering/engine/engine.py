"""What a method can ask of the clients: to train models and to evaluate them.

The engine does what needs TensorFlow Federated, and it does it for many models at once.
Whatever else a method does is NumPy.  Each kind of work is one method of `Engine` over a
TFF computation in a file of its own.  Another kind goes beside them.  The engine counts
what all of it costs.
"""

from __future__ import annotations

from typing import Any, Sequence, TYPE_CHECKING

import numpy as np

from fl_clustering.engine import alone_training
from fl_clustering.engine import client_files
from fl_clustering.engine import client_losses
from fl_clustering.engine import client_moments
from fl_clustering.engine import client_sketches
from fl_clustering.engine import client_subspaces
from fl_clustering.engine import cluster_training
from fl_clustering.engine import counted_clients
from fl_clustering.engine import evaluation
from fl_clustering.engine import participation
from fl_clustering.engine import personal_training

if TYPE_CHECKING:
  from fl_clustering.engine import client_update
  from fl_clustering.engine import personalization
  from fl_clustering.tasks import federated_task


class Engine(counted_clients.CountedClients):
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
    """Trains every model for one round of FedAvg over its members.

    Args:
      vectors: The models, float32 of shape (num_models, P).
      members: The clients per model.  A client may be a member of several models.
      round_: The round.  A model none of whose members take part in it stays as it is.
      already_sent: Whether the members have the models, from `losses`, so that sending
        them costs nothing more.

    Returns:
      The new models, float32 of shape (num_models, P), and per model the mean training losses
      of the members that trained it, in any order.

    Raises:
      divergence.TrainingDiverged: If a loss or weight is not finite; so do the three below.
    """
    new_vectors, losses = self._training.train(vectors, members, round_)
    self._count_training(_clients_of(losses), round_.num_epochs, down=not already_sent)
    return new_vectors, losses

  def train_members(
      self,
      vectors: np.ndarray,
      members: participation.Clusters,
      round_: participation.Round,
  ) -> tuple[np.ndarray, list[np.ndarray], list[participation.ClientLosses]]:
    """Trains every model as `train` does, and returns the members' own models too.

    Returns:
      What `train` returns, to the last bit; and in between, per model the own trained models
      of the members that trained it, not private, float32 of shape (n, P), in the order of their
      losses.
    """
    new_vectors, own, losses = self._training.train_members(vectors, members, round_)
    self._count_training(_clients_of(losses), round_.num_epochs)
    return new_vectors, own, losses

  def train_each(
      self, vectors: np.ndarray, clients: np.ndarray, round_: participation.Round
  ) -> tuple[np.ndarray, participation.ClientLosses]:
    """Trains clients alone and returns their own models.

    Args:
      vectors: The model that each client starts from, float32 of shape
        (len(clients), P).  A view made by `np.broadcast_to` is sent as one model.
      clients: The clients that train, each there once, whether they take part in the round or
        not.
      round_: The round.  A client that trains several times in one round uses the same random
        numbers each time.

    Returns:
      The clients' models, not private, float32 of shape (len(clients), P), and their mean
      training losses, in the same order.
    """
    trained, losses = self._training.train_each(vectors, clients, round_)
    self._count_training(losses.clients, round_.num_epochs)
    return trained, losses

  def train_alone(
      self, vectors: np.ndarray, rounds: Sequence[participation.Round]
  ) -> tuple[np.ndarray, list[participation.AloneRound]]:
    """Trains every client's own model for some rounds, in one call, and evaluates it after each.

    A client needs nobody else for this, so it costs steps and no bytes.

    Args:
      vectors: The models of `clients`, float32 of shape (num_clients, P).  The new ones take
        their place, unless they are read-only: a second copy of thousands of large models would
        be gigabytes.
      rounds: The rounds.  A client that does not take part in one keeps its model.

    Returns:
      The models after the last round, not private: to the last bit those that `train` returns,
      round after round, for a cluster per client.  And what there is to know of every round.
    """
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
    """Trains clients' own models for one round beside a model that they have in common.

    The common model stays as it is.  Where `how` trains it beside, clients do what they do in
    `train` with the same round, so whoever calls that too counts and adds up those steps there.

    Args:
      vectors: The clients' own models, float32 of shape (len(clients), P).  The new ones take
        their place, unless they are read-only.
      clients: The clients, whether they were in training or not.
      round_: The round.  A client that does not take part in it keeps its model.
      common: The common model, float32 of shape (P,).
      how: How the own models depend on it.
      shares: The own models' shares in a mixture, float32 of shape (len(clients),).
      num_shared: How many numbers a client is sent for it, and sends back.

    Returns:
      The own models and their shares, not private, and the mean training losses of the clients
      that took part, in their order.
    """
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
    """Evaluates models on clients' data.

    Args:
      vectors: The models, float32 of shape (num_models, P), or what returns its rows by their
        positions.
      members: The clients per model.
      part: Their `test` or `validation` examples, which they must have.

    Returns:
      Per model the confusion matrices of its members, integers of shape (n, C, C): how many
      examples there are by true label (rows) and by predicted label (columns).

    Raises:
      divergence.TrainingDiverged: If an output is not finite.
    """
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
    """Returns every model's mean loss on every client's training data.

    Each number depends on the model and on the client's data alone, to the last bit.

    Args:
      vectors: The models, float32 of shape (num_models, P).
      clients: The clients, whether they were in training or not.

    Returns:
      A float32 array of shape (num_models, len(clients)).  A loss that is not a number
      is infinite here, so that a client that takes the least loss never takes its model.
    """
    num_sent = len(vectors) * len(clients)
    self._count_bytes(down=num_sent * self.model.num_parameters, up=num_sent)
    return client_losses.losses(self.model, self.files, vectors, clients)

  def moments(self, vector: np.ndarray, clients: np.ndarray, by_label: bool) -> np.ndarray:
    """Returns the moments of a model's outputs on the clients' training data.

    Args:
      vector: The model, float32 of shape (P,).
      clients: The clients, whether they were in training or not.
      by_label: Whether the clients use their labels.

    Returns:
      The means and standard deviations of each output, not private, float32 of shape
      (len(clients), 1, 2, num_classes), or (len(clients), 1 + num_classes, 2, num_classes) if
      `by_label`: of all examples, and then of those of each label.  They are
      NaN for a label that the client doesn't have.

    Raises:
      divergence.TrainingDiverged: If outputs or their squares are not finite.
    """
    found = client_moments.moments(self.model, self.files, vector, clients, by_label)
    self._count_bytes(
        down=len(clients) * self.model.num_parameters, up=int(np.isfinite(found).sum())
    )
    return found

  def sketches(self, clients: np.ndarray, size: int) -> np.ndarray:
    """Returns what a linear probe learns of the clients' training data, projected at random.

    Args:
      clients: The clients, whether they were in training or not.
      size: How many numbers a client sends.

    Returns:
      Vectors of norm 1, or of zeros, not private, float32 of shape (len(clients), size).
    """
    self._count_bytes(up=len(clients) * size)
    return client_sketches.sketches(self.model, self.files, clients, size)

  def subspaces(self, clients: np.ndarray, num_vectors: int) -> list[dict[int, np.ndarray]]:
    """Returns the first left singular vectors of the clients' examples of each label.

    The matrix has the features of a client's training examples of a label as columns,
    those of images in [0, 1].

    Args:
      clients: The clients, whether they were in training or not.
      num_vectors: The most vectors per label; a ValueError if it is no positive integer.

    Returns:
      Per client a dict from each of its labels to a float32 array of shape (num_features, r),
      not private: directions of raw data.  r is `num_vectors`, or the number of linearly
      independent examples if that is less.  Each vector's largest component is positive.
    """
    found = client_subspaces.subspaces(self.model, self.files, clients, num_vectors)
    self._count_bytes(up=sum(basis.size for bases in found for basis in bases.values()))
    return found


def _clients_of(losses: Sequence[participation.ClientLosses]) -> np.ndarray:
  """Returns the clients of all models, one that trained several of them several times."""
  return np.concatenate([of_model.clients for of_model in losses])
