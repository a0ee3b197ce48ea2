"""What an experiment runs on: clients with their data, a test set, a model.

A `FederatedTask` is checked when it is made, so that data and a model that don't fit
each other are an error here and not in a later round of training.
"""

import dataclasses
import hashlib
from typing import Any, Mapping

import numpy as np

from clustering_basics import validate
from fl_clustering.tables import saved
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import model as model_lib


@dataclasses.dataclass(frozen=True, eq=False)
class ClientData:
  """One client's examples.

  Attributes:
    client_id: The name by which the client is known everywhere.
    group: The number of its true group, where the task has known groups.
    validation: Examples held out of `train`, by which a run makes its choices; `None` without any.
  """

  client_id: str
  train: examples_lib.Examples
  test: examples_lib.Examples
  group: int | None = None
  validation: examples_lib.Examples | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class FederatedTask:
  """Clients with their data, a global test set and a model that fits both.

  Attributes:
    name: The data set really used, such as "digits".
    source: One line: what data this is, from where, in which version.
    partition: How the clients came to their data, such as "dirichlet".
    global_test: Test examples that belong to no one client.
    global_test_source: One line: where `global_test` is from.
    num_classes: Labels are below this number.
    partition_options: The options that the partition used, by name.
    fallback_reason: Why `auto` did not use EMNIST; None if it did, or was not
      asked.
    warnings: What a reader of the results should know about the data, the
      fallback included.
    new_clients: Clients that don't train and come when the training is over.
    class_names: What the labels mean, in their order; `None` if they are mere numbers.
    tables: How a table's rows become features; `None` for other data.
    row_digests: A digest of every file of a folder of tables, by its name.
  """

  name: str
  source: str
  partition: str
  clients: tuple[ClientData, ...]
  global_test: examples_lib.Examples
  global_test_source: str
  num_classes: int
  model: model_lib.Model
  partition_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  fallback_reason: str | None = None
  warnings: tuple[str, ...] = ()
  new_clients: tuple[ClientData, ...] = ()
  class_names: tuple[str, ...] | None = None
  tables: saved.SavedTables | None = None
  row_digests: Mapping[str, str] = dataclasses.field(default_factory=dict)

  def __post_init__(self) -> None:
    if not self.clients:
      raise validate.error("clients", "hold at least one client", self.clients)
    if self.model.num_classes != self.num_classes:
      raise validate.error(
          "model",
          f"have as many outputs as there are classes ({self.num_classes})",
          self.model.num_classes,
      )
    most = examples_lib.MAX_CLASSES[self.model.input_dtype]
    if self.num_classes > most:
      raise validate.error(
          "num_classes", f"be at most {most} for {self.model.input_dtype}", self.num_classes
      )
    if self.class_names is not None and len(self.class_names) != self.num_classes:
      raise validate.error("class_names", f"be {self.num_classes} names", self.class_names)
    self._check_ids()
    self._check_groups()
    for client in self.all_clients:
      self._check_examples(client.train, "train", f"client {client.client_id!r}")
      self._check_examples(client.test, "test", f"client {client.client_id!r}")
      if client.validation is not None:
        self._check_examples(client.validation, "validation", f"client {client.client_id!r}")
    self._check_examples(self.global_test, "global_test", "the task")

  def _check_ids(self) -> None:
    seen = set()
    for client_id in (*self.client_ids, *self.new_client_ids):
      if not isinstance(client_id, str) or not client_id:
        raise validate.error("client_id", "be a non-empty string", client_id)
      if client_id in seen:
        raise validate.error("client_id", "be a client's own, but two have it", client_id)
      seen.add(client_id)

  def _check_groups(self) -> None:
    without = [client.client_id for client in self.all_clients if client.group is None]
    if 0 < len(without) < len(self.all_clients):
      raise validate.error(
          "group", f"be known for all clients or for none; {without[0]!r} has none", None
      )
    for client in self.all_clients if not without else ():
      validate.integer(0, group=client.group)

  def _check_examples(self, examples: examples_lib.Examples, name: str, owner: str) -> None:
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
  def client_ids(self) -> tuple[str, ...]:
    """The ids of the clients that train, in their order."""
    return tuple(client.client_id for client in self.clients)

  @property
  def new_client_ids(self) -> tuple[str, ...]:
    """The ids of the clients that come after the training, in their order."""
    return tuple(client.client_id for client in self.new_clients)

  @property
  def all_clients(self) -> tuple[ClientData, ...]:
    """The clients that train, and then the new ones."""
    return (*self.clients, *self.new_clients)

  @property
  def true_groups(self) -> np.ndarray | None:
    """The numbers of the true groups of the clients that train, int64; None if unknown."""
    groups = [client.group for client in self.clients if client.group is not None]
    return np.array(groups, np.int64) if groups else None

  @property
  def train_label_counts(self) -> np.ndarray:
    """How many training examples each class has, (C,)."""
    counts = np.zeros(self.num_classes, np.int64)
    for client in self.clients:
      counts += np.bincount(client.train.labels, minlength=self.num_classes)
    return counts

  @property
  def num_parameters(self) -> int:
    """The number of the model's parameters."""
    return self.model.num_parameters

  @property
  def num_examples(self) -> dict[str, int]:
    """The numbers of examples of all clients that train together, and of the global test set."""
    return {
        "train": sum(len(client.train) for client in self.clients),
        "validation": sum(len(client.validation or ()) for client in self.clients),
        "client_test": sum(len(client.test) for client in self.clients),
        "global_test": len(self.global_test),
    }

  def fingerprint(self) -> str:
    """Returns a SHA-256 (hex) of all data, ids and groups.

    A resumed run compares it to know that it has the data it began with.  It
    holds no path and no name: the same data from another folder is the same.
    """
    digest = hashlib.sha256(f"{self.num_classes}".encode())
    for client in self.all_clients:
      # repr() keeps neighbouring fields apart whatever an id consists of.
      digest.update(repr((client.client_id, client.group)).encode())
      for examples in (client.train, client.test, client.validation):
        if examples is not None:
          examples.update_digest(digest)
    self.global_test.update_digest(digest)
    return digest.hexdigest()
