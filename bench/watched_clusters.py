"""Whole runs of private clusters in TFF, in which one client is watched.

`Watch` stands between the server and TFF.  It computes every sum without the watched client, and
that client's message alone, and keeps both beside the noise that was drawn and the answer that the
server got.  So an audit sees what the client's messages may cost, whether another client's message
depends on them, and what the answers say of them.  All else, TFF included, is the code of real
runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import Any, Callable, Iterator, Sequence, TYPE_CHECKING

import numpy as np
import tensorflow_federated as tff

from bench import audited_sums
from fl_clustering.engine.tff import client_files
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.private_clusters import fitting
from fl_clustering.private_clusters import plan as plan_lib
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.tasks import own_clients

if TYPE_CHECKING:
  from dp_clustering import ledger as ledger_lib

NUM_CLIENTS = 20
NUM_FEATURES = 4
NUM_CLASSES = 3
NUM_PARAMETERS = (NUM_FEATURES + 1) * NUM_CLASSES  # Of softmax regression.
_NUM_TRAIN = 16
SETTINGS = plan_lib.PrivateClusters(
    2, epsilon=8.0, delta=1e-5, rounds=4, local_steps=2, learning_rate=0.5
)


@dataclasses.dataclass(frozen=True, eq=False)
class Answer:
  """One release; all arrays have the same shape, and are in steps.

  Attributes:
    release: As the ledger has it.
    others: The sum of the others' messages, int64.
    own: The watched client's message, int64.
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


class _TakenApart(tff.framework.SyncContext):
  """A TFF context that computes sums without the last client, and of the last client alone."""

  def __init__(self, context: Any, watch: Watch) -> None:
    self._context = context
    self._watch = watch

  def invoke(self, comp: Any, arg: Any) -> Any:
    if self._watch.parts is None:
      found = self._context.invoke(comp, arg)
      self._watch.unasked.append((comp, found))
      return found
    public, clients = arg
    shares = [client["share"] for client in clients[self._watch.num_without_share :]]
    clients = [{**client, "share": np.zeros_like(client["share"])} for client in clients]
    others, own = (
        np.asarray(self._context.invoke(comp, tff.structure.Struct.unnamed(public, some)))
        for some in (clients[:-1], clients[-1:])
    )
    self._watch.parts.append((comp, len(clients), others, own))
    return others + own * self._watch.is_present + sum(shares)


class Watch(releases_lib.Releases):
  """The releases of a run in which the last client is watched.

  Attributes:
    is_present: Whether the watched client's messages are in the sums, rather than zeros.
    num_without_share: How many clients leave out their share of the noise.
    answers: The `Answer`s so far.
    computations: The TFF computations that were asked in them.
    unasked: Other TFF computations that the server had the clients do, with what it got.
    parts: During a release, its computations, with their numbers of clients, the sums over the
      others, and the own messages.
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
    self._trust = settings.trust
    self.answers: list[Answer] = []
    self.computations: list[Any] = []
    self.unasked: list[tuple[Any, Any]] = []
    self.parts: list[tuple[Any, int, np.ndarray, np.ndarray]] | None = None
    self._replayed = replayed
    self._drawn: list[np.ndarray] = []

  def discrete_gaussian(self, shape: int | tuple[int, ...], scale: float) -> np.ndarray:
    self._drawn.append(np.full(shape, scale))
    return super().discrete_gaussian(shape, scale)

  def answer(self, question: Callable[[], np.ndarray]) -> np.ndarray | None:
    self._drawn, self.parts = [], []
    noisy = super().answer(question)
    ((computation, num_clients, others, own),), self.parts = self.parts, None
    assert noisy is not None  # These runs are not interrupted.
    if self._replayed:
      noisy = self._replayed[len(self.answers)].noisy
    stds = self._stds(num_clients)
    # Totals have room for more rows.
    self.answers.append(
        Answer(self.ledger.releases[-1], others[: len(stds)], own[: len(stds)], stds, noisy)
    )
    self.computations.append(computation)
    return noisy

  def _stds(self, num_clients: int) -> np.ndarray:
    """Returns the standard deviations of the last answer's noise."""
    num_shares = num_clients if self._trust == privacy_lib.NONE else 1
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

  @contextlib.contextmanager
  def watching(self) -> Iterator[None]:
    """Watches all that TFF computes."""
    stack = tff.framework.get_context_stack()
    with stack.install(_TakenApart(stack.current, self)):
      yield


def build_run(
    folder: str, settings: plan_lib.PrivateClusters = SETTINGS, num_clients: int = NUM_CLIENTS
) -> fitting.Run:
  """Returns a run on a few clients of two kinds, which name their classes differently.

  Args:
    folder: An existing folder for the clients' files.
  """
  rng = np.random.default_rng(3)
  clients: dict[Any, Any] = {}
  for index in range(num_clients):
    features = rng.normal(size=(_NUM_TRAIN + 4, NUM_FEATURES)).astype(np.float32)
    labels = (features[:, :NUM_CLASSES].argmax(axis=1) + index % 2) % NUM_CLASSES
    clients[f"{index:03d}"] = tuple(
        (features[part], labels[part])
        for part in (slice(None, _NUM_TRAIN), slice(_NUM_TRAIN, None))
    )
  task = own_clients.task_from_arrays(clients, "logistic", num_classes=NUM_CLASSES)
  files = client_files.write_client_files(task, folder)
  books = releases_lib.Releases(settings.epsilon, settings.delta)
  return fitting.Run(settings, task.model, files, folder, 0, books)


def watched(run: fitting.Run, watch: Watch) -> Watch:
  """Plays a run to its end with other releases, and returns them."""
  run = run.with_releases(watch)
  with watch.watching():
    *_, (_, public) = run.states()
    run.report(public)
  return watch
