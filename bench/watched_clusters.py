"""Whole runs of private clusters, in either engine, in which one client is watched.

`Watch` stands between the server and the clients.  It takes every sum apart, into the last client's
message alone and the rest, and keeps both beside the noise that was drawn and the answer that the
server got.  So an audit sees what the client's messages may cost, whether anything else depends on
them, and what the answers say of them.  All else, the engine included, is the code of real runs.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from typing import Any, Callable, Iterable, Mapping, Sequence, TYPE_CHECKING

import numpy as np

from bench import audited_sums
from fl_clustering.engine import bounded_sums
from fl_clustering.engine import engines
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums
from fl_clustering.private_clusters import fitting
from fl_clustering.private_clusters import plan as plan_lib
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import models
from fl_clustering.tasks import pooled_examples

if TYPE_CHECKING:
  from dp_clustering import ledger as ledger_lib

NUM_CLIENTS = 20
NUM_FEATURES = 4
NUM_CLASSES = 3
NUM_PARAMETERS = (NUM_FEATURES + 1) * NUM_CLASSES  # Of softmax regression.
_NUM_TRAIN = 16
_NUM_TEST = 4
SETTINGS = plan_lib.PrivateClusters(2, epsilon=8.0, delta=1e-5, rounds=4, local_steps=2)

# Examples for training and testing, float32 of shape (n, NUM_FEATURES + 1) with labels last.
Data = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class Answer:
  """One release; all arrays have the same shape, and are in steps.

  Attributes:
    release: As the ledger has it.
    others: The sum without the watched client's message, int64.
    own: That message, int64; zeros where the client isn't asked.
    stds: Standard deviations of the noise that was drawn.
    noisy: What the server got, int64.
  """

  release: ledger_lib.Release
  others: np.ndarray
  own: np.ndarray
  stds: np.ndarray
  noisy: np.ndarray

  @property
  def cost(self) -> float:
    """What the client's message really costs: its norm in standard deviations of the noise."""
    return float(np.linalg.norm(self.own / self.stds))


@dataclasses.dataclass(frozen=True, eq=False)
class _WatchedPoints(secure_sums.ClientPoints):
  """Clients whose totals are taken apart, and of which nothing else can be had."""

  points: secure_sums.ClientPoints
  watch: Watch

  def total(
      self, question: secure_sums.Question, sent: Mapping[str, Any],
      shares: Iterable[np.ndarray] | None = None,
  ) -> np.ndarray:
    everyone = self.points.scaled(self.scaling)
    by_id = everyone.by_id
    last = by_id[-1:] if isinstance(by_id, np.ndarray) else dict([list(by_id.items())[-1]])
    own = dataclasses.replace(everyone, by_id=last)
    return self.watch.total(
        self.num_clients, everyone.total(question, sent), own.total(question, sent), shares
    )


class _WatchedSums(bounded_sums.BoundedSums):
  """Clients whose totals are taken apart, and of which nothing else can be had."""

  def __init__(self, sums: bounded_sums.BoundedSums, watch: Watch) -> None:
    super().__init__(
        sums.model, sums.num_clusters, sums.local_steps, sums.learning_rate, sums.num_clients
    )
    self._sums = sums
    self._watch = watch

  def total(
      self, question: bounded_sums.Question, public: bounded_sums.Public | None,
      clients: np.ndarray, shares: Iterable[np.ndarray] | None = None,
  ) -> np.ndarray:
    together = self._sums.total(question, public, clients)
    own, last = np.zeros_like(together), clients[clients == self.num_clients - 1]
    if len(last):
      own = self._sums.total(question, public, last)
    return self._watch.total(len(clients), together, own, shares)

  def centered_sketches(self, mean: np.ndarray) -> secure_sums.ClientPoints:
    points = self._sums.centered_sketches(mean)
    ids = dict.fromkeys(range(points.num_clients))
    return _WatchedPoints(ids, points.scaling, points, self._watch)

  def scores(
      self, vectors: np.ndarray, clients: np.ndarray, finetuning_steps: int
  ) -> bounded_sums.Scores:
    raise PermissionError("A server that protects clients can't know their exact scores.")


class Watch(releases_lib.Releases):
  """The releases of a run in which the last client is watched.

  Attributes:
    is_present: Whether the watched client's messages are in the sums, rather than zeros.
    num_without_share: How many clients leave out their share of the noise.
    answers: The `Answer`s so far.
    num_unasked: How many sums the server got outside of a release.
  """

  def __init__(
      self, settings: plan_lib.PrivateClusters, seed: int | None = None, is_present: bool = True,
      replayed: Sequence[Answer] = (), num_without_share: int = 0,
  ) -> None:
    """Opens the books of a run without a journal.

    Args:
      seed: Of the noise; None for secure noise.
      replayed: The answers of another run, which the server gets instead of this run's.
    """
    super().__init__(settings.epsilon, settings.delta, seed)
    self.is_present = is_present
    self.num_without_share = num_without_share
    self._settings = settings
    self.answers: list[Answer] = []
    self.num_unasked = 0
    self._replayed = replayed
    self._drawn: list[np.ndarray] = []
    # During a release: numbers of clients, the sums over the others, and the own messages.
    self._parts: list[tuple[int, np.ndarray, np.ndarray]] | None = None

  def discrete_gaussian(self, shape: int | tuple[int, ...], scale: float) -> np.ndarray:
    self._drawn.append(np.full(shape, scale))
    return super().discrete_gaussian(shape, scale)

  def total(
      self, num_clients: int, together: np.ndarray, own: np.ndarray,
      shares: Iterable[np.ndarray] | None,
  ) -> np.ndarray:
    """Returns what a sum is to the server, and keeps its parts.

    Args:
      num_clients: How many are asked.
      together: Their sum.
      own: The watched client's message.
      shares: As of `bounded_sums.BoundedSums.total`.
    """
    if self._parts is None:
      self.num_unasked += 1
    else:
      # The sum is that of all, so that a client that changes how others compute is seen.
      self._parts.append((num_clients, together - own, own))
    added = list(shares or ())[self.num_without_share :]
    return sum(added, together - own * int(not self.is_present))

  def answer(self, question: Callable[[], np.ndarray]) -> np.ndarray | None:
    self._drawn, self._parts = [], []
    noisy = super().answer(question)
    ((num_clients, others, own),), self._parts = self._parts, None
    assert noisy is not None  # These runs are not interrupted.
    if self._replayed:
      noisy = self._replayed[len(self.answers)].noisy
    stds = self._stds(num_clients)
    # Totals have room for more rows.
    self.answers.append(
        Answer(self.ledger.releases[-1], others[: len(stds)], own[: len(stds)], stds, noisy)
    )
    return noisy

  def _stds(self, num_clients: int) -> np.ndarray:
    """Returns the standard deviations of the last answer's noise."""
    num_shares = num_clients if self._settings.trust == privacy_lib.NONE else 1
    # Drawn for a part of the columns at a time, by the server or by one client after another.
    parts = self._drawn[: len(self._drawn) // num_shares]
    return np.concatenate(parts, axis=-1) * math.sqrt(num_shares - self.num_without_share)

  @property
  def evidence(self) -> audited_sums.Evidence:
    """What the answers say of whether the client was there."""
    evidence = audited_sums.Evidence()
    for one in self.answers:
      evidence.add(one.noisy, (one.others, one.others + one.own), one.stds)
    return evidence

  def play(self, sums: bounded_sums.BoundedSums) -> Watch:
    """Plays a run with these clients to its end, and returns itself."""
    run = fitting.Run(self._settings, _WatchedSums(sums, self), 0, self)
    *_, (_, public) = run.states()
    run.report(public)
    return self


class _Unchecked(examples_lib.Examples):
  """Examples whose numbers need not be finite, as in a client's own files."""

  def __post_init__(self) -> None:
    pass

  def take(self, indices: Any) -> _Unchecked:
    return _Unchecked(self.features[indices], self.labels[indices])


def _pooled(rows: Sequence[np.ndarray]) -> pooled_examples.PooledExamples:
  """Returns clients' examples, filled up: JAX compiles once for every size of a pool."""
  size = NUM_CLIENTS * (_NUM_TRAIN + _NUM_TEST)
  pool = np.resize(np.concatenate(rows), (size, NUM_FEATURES + 1))
  return pooled_examples.PooledExamples(
      _Unchecked(pool[:, :-1], pool[:, -1].astype(np.uint8)), np.arange(size, dtype=np.int32),
      np.array(list(map(len, rows))),
  )


def clients_of(last: Data | None) -> federated_task.PooledClients:
  """Returns a few clients of two kinds, which name their classes differently.

  Args:
    last: What the last one holds, of any finite or other numbers; by default as the others.
  """
  rng = np.random.default_rng(3)
  clients = []
  for index in range(NUM_CLIENTS):
    features = rng.normal(size=(_NUM_TRAIN + _NUM_TEST, NUM_FEATURES)).astype(np.float32)
    labels = (features[:, :NUM_CLASSES].argmax(axis=1) + index % 2) % NUM_CLASSES
    rows = np.concatenate([features, labels[:, np.newaxis].astype(np.float32)], axis=1)
    clients.append((rows[:_NUM_TRAIN], rows[_NUM_TRAIN:]))
  if last is not None:
    clients[-1] = last
  train, test = zip(*clients)
  ids = tuple(f"{index:03d}" for index in range(NUM_CLIENTS))
  return federated_task.PooledClients(ids, _pooled(train), _pooled(test))


def sums_type(engine: str) -> Any:
  """Returns an engine's class of `bounded_sums.BoundedSums`."""
  return importlib.import_module(f"fl_clustering.engine.{engine}.bounded_sums").BoundedSums


def build_sums(
    engine: str, folder: str, settings: plan_lib.PrivateClusters = SETTINGS,
    last: Data | None = None,
) -> bounded_sums.BoundedSums:
  """Returns the messages of `clients_of(last)`.

  Args:
    engine: Of `engines.ENGINES`; TFF's context must be set for TFF.
    folder: An existing folder for the files of TFF's clients, which are overwritten.
    last: As for `clients_of`.
  """
  clients = clients_of(last)
  held: tuple[Any, ...] = clients.train, clients.test
  if engine == engines.TFF:
    from fl_clustering.engine.tff import client_files

    held = client_files.write_examples(clients, folder), folder
  # The same model each time, for which engines keep what they compile.
  model = models.build("logistic", (NUM_FEATURES,), NUM_CLASSES, "float32")
  return sums_type(engine)(
      model, settings.num_clusters, settings.local_steps, settings.learning_rate, *held
  )
