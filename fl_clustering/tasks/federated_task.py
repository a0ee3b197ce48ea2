"""What an experiment runs on: clients with their data, a test set, a model.

A `FederatedTask` is checked when it is made, so that data and a model that don't fit
each other are an error here and not in a later round of training.
"""

import dataclasses
import hashlib
from typing import Any, Mapping, Optional, Union

import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.distribution import site_paths
from fl_clustering.tables import table_format as table_format_lib
from fl_clustering.tables import table_options
from fl_clustering.tasks import folds
from fl_clustering.tasks import model as model_lib
from fl_clustering.tasks import models


# From the type of the features to the number of labels that it can tell apart: a client's
# file holds an example's label beside its features, in their type.
MAX_CLASSES = {"uint8": 2**8, "float32": 2**24, "int32": 2**31 - 1}


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
  """Labelled examples.

  Attributes:
    features: Array of shape (num_examples, ...).  uint8 are images of shape (num_examples,
      height, width, channels), where 255 is ink, 0 is paper, and the model gets [0, 1]:
      bytes are small on disk and on the wire.  float32, finite, and int32 reach the model
      as they are.
    labels: Integers >= 0 of shape (num_examples,), of any type of integer.
  """

  features: np.ndarray
  labels: np.ndarray

  def __post_init__(self):
    _check_type("features", self.features, MAX_CLASSES, " or ".join(MAX_CLASSES))
    _check_type("labels", self.labels, np.typecodes["AllInteger"], "integers")
    shape = self.features.shape
    if self.features.dtype == np.uint8 and len(shape) != 4:
      raise validate.error(
          "features", "have the shape (num_examples, height, width, channels) if uint8", shape
      )
    if len(shape) < 2 or not all(shape[1:]):
      raise validate.error("features", "have numbers in every example", shape)
    if self.labels.shape != shape[:1]:
      raise validate.error(
          "labels", f"have the shape {shape[:1]}, as there are examples", self.labels.shape
      )
    if self.features.dtype == np.float32 and not np.all(np.isfinite(self.features)):
      raise validate.error(
          "features", "be finite", float(self.features[~np.isfinite(self.features)][0])
      )
    if self.labels.size and self.labels.min() < 0:
      raise validate.error("labels", "be >= 0", int(self.labels.min()))

  def __len__(self):
    return len(self.labels)

  @property
  def site(self):
    """The address of the site that has them: "", this machine."""
    return ""

  @property
  def feature_shape(self):
    """The shape of one example's features."""
    return self.features.shape[1:]

  @property
  def dtype(self):
    """The name of the features' type."""
    return self.features.dtype.name

  @property
  def label_bound(self):
    """What all labels are below."""
    return int(self.labels.max()) + 1

  def update_digest(self, digest):
    """Updates a `hashlib` digest with the examples."""
    for array in (self.features, self.labels):
      digest.update(repr(array.shape).encode())
      digest.update(np.ascontiguousarray(array))

  def take(self, indices):
    """Returns the examples at `indices` (integers or a mask) as new arrays."""
    return Examples(self.features[indices], self.labels[indices])


def _check_type(name, array, types, text):
  if not isinstance(array, np.ndarray) or not any(array.dtype == kind for kind in types):
    kind = getattr(array, "dtype", type(array).__name__)
    raise TypeError(f"`{name}` must be a NumPy array of {text}, got {kind}.")


@dataclasses.dataclass(frozen=True)
class RemoteExamples:
  """Labelled examples that are at a site and never on this machine.

  Attributes:
    path: Where they are: a `site_paths` path of a file as in `engine/client_files.py`.
    num_examples: Their number.
    feature_shape: The shape of one example's features.
    dtype: The name of the features' type, a key of `MAX_CLASSES`.
    label_bound: What all labels are below, as the site has made sure.
    digest: Text that is another one for other examples.
  """

  path: str
  num_examples: int
  feature_shape: tuple[int, ...]
  dtype: str
  label_bound: int
  digest: str

  def __len__(self):
    return self.num_examples

  @property
  def site(self):
    """The address of the site that has them."""
    return site_paths.parse(self.path).address

  def update_digest(self, digest):
    """Updates a `hashlib` digest with what stands for the examples."""
    digest.update(repr((self.digest, self.num_examples)).encode())


@dataclasses.dataclass(frozen=True)
class PooledTests:
  """The test data of clients, taken together, each at its site.

  Attributes:
    parts: The clients' `RemoteExamples`, which are alike; at least one.
  """

  parts: tuple[RemoteExamples, ...]

  def __len__(self):
    return sum(map(len, self.parts))

  @property
  def feature_shape(self):
    """The shape of one example's features."""
    return self.parts[0].feature_shape

  @property
  def dtype(self):
    """The name of the features' type."""
    return self.parts[0].dtype

  @property
  def label_bound(self):
    """What all labels are below."""
    return max(part.label_bound for part in self.parts)

  def update_digest(self, digest):
    """Updates a `hashlib` digest with what stands for the examples."""
    for part in self.parts:
      part.update_digest(digest)


@dataclasses.dataclass(frozen=True, eq=False)
class ClientData:
  """One client's examples.

  Attributes:
    client_id: The name by which the client is known everywhere.
    train: What it trains on.
    test: Its own test data; at a site as `train`.
    group: The number of its true group, where the task has known groups.
  """

  client_id: str
  train: Union[Examples, RemoteExamples]
  test: Union[Examples, RemoteExamples]
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
    model_options: The same of the model's options.
    tables: How the clients' files are read, `TableOptions`; None for other data.
    test_share: The share of every client's rows that is for testing; None for the default.
    num_new_clients: How many of the clients will not train.
    fold: Which examples of every client are for testing, a `Fold`; None for a random share.
  """

  dataset: str = "auto"
  data_dir: Optional[str] = None
  num_clients: int = 100
  partition: Optional[str] = None
  model: str = "cnn_small"
  seed: int = 0
  partition_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  model_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  tables: Optional[table_options.TableOptions] = None
  test_share: Optional[float] = None
  num_new_clients: int = 0
  fold: Optional[folds.Fold] = None

  def build_model(self, examples, num_classes):
    """Returns the model that is asked for, a `model.Model`.

    Args:
      examples: Examples of the kind that it gets.
      num_classes: Number of its outputs.
    """
    return models.build(
        self.model, examples.feature_shape, num_classes, examples.dtype, **self.model_options
    )


@dataclasses.dataclass(frozen=True, eq=False)
class FederatedTask:
  """Clients with their data, a global test set and a model that fits both.

  Attributes:
    name: The data set really used, such as "digits".
    source: One line: what data this is, from where, in which version.
    partition: How the clients came to their data, such as "dirichlet".
    clients: The clients, each with training and test data.
    global_test: Test examples that belong to no one client; those of clients at sites together.
    global_test_source: One line: where `global_test` is from.
    num_classes: Labels are below this number.
    model: The model to train.
    partition_options: The options that the partition used, by name.
    fallback_reason: Why `auto` did not use EMNIST; None if it did, or was not
      asked.
    warnings: What a reader of the results should know about the data, the
      fallback included.
    new_clients: Clients that don't train and come when the training is over, as `clients`.
    class_names: What the labels mean, in their order; `None` if they are mere numbers.
    feature_names: The same of the features of a table, the columns.
    table_format: How a table's rows become features, a `TableFormat`; `None` for other data.
  """

  name: str
  source: str
  partition: str
  clients: tuple[ClientData, ...]
  global_test: Union[Examples, PooledTests]
  global_test_source: str
  num_classes: int
  model: model_lib.Model
  partition_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  fallback_reason: Optional[str] = None
  warnings: tuple[str, ...] = ()
  new_clients: tuple[ClientData, ...] = ()
  class_names: Optional[tuple[str, ...]] = None
  feature_names: Optional[tuple[str, ...]] = None
  table_format: Optional[table_format_lib.TableFormat] = None

  def __post_init__(self):
    if not self.clients:
      raise validate.error("clients", "hold at least one client", self.clients)
    if self.model.num_classes != self.num_classes:
      raise validate.error(
          "model",
          f"have as many outputs as there are classes ({self.num_classes})",
          self.model.num_classes,
      )
    most = MAX_CLASSES[self.model.input_dtype]
    if self.num_classes > most:
      raise validate.error(
          "num_classes", f"be at most {most} for {self.model.input_dtype}", self.num_classes
      )
    self._check_names("class_names", self.num_classes)
    self._check_names("feature_names", self.model.input_shape[-1])
    self._check_ids()
    self._check_groups()
    for client in self.all_clients:
      self._check_examples(client.train, "train", f"client {client.client_id!r}")
      self._check_examples(client.test, "test", f"client {client.client_id!r}")
    self._check_examples(self.global_test, "global_test", "the task")

  def _check_names(self, name, length):
    names = getattr(self, name)
    if names is not None and len(names) != length:
      raise validate.error(name, f"be {length} names", names)

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
    shape = examples.feature_shape
    if shape != self.model.input_shape:
      raise validate.error(
          name, f"hold features of the model's shape {self.model.input_shape} for {owner}", shape
      )
    if examples.dtype != self.model.input_dtype:
      raise validate.error(
          name,
          f"hold features of the model's type {self.model.input_dtype} for {owner}",
          examples.dtype,
      )
    if examples.label_bound > self.num_classes:
      raise validate.error(
          name,
          f"hold labels < num_classes={self.num_classes} for {owner}",
          examples.label_bound - 1,
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
  def num_sites(self):
    """The number of sites at which the clients' examples are; 0 if this machine has them."""
    return len({client.train.site for client in self.all_clients} - {""})

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
        examples.update_digest(digest)
    self.global_test.update_digest(digest)
    return digest.hexdigest()


def choose_new(num_clients, num_new_clients, seed):
  """Returns the positions of the clients that don't train, a set.

  Args:
    num_clients: Number of all clients.
    num_new_clients: How many of them, fewer than all.
    seed: Decides which.
  """
  rng = randomness.generator(seed, "new clients")
  return set(rng.choice(num_clients, num_new_clients, replace=False).tolist())


def hold_out(task, num_new_clients, seed):
  """Returns the task with some of its clients as new ones, which don't train.

  Args:
    task: A `FederatedTask`.
    num_new_clients: How many, fewer than the task has clients.
    seed: Decides which.
  """
  if not num_new_clients:
    return task
  new = choose_new(len(task.clients), num_new_clients, seed)
  return dataclasses.replace(
      task,
      clients=tuple(client for i, client in enumerate(task.clients) if i not in new),
      new_clients=tuple(task.clients[i] for i in sorted(new)),
  )
