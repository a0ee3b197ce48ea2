"""What a method can ask of the clients: to train models, to evaluate them, and what that costs.

Whatever else a method does is NumPy.  `Engine` counts the work and checks what comes of it.  An
engine does the work, for many models at once, in methods of the same names with an underscore.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, Iterable, Sequence, TYPE_CHECKING

import numpy as np

from clustering_basics import validate
from fl_clustering.engine import cost as cost_lib
from fl_clustering.engine import divergence
from fl_clustering.engine import moments as moments_lib
from fl_clustering.engine import participation
from fl_clustering.engine import personalization
from fl_clustering.engine import subspaces as subspaces_lib

if TYPE_CHECKING:
  from fl_clustering.tasks import examples as examples_lib
  from fl_clustering.tasks import federated_task


class Engine(abc.ABC):
  """Trains and evaluates models on the clients of one task, and counts what they do.

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
      task: federated_task.FederatedTask,
      batch_size: int,
      seed: int,
      schedule: participation.Schedule | None,
  ):
    """Counts nothing yet.

    Args:
      task: The clients and their model.
      batch_size: The examples of a step of training; a pass's last one may have fewer.
      seed: Each local training gets its random numbers from it.
    """
    everyone = task.clients, task.new_clients
    num_clients = len(task.clients)
    self.clients = np.arange(num_clients)
    self.new_clients = np.arange(num_clients, num_clients + len(task.new_clients))
    self.client_ids, self.new_client_ids = task.client_ids, task.new_client_ids
    self.num_examples = np.concatenate([some.train.counts for some in everyone])
    self.validated = np.flatnonzero(task.counts("validation"))
    self.model = task.model
    self.seed = seed
    self.schedule = schedule
    self.cost = cost_lib.Cost()
    self._all_ids = task.client_ids + task.new_client_ids
    self._train_examples = [some.train for some in everyone]
    self._batch_size = batch_size

  def training_cost(
      self, clients: np.ndarray, num_epochs: int, already_sent: bool = False
  ) -> cost_lib.Cost:
    """Returns the cost of sending clients a model each and getting it back trained.

    Args:
      clients: The clients; one that trains several models is there several times.
      num_epochs: Passes of a client over its data.
      already_sent: Whether they have the models.
    """
    steps = int(-(-self.num_examples[clients] // self._batch_size).sum())
    num_bytes = len(clients) * cost_lib.BYTES_PER_NUMBER * self.model.num_parameters
    return cost_lib.Cost(num_epochs * steps, (not already_sent) * num_bytes, num_bytes)

  def _count_bytes(self, down: int = 0, up: int = 0) -> None:
    """Counts so many numbers that clients are sent, and that they send."""
    self.cost += cost_lib.Cost(0, cost_lib.BYTES_PER_NUMBER * down, cost_lib.BYTES_PER_NUMBER * up)

  def _check_outputs(self, are_finite: np.ndarray, clients: np.ndarray, part: str) -> None:
    """Checks a model's outputs on each client's rows, given bools of shape (n,)."""
    for client in clients[~are_finite]:
      divergence.check_outputs(False, f"{part} rows of client {self._all_ids[client]!r}")

  def _check_and_count(
      self, vectors: np.ndarray, losses: Sequence[participation.ClientLosses],
      round_: participation.Round, already_sent: bool = False,
  ) -> None:
    """Checks and counts what `train` returns."""
    where = [f"round {round_.number}"]
    if len(vectors) > 1:
      where = [f"round {round_.number}, cluster {k}" for k in range(len(vectors))]
    for place, of_model, vector in zip(where, losses, vectors):
      divergence.check_losses(of_model, place, self._all_ids)
      if len(of_model.clients):
        divergence.check_vector(vector, place)
    clients = participation.joined(losses).clients
    self.cost += self.training_cost(clients, round_.num_epochs, already_sent)

  def initial_vectors(self, num_models: int, rng: np.random.Generator) -> np.ndarray:
    """Returns models as they are before any training, float32 of shape (num_models, P)."""
    drawn = [self.model.initial_parameters(rng) for _ in range(num_models)]
    return np.stack([np.concatenate([p.ravel() for p in one]) for one in drawn])

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
      divergence.TrainingDiverged: If a loss or weight is not finite; so do all that train.
    """
    trained, _, losses = self._train(vectors, members, round_, keeps_own=False)
    self._check_and_count(trained, losses, round_, already_sent)
    return trained, losses

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
    trained, own, losses = self._train(vectors, members, round_, keeps_own=True)
    self._check_and_count(trained, losses, round_)
    return trained, own, losses

  def train_each(
      self, vectors: np.ndarray, clients: np.ndarray, round_: participation.Round
  ) -> tuple[np.ndarray, participation.ClientLosses]:
    """Sends clients a model each, which they train alone and send back.

    Args:
      vectors: The model that each client starts from, float32 of shape (len(clients), P).
      clients: The clients that train, each there once, whether they take part in the round or
        not.
      round_: The round.  A client that trains several times in one round uses the same random
        numbers each time.

    Returns:
      The clients' models, not private, float32 of shape (len(clients), P), and their mean
      training losses, in the same order.
    """
    everyone = dataclasses.replace(round_, clients=clients)
    own, _, losses = self.train_own(
        np.array(vectors), clients, everyone, num_shared=self.model.num_parameters
    )
    return own, losses

  def train_own(
      self,
      vectors: np.ndarray,
      clients: np.ndarray,
      round_: participation.Round,
      common: np.ndarray | None = None,
      how: personalization.Personalization = personalization.Personalization(),
      shares: np.ndarray | None = None,
      num_shared: int = 0,
  ) -> tuple[np.ndarray, np.ndarray, participation.ClientLosses]:
    """Trains clients' own models for one round, alone or beside a model in common.

    The common model stays as it is.  Where `how` trains it beside, clients do what they do in
    `train` with the same round, so whoever calls that too counts and adds up those steps there.

    Args:
      vectors: The clients' own models, float32 of shape (len(clients), P).  The new ones take
        their place, unless they are read-only.
      clients: The clients, whether they were in training or not.
      round_: The round.  A client that does not take part in it keeps its model.
      common: The common model, float32 of shape (P,); None where none is needed.
      how: How the own models depend on it; by default they don't.
      shares: The own models' shares in a mixture, float32 of shape (len(clients),).
      num_shared: How many numbers a client is sent for it, and sends back.

    Returns:
      The own models and their shares, not private, and the mean training losses of the clients
      that took part, in their order.
    """
    trained = vectors if vectors.flags.writeable else vectors.copy()
    if common is None:
      common = np.zeros(self.model.num_parameters, np.float32)
    shares = np.ones(len(clients)) if shares is None else shares
    shares = np.array(shares, np.float32)
    values = self._train_own(trained, shares, clients, round_, common, how)
    rows = np.flatnonzero(np.isin(clients, round_.clients))
    losses = participation.ClientLosses(clients[rows], values[rows])
    divergence.check_losses(losses, f"round {round_.number}", self._all_ids)
    for row in rows:
      client_id = self._all_ids[clients[row]]
      divergence.check_vector(trained[row], f"round {round_.number}, client {client_id!r}")
    num_epochs = (how.head_epochs or 0) + round_.num_epochs
    self.cost += cost_lib.Cost(self.training_cost(losses.clients, num_epochs).steps)
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
    found = self._confusions(vectors, members, part)
    for of_model, clients in zip(found, members):
      self._check_outputs(divergence.are_finite(of_model), clients, part)
    return found

  def global_confusions(self, vectors: Any) -> np.ndarray:
    """Evaluates models as `confusions` does on the global test set; of shape (num_models, C, C)."""
    parts = self._global_confusions(vectors)
    divergence.check_outputs(divergence.are_finite(parts), "global test rows")
    return parts.sum(axis=1)

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
    found = self._losses(vectors, clients)
    self._count_bytes(down=found.size * self.model.num_parameters, up=found.size)
    return np.where(np.isnan(found), np.float32(np.inf), found)

  def sketches(self, clients: np.ndarray, size: int) -> np.ndarray:
    """Returns what a linear probe learns of the clients' training data, projected at random.

    Args:
      clients: The clients, whether they were in training or not.
      size: How many numbers a client sends.

    Returns:
      Vectors of norm 1, or of zeros, not private, float32 of shape (len(clients), size).
    """
    self._count_bytes(up=len(clients) * size)
    return self._sketches(clients, size)

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
    num_labels = by_label * self.model.num_classes
    outputs = self._outputs(vector, clients)
    found = np.array([
        moments_lib.of_client(of_client, self._examples_of(client).labels, num_labels)
        for client, of_client in zip(clients, outputs)
    ], np.float32).reshape(-1, 1 + num_labels, 2, self.model.num_classes)
    is_bad = np.isinf(found).any(axis=(1, 2, 3)) | np.isnan(found[:, 0]).any(axis=(1, 2))
    self._check_outputs(~is_bad, clients, "training")
    self._count_bytes(
        down=len(clients) * self.model.num_parameters, up=int(np.isfinite(found).sum())
    )
    return found

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
    validate.integer(minimum=1, num_vectors=num_vectors)
    found = [
        subspaces_lib.of_client(self._examples_of(client), num_vectors) for client in clients
    ]
    self._count_bytes(up=sum(basis.size for bases in found for basis in bases.values()))
    return found

  def _examples_of(self, client: int) -> examples_lib.Examples:
    """Returns a client's training examples."""
    first, new = self._train_examples
    num_first = len(self.clients)
    return first.of(client) if client < num_first else new.of(client - num_first)

  # What an engine computes for these, neither counted nor checked.

  @abc.abstractmethod
  def _train(
      self, vectors: np.ndarray, members: participation.Clusters, round_: participation.Round,
      keeps_own: bool,
  ) -> tuple[np.ndarray, list[np.ndarray], list[participation.ClientLosses]]:
    """Returns what `train_members` returns; the own models mean nothing unless `keeps_own`."""

  @abc.abstractmethod
  def _train_own(
      self,
      vectors: np.ndarray,
      shares: np.ndarray,
      clients: np.ndarray,
      round_: participation.Round,
      common: np.ndarray,
      how: personalization.Personalization,
  ) -> np.ndarray:
    """Trains as `train_own` says: new models and shares take the place of those before.

    Returns:
      The clients' losses, in which those of who does not take part mean nothing.
    """

  @abc.abstractmethod
  def _confusions(
      self, vectors: Any, members: participation.Clusters, part: str
  ) -> list[np.ndarray]:
    """Returns the confusion matrices of `confusions`; see `divergence.are_finite`."""

  @abc.abstractmethod
  def _global_confusions(self, vectors: Any) -> np.ndarray:
    """Returns the matrices of parts of the global test set, of shape (K, num_parts, C, C)."""

  @abc.abstractmethod
  def _losses(self, vectors: np.ndarray, clients: np.ndarray) -> np.ndarray:
    """Returns the mean losses of `losses`; a loss may be NaN."""

  @abc.abstractmethod
  def _sketches(self, clients: np.ndarray, size: int) -> np.ndarray:
    """Returns the clients' sketches, float32 of shape (N, size)."""

  @abc.abstractmethod
  def _outputs(self, vector: np.ndarray, clients: np.ndarray) -> Iterable[np.ndarray]:
    """Returns a model's outputs on each client's training data, float32 of shape (n, C)."""
