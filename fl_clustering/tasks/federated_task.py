"""What an experiment runs on: clients with their data, a test set, a model.

A `FederatedTask` is checked when it is made, so that data and a model that don't fit
each other are an error here and not in a later round of training.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from clustering_basics import validate
from fl_clustering.tables import saved
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import model as model_lib
from fl_clustering.tasks import pooled_examples

_PARTS = ("train", "test", "validation")


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
class PooledClients(Sequence[ClientData]):
  """Clients whose examples are rows of pools; their `ClientData` are made when asked for.

  Attributes:
    ids: As `ClientData.client_id`, and so are all that follow.
    groups: Integers of shape (num_clients,); `None` where groups are not known.
    validation: A client may have none of these.
  """

  ids: tuple[str, ...]
  train: pooled_examples.PooledExamples
  test: pooled_examples.PooledExamples
  groups: np.ndarray | None = None
  validation: pooled_examples.PooledExamples | None = None

  def __len__(self) -> int:
    return len(self.ids)

  def __getitem__(self, place: Any) -> Any:
    if isinstance(place, slice):
      return self.among(np.arange(len(self))[place])
    place = range(len(self))[place]
    validation = self.validation
    return ClientData(
        self.ids[place], self.train.of(place), self.test.of(place),
        None if self.groups is None else int(self.groups[place]),
        None if validation is None or not validation.counts[place] else validation.of(place),
    )

  def part(self, name: str) -> pooled_examples.PooledExamples:
    """Returns the `train`, `test` or `validation` examples."""
    found: pooled_examples.PooledExamples | None = getattr(self, name)
    if found is not None:
      return found
    none = np.zeros_like(self.train.counts)
    return pooled_examples.PooledExamples(self.train.pool, self.train.rows[:0], none)

  def among(self, places: np.ndarray) -> PooledClients:
    """Returns some of the clients, in this order."""
    return PooledClients(
        tuple(self.ids[place] for place in places), self.train.among(places),
        self.test.among(places), None if self.groups is None else self.groups[places],
        None if self.validation is None else self.validation.among(places),
    )

  @classmethod
  def of(cls, clients: Sequence[ClientData]) -> PooledClients:
    """Returns clients, at least one.

    Raises:
      ValueError: If their examples are not of one shape and type, or only some have groups.
    """
    if not clients:
      raise validate.error("clients", "hold at least one client", clients)
    groups = [client.group for client in clients]
    if None in groups and any(group is not None for group in groups):
      name = clients[groups.index(None)].client_id
      raise validate.error(
          "group", f"be known for all clients or for none; {name!r} has none", None
      )
    for group in set(groups) - {None}:
      validate.integer(0, group=group)
    parts = []
    for part in _PARTS:
      for client in clients:
        examples = getattr(client, part)
        if examples is None:
          continue
        parts.append(examples)
        if (examples.feature_shape, examples.dtype) != (parts[0].feature_shape, parts[0].dtype):
          raise validate.error(
              part,
              f"hold {parts[0].dtype} features of shape {parts[0].feature_shape} for client "
              f"{client.client_id!r}, as for the first one",
              (examples.dtype, examples.feature_shape),
          )
    pool = examples_lib.pooled(parts)
    found, first = {}, 0
    for part in _PARTS:
      counts = np.array([len(getattr(client, part) or ()) for client in clients], np.int64)
      rows = np.arange(first, first + counts.sum(), dtype=np.int32)
      found[part], first = pooled_examples.PooledExamples(pool, rows, counts), first + len(rows)
    return cls(
        tuple(client.client_id for client in clients), found["train"], found["test"],
        None if None in groups else np.array(groups, np.int64),
        found["validation"] if len(found["validation"].rows) else None,
    )

  def update_digest(self, digest: hashlib._Hash) -> None:
    """Updates a digest with all data, ids and groups."""
    groups = None if self.groups is None else self.groups.tolist()
    digest.update(repr((self.ids, groups)).encode())
    parts = [part for part in (self.train, self.test, self.validation) if part is not None]
    for pool in {id(part.pool): part.pool for part in parts}.values():
      examples_lib.update_digest(digest, pool.features, pool.labels)
    for part in parts:
      examples_lib.update_digest(digest, part.rows, part.counts)


_NO_EXAMPLES = pooled_examples.PooledExamples.of_examples(
    [examples_lib.Examples(np.zeros((0, 1), np.float32), np.zeros(0, np.uint8))]
).among(np.zeros(0, int))
NO_CLIENTS = PooledClients((), _NO_EXAMPLES, _NO_EXAMPLES)


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
    warnings: What a reader of the results should know about the data.
    new_clients: Clients that don't train and come when the training is over.
    class_names: What the labels mean, in their order; `None` if they are mere numbers.
    tables: How a table's rows become features; `None` for other data.
    row_digests: A digest of every file of a folder of tables, by its name.
  """

  name: str
  source: str
  partition: str
  clients: PooledClients
  global_test: examples_lib.Examples
  global_test_source: str
  num_classes: int
  model: model_lib.Model
  partition_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  warnings: tuple[str, ...] = ()
  new_clients: PooledClients = NO_CLIENTS
  class_names: tuple[str, ...] | None = None
  tables: saved.SavedTables | None = None
  row_digests: Mapping[str, str] = dataclasses.field(default_factory=dict)

  def __post_init__(self) -> None:
    if not self.clients:
      raise validate.error("clients", "hold at least one client", self.client_ids)
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
    self._check_clients(self.clients)
    if self.new_clients:
      self._check_clients(self.new_clients)
    self._check_examples(self.global_test, "global_test", "the task")

  def _check_ids(self) -> None:
    seen = set()
    for client_id in (*self.client_ids, *self.new_client_ids):
      if not isinstance(client_id, str) or not client_id:
        raise validate.error("client_id", "be a non-empty string", client_id)
      if client_id in seen:
        raise validate.error("client_id", "be a client's own, but two have it", client_id)
      seen.add(client_id)

  def _check_clients(self, clients: PooledClients) -> None:
    if (clients.groups is None) != (self.clients.groups is None):
      known = "the new clients' alone" if self.clients.groups is None else "the others' alone"
      raise validate.error("group", "be known for all clients or for none", known)
    for part in _PARTS:
      found = getattr(clients, part)
      if found is None:
        continue
      if part != "validation" and not found.counts.all():
        name = clients.ids[int(np.argmin(found.counts))]
        raise validate.error(part, f"hold at least one example for client {name!r}", 0)
      self._check_examples(found.pool, part, "the clients")

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
    largest = int(examples.labels.max())
    if largest >= self.num_classes:
      raise validate.error(
          name, f"hold labels < num_classes={self.num_classes} for {owner}", largest
      )

  @property
  def client_ids(self) -> tuple[str, ...]:
    """The ids of the clients that train, in their order."""
    return self.clients.ids

  @property
  def new_client_ids(self) -> tuple[str, ...]:
    """The ids of the clients that come after the training, in their order."""
    return self.new_clients.ids

  @property
  def all_clients(self) -> Iterator[ClientData]:
    """The clients that train, and then the new ones, each made when it is its turn."""
    return itertools.chain(self.clients, self.new_clients)

  @property
  def true_groups(self) -> np.ndarray | None:
    """The numbers of the true groups of the clients that train, int64; None if unknown."""
    return self.clients.groups

  def counts(self, part: str) -> np.ndarray:
    """Returns how many `train`, `test` or `validation` examples each client has that trains."""
    return self.clients.part(part).counts

  def pooled(self, part: str) -> pooled_examples.PooledExamples:
    """Returns the examples of a part of all clients, new ones at the end."""
    found = self.clients.part(part)
    return found.followed_by(self.new_clients.part(part)) if self.new_clients else found

  @property
  def num_parameters(self) -> int:
    """The number of the model's parameters."""
    return self.model.num_parameters

  @property
  def num_examples(self) -> dict[str, int]:
    """The numbers of examples of all clients that train together, and of the global test set."""
    return {
        "train": int(self.counts("train").sum()),
        "validation": int(self.counts("validation").sum()),
        "client_test": int(self.counts("test").sum()),
        "global_test": len(self.global_test),
    }

  def fingerprint(self) -> str:
    """Returns a SHA-256 (hex) of all data, ids and groups.

    A resumed run compares it to know that it has the data it began with.  It
    holds no path and no name: the same data from another folder is the same.
    """
    digest = hashlib.sha256(f"{self.num_classes}".encode())
    for clients in (self.clients, self.new_clients):
      clients.update_digest(digest)
    examples_lib.update_digest(digest, self.global_test.features, self.global_test.labels)
    return digest.hexdigest()
