"""What a method can ask of the clients: to train models and to evaluate them.

The engine does what needs TensorFlow Federated, and it does it for many models at once.
Whatever else a method does is NumPy.  Each kind of work is one method of `Engine` over a
TFF computation in a file of its own.  The engine counts what all of it costs.
"""

import dataclasses
import functools
import math

from fl_clustering.engine import client_files
from fl_clustering.engine import cluster_training
from fl_clustering.engine import cost as cost_lib
from fl_clustering.engine import evaluation

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

  def _count_training(self, losses, num_epochs):
    trained = [client_id for of_model in losses for client_id in of_model]
    self.cost += self.training_cost(trained, num_epochs)

  @functools.cached_property
  def _training(self):
    return cluster_training.ClusterTraining(
        self._task, self.files, self._local_training, self._seed
    )

  @functools.cached_property
  def _evaluation(self):
    return evaluation.Evaluation(self._task.model)

  def train(self, vectors, members, round_):
    """Trains every model for one round of FedAvg over its members.

    Args:
      vectors: The models, float32 of shape (num_models, P).
      members: A tuple of client ids per model.  A client may be a member of several
        models, and a model may have no members.
      round_: A `participation.Round`.  A model none of whose members take part in the
        round stays as it is.

    Returns:
      The new models, float32 of shape (num_models, P), and per model a dict from the
      ids of the members that trained it to their mean training loss.

    Raises:
      federated_training.TrainingDiverged: If a loss or weight is not finite.
    """
    new_vectors, losses = self._training.next(vectors, members, round_)
    self._count_training(losses, round_.num_epochs)
    return new_vectors, losses

  def train_each(self, vectors, client_ids, round_):
    """Trains clients alone and returns their own models.

    Args:
      vectors: The model that each client starts from, float32 of shape
        (len(client_ids), P).
      client_ids: The clients that train, whether they take part in the round or not.
      round_: A `participation.Round`.  A client that trains several times in one round
        uses the same random numbers each time.

    Returns:
      The clients' models, not private, float32 of shape (len(client_ids), P), and a dict
      of client id to mean training loss.

    Raises:
      federated_training.TrainingDiverged: If a loss or weight is not finite.
    """
    trained, losses = self._training.next(
        vectors,
        tuple((client_id,) for client_id in client_ids),
        dataclasses.replace(round_, client_ids=client_ids),
    )
    self._count_training(losses, round_.num_epochs)
    return trained, {c: loss for part in losses for c, loss in part.items()}

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
