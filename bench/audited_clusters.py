"""What an audit of private clusters looks at, and bugs that it has to find.

1. *Replay.*  Runs in which one client's data are replaced get the answers of another run.  Every
   sum over the other clients must be the same to the bit: given the answers, neither another
   client's message nor who is asked may depend on the client.
2. *Sensitivity.*  Whatever the client holds, its message in standard deviations of the noise has a
   norm of at most the mu that the ledger charges.  So has everything that it sends in a run: the
   client may not take part more often than it pays for.
3. *Canary.*  Many runs with the client and as many without it: how far apart the logarithms of the
   likelihood ratio of all answers are bounds the mu of the whole run.
4. *Noise.*  It is as large as stated, and independent everywhere (`noise_residuals`).

The first two are exact and take a few runs; with them, the answers are those of Gaussian
mechanisms with the noise that is stated, and the others ask whether it is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from typing import Any, Callable, Mapping, TYPE_CHECKING
from unittest import mock

import numpy as np
from scipy import special

from bench import noise_residuals
from bench import watched_clusters
from clustering_basics import randomness
from fl_clustering.engine import bounded_sums
from fl_clustering.engine import participation
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.private_clusters import fitting
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.private_clusters import slot_sums

if TYPE_CHECKING:
  from fl_clustering.private_clusters import plan as plan_lib

# Probability, at most, that an audit accuses a correct run by its noise.
_ERROR_RATE = 1e-4
# Of a release, how many cells are looked at for the noise's correlations.
_MOST_CELLS = 16
_NUM_FEATURES = watched_clusters.NUM_FEATURES
_SPECIAL = (0.0, -0.0, 1.0, -1e-45, 1e-30, 1e30, -3e38, math.inf, -math.inf, math.nan)

# From the watched client's data to clients, as of `watched_clusters.build_sums`.
_Build = Callable[[watched_clusters.Data], bounded_sums.BoundedSums]


def _examples(features: np.ndarray, labels: Any = None, num_test: int = 4) -> watched_clusters.Data:
  """Returns a client's data; without labels, they are random."""
  if labels is None:
    labels = np.random.default_rng(1).integers(watched_clusters.NUM_CLASSES, size=len(features))
  rows = np.empty((len(features), _NUM_FEATURES + 1), np.float32)
  rows[:, :-1], rows[:, -1] = features, labels
  return rows[num_test:], rows[:num_test]


def _normal(scale: float, num_rows: int = 20) -> np.ndarray:
  return np.random.default_rng(2).normal(size=(num_rows, _NUM_FEATURES)) * scale


def canary() -> watched_clusters.Data:
  """Returns the data of a client that is as visible as can be.

  Its updates are longer than any clip norm, and its accuracy on its only test example is 0 or 1.
  """
  return _examples(_normal(1e3), num_test=1)


def mixed(seed: int) -> watched_clusters.Data:
  """Returns any number of examples of numbers that are hard to compute with."""
  rng = np.random.default_rng(seed)
  size = int(rng.integers(20)), _NUM_FEATURES
  some = rng.choice(_SPECIAL, 3)  # Otherwise, nearly every client would have a NaN.
  is_special = rng.random(size) < rng.random() ** 3
  features = np.where(is_special, rng.choice(some, size), rng.normal(size=size))
  labels = rng.integers(1 + rng.integers(watched_clusters.NUM_CLASSES), size=len(features))
  return _examples(features, labels, int(rng.integers(5)))


# What the watched client may hold, by its name in the output.
CLIENTS: dict[str, Callable[[], watched_clusters.Data]] = {
    "canary": canary,
    "ordinary": lambda: _examples(_normal(1.0)),
    "huge": lambda: _examples(np.full((20, _NUM_FEATURES), 3e38)),
    "tiny": lambda: _examples(_normal(1e-42)),
    "NaN": lambda: _examples(np.full((20, _NUM_FEATURES), math.nan), 0),
    "infinite": lambda: _examples(np.full((20, _NUM_FEATURES), math.inf)),
    "one number": lambda: _examples(np.eye(1, _NUM_FEATURES).repeat(20, axis=0) * 1e6),
    "one label": lambda: _examples(_normal(1.0), 1),
    "one example": lambda: _examples(_normal(1.0, 2), num_test=1),
    "no examples": lambda: _examples(_normal(1.0, 0)),
    "no examples for training": lambda: _examples(_normal(1.0, 4)),
    "no examples for testing": lambda: _examples(_normal(1.0), num_test=0),
    **{f"mixed {seed}": functools.partial(mixed, seed) for seed in range(4)},
}


@dataclasses.dataclass(frozen=True)
class Bounds:
  """An estimate of mu, with the bounds of a confidence interval."""

  mu: float
  lower: float
  upper: float


def mu_bounds(absent: np.ndarray, present: np.ndarray, error_rate: float) -> Bounds:
  """Returns mu from the log-likelihood ratios of as many runs without a client as with it.

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


@dataclasses.dataclass(frozen=True)
class Replayed:
  """What runs with the same answers and other data of the watched client show.

  Attributes:
    num_releases: Of a run.
    num_clients: How many kinds of the watched client there were.
    dependent: The releases in which other clients' messages depend on it.
    cost: The largest norm of its message, in standard deviations of the noise that was drawn, over
      the mu in the ledger; or that of all its messages, over the mu of the run.
    costly: Which client and release, or run, that was.
  """

  num_releases: int
  num_clients: int
  dependent: tuple[str, ...]
  cost: float
  costly: str


@dataclasses.dataclass(frozen=True)
class Repeated:
  """What many runs with and without the canary show.

  Attributes:
    num_runs: With it, and as many without it.
    bounds: Of the run's mu.
    suspicion: What speaks most against the noise.
  """

  num_runs: int
  bounds: Bounds
  suspicion: noise_residuals.Suspicion


def _few_cells(residuals: list[np.ndarray]) -> list[np.ndarray]:
  """Returns some cells of every release, the first and the last among them."""
  return [
      cells.ravel()[np.unique(np.linspace(0, cells.size - 1, _MOST_CELLS).astype(int))]
      for cells in residuals
  ]


@dataclasses.dataclass(frozen=True)
class Case:
  """Runs to audit.

  Attributes:
    num_without_share: How many clients leave out their share of the noise.
    seed: Of the noise; None for secure noise.
  """

  settings: plan_lib.PrivateClusters = watched_clusters.SETTINGS
  num_without_share: int = 0
  seed: int | None = None

  @property
  def mu(self) -> float:
    """What a run may cost, by its ledger."""
    return self.settings.budget(watched_clusters.NUM_CLIENTS).total

  def _watched(
      self, sums: bounded_sums.BoundedSums, number: int = 0, **kwargs: Any
  ) -> watched_clusters.Watch:
    seed = None
    if self.seed is not None:
      seed = int(randomness.generator(self.seed, "audit", number).integers(2**32))
    return watched_clusters.Watch(
        self.settings, seed, num_without_share=self.num_without_share, **kwargs
    ).play(sums)

  def replayed(
      self, build: _Build, clients: Mapping[str, Callable[[], watched_clusters.Data]] = CLIENTS
  ) -> Replayed:
    """Replays the answers of a run with the first of some watched clients to all of them."""
    first: watched_clusters.Watch | None = None
    costs, dependent = [], set()
    for name, data in clients.items():
      watch = self._watched(build(data()), replayed=first.answers if first else ())
      first = first or watch
      of_run = math.hypot(*(answer.cost for answer in watch.answers))
      costs.append((of_run / self.mu, f"the whole run, {name}"))
      for before, after in zip(first.answers, watch.answers, strict=True):
        release = after.release
        costs.append((after.cost / release.mu, f"{release.name}, {name}"))
        if not np.array_equal(before.others, after.others):
          dependent.add(release.name)
    assert first
    names = [one.release.name for one in first.answers]
    return Replayed(
        len(names), len(clients), tuple(name for name in names if name in dependent), *max(costs)
    )

  def repeated(
      self, build: _Build, num_runs: int, error_rate: float,
      after_run: Callable[[], Any] = lambda: None,
  ) -> Repeated:
    """Plays so many runs with the canary, and as many without it."""
    sums = build(canary())
    scores, residuals = np.empty((2, num_runs)), []
    for number in range(2 * num_runs):
      is_present = bool(number % 2)
      evidence = self._watched(sums, number, is_present=is_present).evidence
      scores[int(is_present), number // 2] = evidence.log_ratio
      residuals.append(_few_cells(evidence.residuals(is_present)))
      after_run()
    bounds = mu_bounds(scores[0], scores[1], error_rate)
    return Repeated(num_runs, bounds, noise_residuals.most_suspicious(residuals))


def accusations(mu: float, found: Replayed | Repeated) -> list[str]:
  """Returns what there is against the claim that a run costs mu."""
  if isinstance(found, Replayed):
    is_wrong = {"replay": found.dependent, "sensitivity": found.cost > 1}
  else:
    is_wrong = {
        "canary": found.bounds.lower > mu, "noise": found.suspicion.p_value < _ERROR_RATE
    }
  return [name for name, value in is_wrong.items() if value]


def _half_of_the_noise(unused_sums: Any) -> Any:
  draw = releases_lib.Releases.discrete_gaussian
  return mock.patch.object(
      releases_lib.Releases, "discrete_gaussian",
      lambda books, shape, scale: draw(books, shape, scale / 2),
  )


def _reused_noise(unused_sums: Any) -> Any:
  """Draws once for all arrays of the same shape in a run."""
  draw, drawn = releases_lib.Releases.discrete_gaussian, {}

  def reused(books: releases_lib.Releases, shape: Any, scale: float) -> np.ndarray:
    if (books, shape) not in drawn:
      drawn[books, shape] = draw(books, shape, scale) / scale
    return np.rint(drawn[books, shape] * scale).astype(np.int64)

  return mock.patch.object(releases_lib.Releases, "discrete_gaussian", reused)


def _longer_updates(sums_type: Any) -> Any:
  """Clients clip at many times the clip norm, which they divide by."""
  total, times = sums_type.total, 1000

  def longer(sums: Any, question: Any, public: Any, clients: np.ndarray) -> np.ndarray:
    if question is not bounded_sums.ROUND:
      return total(sums, question, public, clients)
    clip_norm = times * public.clip_norm
    found = total(sums, question, public._replace(clip_norm=clip_norm), clients)
    updates = found[:-1].reshape(sums.num_clusters, -1)[:, :-1]
    updates *= times
    return found

  return mock.patch.object(sums_type, "total", longer)


def _percent(sums_type: Any) -> Any:
  total = sums_type.total

  def in_percent(sums: Any, question: Any, public: Any, clients: np.ndarray) -> np.ndarray:
    found = total(sums, question, public, clients)
    if question is bounded_sums.REPORT:
      found[::2] += 99 * (found[::2] + found[1::2])  # Accuracy - 1/2, and 1/2.
    return found

  return mock.patch.object(sums_type, "total", in_percent)


def _exactly(release: str, cells: slice) -> Any:
  """The server takes some cells of a release without their noise."""
  ask = slot_sums.Door.ask

  def ask_exactly(
      door: slot_sums.Door, name: str, question: Any, public: Any, clients: np.ndarray, *args: Any,
      **kwargs: Any,
  ) -> np.ndarray | None:
    found = ask(door, name, question, public, clients, *args, **kwargs)
    if found is not None and name.startswith(release):
      # pylint: disable-next=protected-access
      exact = door._sums.total(question, public, clients)
      found[cells] = exact[cells] / bounded_sums.STEPS
    return found

  return mock.patch.object(slot_sums.Door, "ask", ask_exactly)


def _same_clients(unused_sums: Any) -> Any:
  return mock.patch.object(
      participation, "round_robin",
      lambda seed, num_clients, clients_per_round, number: np.arange(num_clients)[
          -clients_per_round:
      ],
  )


def _schedule_from_data(unused_sums: Any) -> Any:
  """Deals out the rounds by a seed that the clients' sketches decide."""

  def dealt(run: fitting.Run, number: int) -> np.ndarray:
    # pylint: disable=protected-access
    sums = run._sums
    exact = sums.total(bounded_sums.SKETCH, None, np.arange(sums.num_clients))
    seed = int(np.abs(exact).sum())
    return participation.round_robin(
        seed, sums.num_clients, run._settings.clients_per_round, number
    )

  return mock.patch.object(fitting.Run, "_clients", dealt)


# Of the sums of a round.
_COUNTS = slice(watched_clusters.NUM_PARAMETERS, None, watched_clusters.NUM_PARAMETERS + 1)
_HALF = Case(dataclasses.replace(
    watched_clusters.SETTINGS, clients_per_round=watched_clusters.NUM_CLIENTS // 2
))
# All by their names in the output.
CASES: dict[str, Case] = {
    "server's noise": Case(),
    "clients' shares, a quarter left out": Case(
        dataclasses.replace(
            watched_clusters.SETTINGS, trust=privacy_lib.NONE,
            min_clients=watched_clusters.NUM_CLIENTS * 3 // 4,
        ),
        num_without_share=watched_clusters.NUM_CLIENTS // 4,
    ),
    "one cluster": Case(dataclasses.replace(watched_clusters.SETTINGS, num_clusters=1)),
    "rounds over half of the clients": _HALF,
}
# Contexts in which runs of the case `PLANTED` are played, given the engine's class of clients.
PLANTED = _HALF
PLANTED_BUGS: dict[str, Callable[[Any], contextlib.AbstractContextManager]] = {
    "half of the noise": _half_of_the_noise,
    "one draw for equal shapes": _reused_noise,
    "updates are not clipped": _longer_updates,
    "sketches are centered by their exact mean": lambda unused_sums: _exactly(
        "mean of sketches", slice(None)
    ),
    "exact counts are divisors": lambda unused_sums: _exactly("round", _COUNTS),
    "accuracy in percent": _percent,
    "the same clients in every round": _same_clients,
    "a schedule by what clients hold": _schedule_from_data,
}
