"""What a method can ask of the clients: to train models and to evaluate them.

The engine does what needs TensorFlow Federated, and it does it for many models at once.
Whatever else a method does is NumPy.  Each kind of work is one method of `Engine` over a
TFF computation in a file of its own.  Another kind goes beside them.  The engine counts
what all of it costs.
"""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any, Sequence, TYPE_CHECKING

import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.engine import client_files
from fl_clustering.engine import client_losses
from fl_clustering.engine import client_subspaces
from fl_clustering.engine import cluster_training
from fl_clustering.engine import cost as cost_lib
from fl_clustering.engine import evaluation
from fl_clustering.private_clusters import fitting
from fl_clustering.private_clusters import progress as progress_lib
from fl_clustering.private_clusters import releases as releases_lib

if TYPE_CHECKING:
  from dp_clustering import ledger as ledger_lib
  from fl_clustering.engine import client_update
  from fl_clustering.engine import participation
  from fl_clustering.private_clusters import plan
  from fl_clustering.tasks import federated_task

# Numbers travel as float32.
_BYTES_PER_NUMBER = 4


class Engine:
  """Trains and evaluates models on the clients of one task.

  Attributes:
    client_ids: The ids of the clients that train, in the order of the task.
    new_client_ids: The ids of the clients that come after the training.
    num_examples: Every client's number of training examples, new clients included.
    files: Where each client's data are.
    num_parameters: P, of the model.
    schedule: The run's rounds, for methods that plan for all of them; None if none does.
    cost: What the clients have done so far.
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
    self.client_ids = task.client_ids
    self.new_client_ids = task.new_client_ids
    self.files = client_files.write_client_files(task, data_dir)
    self.num_examples = {c: file.num_examples for c, file in self.files.train.items()}
    self.num_parameters = task.model.num_parameters
    self.schedule = schedule
    self.cost = cost_lib.Cost()
    self._model = task.model
    self._data_dir = data_dir
    self._seed = seed
    self._private_runs: dict[plan.PrivateClusters, fitting.Run] = {}
    self._batch_size = local_training.batch_size
    self._training = cluster_training.ClusterTraining(task, self.files, local_training, seed)

  def training_cost(self, client_ids: Sequence[str], num_epochs: int) -> cost_lib.Cost:
    """Returns the cost of sending clients a model each and getting it back trained.

    Args:
      client_ids: The clients; one that trains several models is named several times.
      num_epochs: Passes of a client over its data.
    """
    steps = sum(math.ceil(self.num_examples[c] / self._batch_size) for c in client_ids)
    num_bytes = len(client_ids) * _BYTES_PER_NUMBER * self._model.num_parameters
    return cost_lib.Cost(num_epochs * steps, num_bytes, num_bytes)

  def _count_training(
      self,
      losses: Sequence[cluster_training.Losses],
      num_epochs: int,
      already_sent: bool = False,
  ) -> None:
    trained = [client_id for of_model in losses for client_id in of_model]
    cost = self.training_cost(trained, num_epochs)
    self.cost += dataclasses.replace(cost, bytes_down=0) if already_sent else cost

  def _count_bytes(self, down: int = 0, up: int = 0) -> None:
    """Counts so many numbers that clients are sent, and that they send."""
    self.cost += cost_lib.Cost(0, _BYTES_PER_NUMBER * down, _BYTES_PER_NUMBER * up)

  def initial_vectors(self, num_models: int, rng: np.random.Generator) -> np.ndarray:
    """Returns models as they are before any training, float32 of shape (num_models, P)."""
    drawn = [self._model.initial_parameters(rng) for _ in range(num_models)]
    return np.stack([np.concatenate([p.ravel() for p in one]) for one in drawn])

  def train(
      self,
      vectors: np.ndarray,
      members: cluster_training.Clusters,
      round_: participation.Round,
      already_sent: bool = False,
      in_place: bool = False,
  ) -> tuple[np.ndarray, list[cluster_training.Losses]]:
    """Trains every model for one round of FedAvg over its members.

    Args:
      vectors: The models, float32 of shape (num_models, P).
      members: The client ids per model.  A client may be a member of several models.
      round_: The round.  A model none of whose members take part in it stays as it is.
      already_sent: Whether the members have the models, from `losses`, so that sending
        them costs nothing more.
      in_place: Whether the new models take the place of `vectors`, unless these are
        read-only.  A second copy of thousands of large models would be gigabytes.

    Returns:
      The new models, float32 of shape (num_models, P), and per model the mean training losses
      of the members that trained it.

    Raises:
      divergence.TrainingDiverged: If a loss or weight is not finite; so do the two below.
    """
    new_vectors, losses = self._training.train(vectors, members, round_, in_place)
    self._count_training(losses, round_.num_epochs, already_sent)
    return new_vectors, losses

  def train_members(
      self,
      vectors: np.ndarray,
      members: cluster_training.Clusters,
      round_: participation.Round,
  ) -> tuple[np.ndarray, list[dict[str, np.ndarray]], list[cluster_training.Losses]]:
    """Trains every model as `train` does, and returns the members' own models too.

    Returns:
      What `train` returns, to the last bit; and in between, per model the own trained models
      of the members that trained it, not private, float32 of shape (P,).
    """
    new_vectors, own, losses = self._training.train_members(vectors, members, round_)
    self._count_training(losses, round_.num_epochs)
    return new_vectors, own, losses

  def train_each(
      self, vectors: np.ndarray, client_ids: Sequence[str], round_: participation.Round
  ) -> tuple[np.ndarray, cluster_training.Losses]:
    """Trains clients alone and returns their own models.

    Args:
      vectors: The model that each client starts from, float32 of shape
        (len(client_ids), P).  A view made by `np.broadcast_to` is sent as one model.
      client_ids: The clients that train, each named once, whether they take part in the
        round or not.
      round_: The round.  A client that trains several times in one round uses the same random
        numbers each time.

    Returns:
      The clients' models, not private, float32 of shape (len(client_ids), P), and their mean
      training losses.
    """
    trained, losses = self._training.train_each(vectors, client_ids, round_)
    self._count_training([losses], round_.num_epochs)
    return trained, losses

  def confusions(self, vectors: Any, requests: Sequence[evaluation.Request]) -> list[np.ndarray]:
    """Evaluates models on files; see `evaluation.confusions`."""
    return evaluation.confusions(self._model, vectors, requests)

  def losses(self, vectors: np.ndarray, client_ids: Sequence[str]) -> np.ndarray:
    """Returns every model's mean cross-entropy on every client's training data.

    Each number depends on the model and on the client's data alone, to the last bit.

    Args:
      vectors: The models, float32 of shape (num_models, P).
      client_ids: The clients, whether they were in training or not.

    Returns:
      A float32 array of shape (num_models, len(client_ids)).  A loss that is not a number
      is infinite here, so that a client that takes the least loss never takes its model.
    """
    num_sent = len(vectors) * len(client_ids)
    self._count_bytes(down=num_sent * self._model.num_parameters, up=num_sent)
    return client_losses.losses(self._model, self.files.train, vectors, client_ids)

  def subspaces(
      self, client_ids: Sequence[str], num_vectors: int
  ) -> list[dict[int, np.ndarray]]:
    """Returns the first left singular vectors of the clients' examples of each label.

    The matrix has the features of a client's training examples of a label as columns,
    those of images in [0, 1].

    Args:
      client_ids: The clients, whether they were in training or not.
      num_vectors: The most vectors per label; a ValueError if it is no positive integer.

    Returns:
      Per client a dict from each of its labels to a float32 array of shape (num_features, r),
      not private: directions of raw data.  r is `num_vectors`, or the number of linearly
      independent examples if that is less.  Each vector's largest component is positive.
    """
    found = client_subspaces.subspaces(self._model, self.files.train, client_ids, num_vectors)
    self._count_bytes(up=sum(basis.size for bases in found for basis in bases.values()))
    return found

  def _private_run(
      self, settings: plan.PrivateClusters, releases: Sequence[ledger_lib.Release] = ()
  ) -> tuple[fitting.Run, ledger_lib.Ledger]:
    """Returns a run that has made these releases, and its ledger."""
    # The noise has a seed that nothing public shares, nor the noise of another number of clusters.
    purpose = f"noise of {settings.num_clusters} private clusters"
    noise_seed = int(randomness.generator(self._seed, purpose).integers(2**63))
    books = releases_lib.Releases(settings.epsilon, settings.delta, noise_seed)
    for release in releases:
      books.ledger.record(release.name, release.mu, release.sensitivity, release.std)
    if settings not in self._private_runs:
      files = {client_id: self.files.train[client_id] for client_id in self.client_ids}
      for client_id, file in files.items():
        if file.site:
          raise validate.error(
              "client_ids", "be of this machine for private training", f"{client_id} at {file.site}"
          )
      folder = os.path.join(self._data_dir, f"private_clusters_{len(self._private_runs)}")
      os.makedirs(folder, exist_ok=True)
      self._private_runs[settings] = fitting.Run(
          settings, self._model, dataclasses.replace(self.files, train=files), folder, self._seed,
          books,
      )
    return self._private_runs[settings].with_releases(books), books.ledger

  def _count_private(
      self, client_ids: Sequence[str], num_epochs: int, num_bytes: tuple[int, int]
  ) -> None:
    steps = self.training_cost(client_ids, num_epochs).client_steps
    down, up = num_bytes
    self.cost += cost_lib.Cost(steps, len(client_ids) * down, len(client_ids) * up)

  def start_private(
      self, settings: plan.PrivateClusters, num_participants: int
  ) -> progress_lib.Progress:
    """Begins private training: groups the clients by noisy sums, see `private_clusters.fitting`.

    A step on all examples of a client counts as the steps of a pass over them.  The linear
    probe of the sketches doesn't count.

    Args:
      settings: The budget, and what it is for.
      num_participants: The number of clients in a round.
    """
    run, ledger = self._private_run(settings)
    state, centers = run.start(num_participants)
    self._count_private(self.client_ids, settings.local_steps, run.start_bytes)
    return progress_lib.Progress(state, centers, ledger.releases)

  def train_private(
      self, settings: plan.PrivateClusters, progress: progress_lib.Progress,
      round_: participation.Round,
  ) -> progress_lib.Progress:
    """Returns where private training stands after one more round.

    Its noise follows from the run's seed and the number of releases before.  So the same round
    gives the same sums again, and protects nobody.

    Args:
      settings: As before the first round.
      round_: The round, of which only the clients count.
    """
    run, ledger = self._private_run(settings, progress.releases)
    state = run.next(progress.state, progress.centers, round_.client_ids)
    self._count_private(round_.client_ids, settings.local_steps, run.round_bytes)
    return progress_lib.Progress(state, progress.centers, ledger.releases)

  def nonprivate_slots(
      self, settings: plan.PrivateClusters, progress: progress_lib.Progress
  ) -> dict[str, int]:
    """Returns the model that each client takes next in private training, by client id.

    No server knows it; it costs nothing, as it only measures.
    """
    run, _ = self._private_run(settings, progress.releases)
    return run.nonprivate_slots(run.public(progress.state, progress.centers))
