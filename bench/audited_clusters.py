"""Whole runs of private clusters in TFF, in which one client is watched.

`Watch` takes apart what the clients send.  It computes every sum without the watched client, and
that client's message alone, and keeps both beside the noise that was drawn and the answer that the
server got.  So an audit sees what the client's messages could cost and what the answers say of
them.  All else, TFF included, is the code of real runs.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable, Sequence

import numpy as np
from scipy import special
import tensorflow_federated as tff

from bench import audited_sums
from fl_clustering.engine import client_files
from fl_clustering.private_clusters import fitting
from fl_clustering.private_clusters import plan as plan_lib
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.tasks import own_clients

_NUM_FEATURES = 4
_NUM_CLASSES = 2


@dataclasses.dataclass(frozen=True, eq=False)
class Answer:
  """One release; all arrays have the same shape, and are in steps.

  Attributes:
    name: Of the release.
    others: The sum of the others' messages, int64.
    own: The watched client's message, int64.
    stds: Standard deviations of the noise that was drawn.
    noisy: What the server got, int64.
  """

  name: str
  others: np.ndarray
  own: np.ndarray
  stds: np.ndarray
  noisy: np.ndarray

  @property
  def cost(self) -> float:
    """What the client's message really costs: its norm in standard deviations of the noise."""
    return float(np.linalg.norm(self.own / self.stds))


class _TakenApart(tff.framework.SyncContext):
  """A TFF context that computes a sum without the last client, and of the last client alone.

  Attributes:
    parts: The pairs of these sums so far, without the clients' shares of the noise.
  """

  def __init__(self, context: Any, is_present: bool) -> None:
    self._context = context
    self._is_present = is_present
    self.parts: list[tuple[np.ndarray, np.ndarray]] = []

  def invoke(self, comp: Any, arg: Any) -> np.ndarray:
    public, clients = arg
    shares = [client["share"] for client in clients]
    clients = [{**client, "share": np.zeros_like(client["share"])} for client in clients]
    others, own = (
        np.asarray(self._context.invoke(comp, tff.structure.Struct.unnamed(public, some)))
        for some in (clients[:-1], clients[-1:])
    )
    self.parts.append((others, own))
    return others + own * self._is_present + sum(shares)


class Watch(releases_lib.Releases):
  """The releases of a run in which the last client is watched.

  Attributes:
    answers: The `Answer`s so far.
  """

  def __init__(
      self, *args: Any, is_present: bool = True, replayed: Sequence[Answer] = (), **kwargs: Any
  ) -> None:
    """Takes the arguments of `Releases`, and more.

    Args:
      is_present: Whether the watched client's messages are in the sums, rather than zeros.
      replayed: The answers of another run, which the server gets instead of this run's.
    """
    super().__init__(*args, **kwargs)
    self._is_present = is_present
    self._replayed = replayed
    self._drawn: list[np.ndarray] = []
    self.answers: list[Answer] = []

  def discrete_gaussian(self, shape: int | tuple[int, ...], scale: float) -> np.ndarray:
    self._drawn.append(np.full(shape, scale))
    return super().discrete_gaussian(shape, scale)

  def answer(self, question: Callable[[], np.ndarray]) -> np.ndarray | None:
    stack = tff.framework.get_context_stack()
    context = _TakenApart(stack.current, self._is_present)
    self._drawn = []
    with stack.install(context):
      noisy = super().answer(question)
    assert noisy is not None  # These runs are not interrupted.
    if self._replayed:
      noisy = self._replayed[len(self.answers)].noisy
    ((others, own),) = context.parts
    # A part of the columns at a time; of a total with room for more rows.
    stds = np.concatenate(self._drawn, axis=-1)
    self.answers.append(
        Answer(self.ledger.releases[-1].name, others[: len(stds)], own[: len(stds)], stds, noisy)
    )
    return noisy

  @property
  def evidence(self) -> audited_sums.Evidence:
    """What the answers say of whether the client was there."""
    evidence = audited_sums.Evidence()
    for one in self.answers:
      evidence.add(one.noisy, (one.others, one.others + one.own), one.stds)
    return evidence

  def residuals(self) -> list[np.ndarray]:
    """Returns the noise of every answer, in its standard deviations, flat."""
    return [residual.ravel() for residual in self.evidence.residuals(self._is_present)]


def build_run(
    folder: str, settings: plan_lib.PrivateClusters, num_clients: int,
    releases: releases_lib.Releases,
) -> fitting.Run:
  """Returns a run on a few clients of two kinds, which name two classes the other way round.

  Args:
    folder: An existing folder for the clients' files.
  """
  rng = np.random.default_rng(3)
  clients = {}
  for index in range(num_clients):
    features = rng.normal(size=(24, _NUM_FEATURES)).astype(np.float32)
    labels = ((features[:, 0] + features[:, 1] > 0) ^ bool(index % 2)).astype(int)
    clients[f"{index:03d}"] = (features[:16], labels[:16]), (features[16:], labels[16:])
  task = own_clients.task_from_arrays(clients, "logistic", num_classes=_NUM_CLASSES)
  files = client_files.write_client_files(task, folder)
  return fitting.Run(settings, task.model, files, folder, 0, releases)


def rewrite_last(
    run: fitting.Run, features: np.ndarray, labels: np.ndarray, num_test: int = 1
) -> None:
  """Writes other examples, of shapes (n, 4) and (n,), to the files of the last client.

  Args:
    num_test: So many of them are for testing.
  """
  rows = np.concatenate([features, labels[:, np.newaxis]], axis=1).astype(np.float32)
  rows[num_test:].tofile(run.clients[-1]["train"])
  rows[:num_test].tofile(run.clients[-1]["test"])


def make_canary(run: fitting.Run) -> None:
  """Makes the last client as visible as a client can be.

  Its updates are longer than any clip norm, and its accuracy on its only test example is 0 or 1.
  """
  rng = np.random.default_rng(7)
  features = rng.normal(size=(17, _NUM_FEATURES)) * 1e3
  rewrite_last(run, features, rng.integers(_NUM_CLASSES, size=17))


def watched(run: fitting.Run, watch: Watch) -> Watch:
  """Plays a run to its end with other releases, and returns them."""
  run = run.again(watch)
  *_, (_, public) = run.states()
  run.report(public)
  return watch


@dataclasses.dataclass(frozen=True)
class Bounds:
  """An estimate of mu with the bounds of a confidence interval."""

  mu: float
  lower: float
  upper: float


def mu_bounds(absent: np.ndarray, present: np.ndarray, error_rate: float) -> Bounds:
  """Returns mu from as many log-likelihood ratios of runs without the client as with it.

  For a mechanism of mu that is Gaussian, they have the standard deviation mu, and means that are
  mu^2 apart.  The standardised difference of the means then follows a noncentral t distribution.

  Args:
    error_rate: Probability that mu is outside of the bounds, one half on either side.
  """
  num_runs = len(present)
  std = math.sqrt((np.var(present, ddof=1) + np.var(absent, ddof=1)) / 2)
  found = float(np.mean(present) - np.mean(absent)) / std
  scale = math.sqrt(num_runs / 2)
  lower, upper = (
      float(special.nctdtrinc(2 * num_runs - 2, probability, found * scale)) / scale
      for probability in (1 - error_rate / 2, error_rate / 2)
  )
  return Bounds(found, lower, upper)
