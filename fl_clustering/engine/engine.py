"""What a method can ask of the clients: to train models and to evaluate them.

The engine does what needs TensorFlow Federated, and it does it for many models at once.
Whatever else a method does is NumPy.  Each kind of work is one method of `Engine` over a
TFF computation in a file of its own.  Another kind goes beside them.  The engine counts
what all of it costs.
"""

import dataclasses
import functools
import math

import numpy as np

from fl_clustering.engine import client_files
from fl_clustering.engine import client_losses
from fl_clustering.engine import client_subspaces
from fl_clustering.engine import cost as cost_lib
from fl_clustering.engine import evaluation
from fl_clustering.engine import member_training
from fl_clustering.engine import site_training

# Numbers travel as float32.
_BYTES_PER_NUMBER = 4


class Engine:
  """Trains and evaluates models on the clients of one task.

  A TFF computation is built when it is first used, and TFF prepares it only once: so a
  run has one engine.

  Attributes:
    client_ids: The ids of the clients that train, in the order of the task.
    new_client_ids: The ids of the clients that come after the training.
    num_examples: A mapping from client id to its number of training examples, new clients
      included.
    files: The `ClientFiles`: where each client's data are.
    cost: The `Cost` of everything that the clients have done so far.
  """

  def __init__(self, task, data_dir, local_training, seed):
    """Writes the clients' files.

    Args:
      task: A `FederatedTask`.
      data_dir: An existing folder for the clients' files.  It must stay as long as
        the engine is used.
      local_training: How a client trains, a `client_update.LocalTraining`.
      seed: The run's seed, from which each local training gets its random numbers.
    """
    self.client_ids = task.client_ids
    self.new_client_ids = task.new_client_ids
    self.files = client_files.write_client_files(task, data_dir)
    self.num_examples = {c: file.num_examples for c, file in self.files.train.items()}
    self._task = task
    self._local_training = local_training
    self._seed = seed
    self.cost = cost_lib.Cost()

  def training_cost(self, client_ids, num_epochs):
    """Returns the `Cost` of sending clients a model each and getting it back trained.

    Args:
      client_ids: The clients; one that trains several models is named several times.
      num_epochs: Passes of a client over its data.
    """
    batch_size = self._local_training.batch_size
    steps = sum(math.ceil(self.num_examples[c] / batch_size) for c in client_ids)
    num_bytes = len(client_ids) * _BYTES_PER_NUMBER * self._task.num_parameters
    return cost_lib.Cost(num_epochs * steps, num_bytes, num_bytes)

  def _count_training(self, losses, num_epochs, already_sent=False):
    trained = [client_id for of_model in losses for client_id in of_model]
    cost = self.training_cost(trained, num_epochs)
    self.cost += dataclasses.replace(cost, bytes_down=0) if already_sent else cost

  def _count_bytes(self, down=0, up=0):
    """Counts so many numbers that clients are sent, and that they send."""
    self.cost += cost_lib.Cost(0, _BYTES_PER_NUMBER * down, _BYTES_PER_NUMBER * up)

  @functools.cached_property
  def _training(self):
    return site_training.build_training(
        self._task, self.files, self._local_training, self._seed
    )

  @functools.cached_property
  def _member_training(self):
    return member_training.MemberTraining(
        self._task, self.files, self._local_training, self._seed
    )

  @functools.cached_property
  def _evaluation(self):
    return evaluation.Evaluation(self._task.model)

  @functools.cached_property
  def _losses(self):
    return client_losses.ClientLosses(self._task.model, self.files)

  @functools.cached_property
  def _subspaces(self):
    return client_subspaces.ClientSubspaces(self._task.model, self.files)

  def initial_vectors(self, num_models, rng):
    """Returns models as they are before any training.

    Args:
      num_models: Their number.
      rng: A `np.random.Generator`.

    Returns:
      A float32 array of shape (num_models, P).
    """
    drawn = [self._task.model.initial_parameters(rng) for _ in range(num_models)]
    return np.stack([np.concatenate([p.ravel() for p in one]) for one in drawn])

  def train(self, vectors, members, round_, already_sent=False, in_place=False):
    """Trains every model for one round of FedAvg over its members.

    Args:
      vectors: The models, float32 of shape (num_models, P).
      members: A tuple of client ids per model.  A client may be a member of several
        models, and a model may have no members.
      round_: A `participation.Round`.  A model none of whose members take part in the
        round stays as it is.
      already_sent: Whether the members have the models, from `losses`, so that sending
        them costs nothing more.
      in_place: Whether the new models take the place of `vectors`, unless these are
        read-only.  A second copy of thousands of large models would be gigabytes.

    Returns:
      The new models, float32 of shape (num_models, P), and per model a dict from the
      ids of the members that trained it to their mean training loss.

    Raises:
      divergence.TrainingDiverged: If a loss or weight is not finite.
    """
    new_vectors, losses = self._training.next(vectors, members, round_, in_place)
    self._count_training(losses, round_.num_epochs, already_sent)
    return new_vectors, losses

  def train_members(self, vectors, members, round_):
    """Trains every model as `train` does, and returns the members' own models too.

    Args:
      vectors: The models, float32 of shape (num_models, P).
      members: A tuple of client ids per model.
      round_: A `participation.Round`.

    Returns:
      The new models, equal to those of `train` to the last bit; per model a dict from the
      ids of the members that trained it to their own trained models, not private, float32
      of shape (P,); and the losses, which are those of `train`.

    Raises:
      divergence.TrainingDiverged: If a loss or weight is not finite.
    """
    new_vectors, own, losses = self._member_training.next(vectors, members, round_)
    self._count_training(losses, round_.num_epochs)
    return new_vectors, own, losses

  def train_each(self, vectors, client_ids, round_):
    """Trains clients alone and returns their own models.

    Args:
      vectors: The model that each client starts from, float32 of shape
        (len(client_ids), P).
      client_ids: The clients that train, each named once, whether they take part in the
        round or not.
      round_: A `participation.Round`.  A client that trains several times in one round
        uses the same random numbers each time.

    Returns:
      The clients' models, not private, float32 of shape (len(client_ids), P), and a dict
      of client id to mean training loss.

    Raises:
      divergence.TrainingDiverged: If a loss or weight is not finite.
    """
    trained, losses = self._member_training.each(
        vectors, client_ids, dataclasses.replace(round_, client_ids=client_ids)
    )
    self._count_training([losses], round_.num_epochs)
    return trained, losses

  def confusions(self, vectors, requests):
    """Evaluates models on files.

    Args:
      vectors: The models, float32 of shape (num_models, P).
      requests: `evaluation.Request`s: a model's index and the `ExampleFile`s, from
        `files`, to evaluate it on.

    Returns:
      Per request the confusion matrices, an integer array of shape (num_files,
      num_classes, num_classes): the number of examples by true label (rows) and by
      predicted label (columns).
    """
    return self._evaluation.confusions(vectors, requests)

  def losses(self, vectors, client_ids):
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
    self._count_bytes(down=num_sent * self._task.num_parameters, up=num_sent)
    return self._losses.losses(vectors, client_ids)

  def subspaces(self, client_ids, num_vectors):
    """Returns the first left singular vectors of the clients' examples of each label.

    The matrix has the features of a client's training examples of a label as columns,
    those of images in [0, 1].

    Args:
      client_ids: The clients, whether they were in training or not.
      num_vectors: The most vectors per label.

    Returns:
      Per client a dict from each of its labels to a float32 array of shape (num_features, r),
      not private: directions of raw data.  r is `num_vectors`, or the number of linearly
      independent examples if that is less.  Each vector's largest component is positive.

    Raises:
      ValueError: If `num_vectors` is no positive integer.
    """
    found = self._subspaces.subspaces(client_ids, num_vectors)
    self._count_bytes(up=sum(basis.size for bases in found for basis in bases.values()))
    return found
