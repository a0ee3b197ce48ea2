"""What an experiment runs on: clients with their data, a test set, a model.

A `FederatedTask` is checked when it is made, so that data and a model that don't fit
each other are an error here and not in a later round of training.
"""

import dataclasses
import hashlib
from typing import Any, Mapping, Optional

import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.tasks import models


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
  """Labelled images, in bytes: a client's data is small on disk and on the wire.

  Attributes:
    images: uint8 array of shape (num_examples, height, width, channels); 255 is
      ink, 0 is paper.
    labels: uint8 array of shape (num_examples,).
  """

  images: np.ndarray
  labels: np.ndarray

  def __post_init__(self):
    for name, array in (("images", self.images), ("labels", self.labels)):
      if not isinstance(array, np.ndarray) or array.dtype != np.uint8:
        kind = getattr(array, "dtype", type(array).__name__)
        raise TypeError(f"`{name}` must be a NumPy array of uint8, got {kind}.")
    if self.images.ndim != 4:
      raise validate.error(
          "images",
          "have the shape (num_examples, height, width, channels)",
          self.images.shape,
      )
    if self.labels.shape != self.images.shape[:1]:
      raise validate.error(
          "labels",
          f"have the shape {self.images.shape[:1]}, as there are images",
          self.labels.shape,
      )

  def __len__(self):
    return len(self.labels)

  def take(self, indices):
    """Returns the examples at `indices` (integers or a mask) as new arrays."""
    return Examples(self.images[indices], self.labels[indices])


@dataclasses.dataclass(frozen=True, eq=False)
class ClientData:
  """One client's examples.

  Attributes:
    client_id: The name by which the client is known everywhere.
    train: What it trains on.
    test: Its own test data.
    group: The number of its true group, where the task has known groups.
  """

  client_id: str
  train: Examples
  test: Examples
  group: Optional[int] = None


@dataclasses.dataclass(frozen=True, eq=False)
class ImagePool:
  """Labelled images that belong to no client yet: what a partition splits.

  Attributes:
    name: The data set's name, such as "digits".
    source: One line: what data this is, from where, in which version.
    pool: The examples to be split over the clients.
    global_test: Examples that no client gets.
    global_test_source: One line: where `global_test` is from.
    num_classes: Labels are below this number.
  """

  name: str
  source: str
  pool: Examples
  global_test: Examples
  global_test_source: str
  num_classes: int


@dataclasses.dataclass(frozen=True)
class TaskOptions:
  """What task is asked for; `registry.load_task` checks it.

  Attributes:
    dataset: A name in `registry.DATASETS`.
    data_dir: Folder with the data (`idx`), cache folder (`emnist`); None for the
      default cache folder.
    num_clients: Number of clients.
    partition: A name in `registry.PARTITION_NAMES`; None for the data set's own
      default.
    model: A name in `models.MODELS`.
    seed: Decides who gets what.
    partition_options: The partition's options by name; None where one is not given.
  """

  dataset: str = "auto"
  data_dir: Optional[str] = None
  num_clients: int = 100
  partition: Optional[str] = None
  model: str = "cnn_small"
  seed: int = 0
  partition_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, eq=False)
class FederatedTask:
  """Clients with their data, a global test set and a model that fits both.

  Attributes:
    name: The data set really used, such as "digits".
    source: One line: what data this is, from where, in which version.
    partition: How the clients came to their data, such as "dirichlet".
    clients: The clients, each with training and test data.
    global_test: Test examples that belong to no one client.
    global_test_source: One line: where `global_test` is from.
    num_classes: Labels are below this number.
    model: The model to train.
    partition_options: The options that the partition used, by name.
    fallback_reason: Why `auto` did not use EMNIST; None if it did, or was not
      asked.
    warnings: What a reader of the results should know about the data, the
      fallback included.
    new_clients: Clients that don't train and come when the training is over, as `clients`.
  """

  name: str
  source: str
  partition: str
  clients: tuple[ClientData, ...]
  global_test: Examples
  global_test_source: str
  num_classes: int
  model: models.ImageModel
  partition_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  fallback_reason: Optional[str] = None
  warnings: tuple[str, ...] = ()
  new_clients: tuple[ClientData, ...] = ()

  def __post_init__(self):
    if not self.clients:
      raise validate.error("clients", "hold at least one client", self.clients)
    if self.model.num_classes != self.num_classes:
      raise validate.error(
          "model",
          f"have as many outputs as there are classes ({self.num_classes})",
          self.model.num_classes,
      )
    self._check_ids()
    self._check_groups()
    for client in self.all_clients:
      self._check_examples(client.train, "train", f"client {client.client_id!r}")
      self._check_examples(client.test, "test", f"client {client.client_id!r}")
    self._check_examples(self.global_test, "global_test", "the task")

  def _check_ids(self):
    seen = set()
    for client_id in (*self.client_ids, *self.new_client_ids):
      if not isinstance(client_id, str) or not client_id:
        raise validate.error("client_id", "be a non-empty string", client_id)
      if client_id in seen:
        raise validate.error("client_id", "be a client's own, but two have it", client_id)
      seen.add(client_id)

  def _check_groups(self):
    without = [client.client_id for client in self.all_clients if client.group is None]
    if 0 < len(without) < len(self.all_clients):
      raise validate.error(
          "group", f"be known for all clients or for none; {without[0]!r} has none", None
      )

  def _check_examples(self, examples, name, owner):
    if not len(examples):
      raise validate.error(name, f"hold at least one example for {owner}", 0)
    shape = examples.images.shape[1:]
    if shape != self.model.input_shape:
      raise validate.error(
          name, f"hold images of the model's shape {self.model.input_shape} for {owner}", shape
      )
    largest = int(examples.labels.max())
    if largest >= self.num_classes:
      raise validate.error(
          name, f"hold labels < num_classes={self.num_classes} for {owner}", largest
      )

  @property
  def client_ids(self):
    """The clients' ids, in the order of `clients`."""
    return tuple(client.client_id for client in self.clients)

  @property
  def new_client_ids(self):
    """The ids of the clients that come after the training, in the order of `new_clients`."""
    return tuple(client.client_id for client in self.new_clients)

  @property
  def all_clients(self):
    """The clients that train, and then the new ones."""
    return (*self.clients, *self.new_clients)

  @property
  def true_groups(self):
    """The number of every client's true group by client id; None if unknown."""
    if self.clients[0].group is None:
      return None
    return {client.client_id: client.group for client in self.clients}

  @property
  def num_parameters(self):
    """The number of the model's parameters."""
    return self.model.num_parameters

  @property
  def num_train_examples(self):
    """The number of training examples of all clients together."""
    return sum(len(client.train) for client in self.clients)

  @property
  def num_client_test_examples(self):
    """The number of test examples of all clients together."""
    return sum(len(client.test) for client in self.clients)

  def fingerprint(self):
    """Returns a SHA-256 (hex) of all data, ids and groups.

    A resumed run compares it to know that it has the data it began with.  It
    holds no path and no name: the same data from another folder is the same.
    """
    digest = hashlib.sha256(f"{self.num_classes}".encode())
    for client in self.all_clients:
      # repr() keeps neighbouring fields apart whatever an id consists of.
      digest.update(repr((client.client_id, client.group)).encode())
      for examples in (client.train, client.test):
        _update_digest(digest, examples)
    _update_digest(digest, self.global_test)
    return digest.hexdigest()


def hold_out(task, num_new_clients, seed):
  """Returns the task with some of its clients as new ones, which don't train.

  Args:
    task: A `FederatedTask`.
    num_new_clients: How many, fewer than the task has clients.
    seed: Decides which.
  """
  if not num_new_clients:
    return task
  rng = randomness.generator(seed, "new clients")
  new = set(rng.choice(len(task.clients), num_new_clients, replace=False).tolist())
  return dataclasses.replace(
      task,
      clients=tuple(client for i, client in enumerate(task.clients) if i not in new),
      new_clients=tuple(task.clients[i] for i in sorted(new)),
  )


def _update_digest(digest, examples):
  for array in (examples.images, examples.labels):
    digest.update(repr(array.shape).encode())
    digest.update(np.ascontiguousarray(array))
