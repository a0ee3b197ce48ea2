"""A run, from the clients' files to released models.

1. Group.  Every client sketches what a public probe learns of its data, and private k-means of
   the sketches finds K centers (`grouping.py`).  A client's slot is its nearest center.
2. A noisy histogram of the norms of the first updates, of the first round's clients, gives the
   first clip norm.
3. Rounds.  All models go to every client that takes part.  It trains one of them, at first that of
   its slot and then that of least loss on its own data, and sends its clipped update in that
   model's slot.
4. One report: the clusters' numbers of clients, and their mean accuracy on the clients' test data.

The server sees sums of bounded integers alone, and all that is released of them is noisy
(`slot_sums.py`).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Iterator, TYPE_CHECKING

import numpy as np

from clustering_basics import randomness
from fl_clustering.engine import bounded_sums
from fl_clustering.engine import participation
from fl_clustering.engine import sketch
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.private_clusters import grouping
from fl_clustering.private_clusters import plan as plan_lib
from fl_clustering.private_clusters import slot_sums
from fl_clustering.private_clusters import training

if TYPE_CHECKING:
  from fl_clustering.private_clusters import releases as releases_lib


@dataclasses.dataclass(frozen=True, eq=False)
class Report:
  """What the report at the end releases: of every cluster, and last of all clients together.

  It is about the clients with data for training and for testing; others send zeros.

  Attributes:
    counts: Their noisy numbers, of shape (K + 1,); NaN if the report was lost.
    count_stds: The standard deviations of the noise on these, likewise.
    accuracies: Their noisy mean accuracies on their test data, likewise; NaN where the noisy count
      is not above a half.
    accuracy_stds: The standard deviations of the noise on these, by the delta method, likewise.
  """

  counts: np.ndarray
  count_stds: np.ndarray
  accuracies: np.ndarray
  accuracy_stds: np.ndarray

  @classmethod
  def of_sums(cls, sums: np.ndarray, std: float) -> Report:
    """Returns what noisy sums tell.

    Args:
      sums: Over the clients of every cluster of accuracy - 1/2, and of 1/2, of shape (K, 2).
      std: The standard deviation of the noise on each of them.
    """
    stds = std * np.append(np.ones(len(sums)), math.sqrt(len(sums)))
    of_accuracy, of_half = np.vstack([sums, sums.sum(axis=0)]).T
    counts = np.where(2 * of_half > 0.5, 2 * of_half, np.nan)
    ratios = of_accuracy / counts
    return cls(
        2 * of_half, 2 * stds, np.clip(ratios + 0.5, 0, 1),
        # The noise of the count is twice that of the sum, and independent.
        stds * np.hypot(1, 2 * ratios) / counts,
    )


class Run:
  """The server of one run."""

  def __init__(
      self, settings: plan_lib.PrivateClusters, sums: bounded_sums.BoundedSums, seed: int,
      releases: releases_lib.Releases,
  ) -> None:
    """Makes a run.

    Args:
      sums: The clients, which compute as the settings say.
      seed: Of public random numbers: the first model, directions, starts of k-means, and who
        takes part in which round.
      releases: With the budget of `settings`.

    Raises:
      ValueError: If there are fewer clients than `num_clusters`, `clients_per_round` or
        `min_clients`, or the rounds are no whole passes over them.
    """
    settings.check_clients(sums.num_clients)
    self._settings = settings
    self._sums = sums
    self._budget = settings.budget(sums.num_clients)
    self._seed = seed
    self._releases = releases
    self._door = slot_sums.Door(sums, releases, settings)

  def _clients(self, number: int) -> np.ndarray:
    """Returns who takes part in a round, counted from 0."""
    return participation.round_robin(
        self._seed, self._sums.num_clients, self._settings.clients_per_round, number
    )

  def _public(self, state: training.State, centers: np.ndarray) -> bounded_sums.Public:
    """Returns what clients are told in the round after a state, and in the report."""
    is_locked = state.round_num < min(training.LOCKED_ROUNDS, self._settings.rounds)
    return bounded_sums.Public(state.vectors, is_locked, centers, state.clip_norm)

  def _first_model(self) -> np.ndarray:
    """Returns the model that all start from, of shape (P,)."""
    model = self._sums.model
    if len(model.layers) == 1:
      # One layer: its loss is convex, and what is random in a start would only be noise.
      return np.zeros(model.num_parameters, np.float32)
    parameters = model.initial_parameters(randomness.generator(self._seed, "initial_parameters"))
    return np.concatenate([parameter.ravel() for parameter in parameters])

  def _first_clip_norm(self, public: bounded_sums.Public) -> float:
    counts = self._door.ask(
        "histogram of norms", bounded_sums.NORM, public, self._clients(0), self._budget.norms
    )
    if counts is None:
      return public.clip_norm
    if self._settings.is_private:
      return training.first_clip_norm(counts, self._settings.target_unclipped_quantile)
    return training.unclipping_norm(counts)

  def _round(self, state: training.State, public: bounded_sums.Public) -> training.State:
    """Returns the state after one more round."""
    settings, number = self._settings, state.round_num
    clients = self._clients(number)
    pass_rounds = participation.pass_rounds(self._sums.num_clients, settings.clients_per_round)
    found = self._door.ask(
        f"round {number + 1}", bounded_sums.ROUND, public, clients, self._budget.round_,
        parallel=f"pass {number // pass_rounds + 1}" if pass_rounds > 1 else "",
    )
    if found is None:
      return state.skipped()
    slots = found[:-1].reshape(settings.num_clusters, -1)
    count_std = bounded_sums.ROUND.sensitivity / self._budget.round_ / bounded_sums.COUNT_WEIGHT
    sums = training.RoundSums(
        slots[:, :-1], slots[:, -1] / bounded_sums.COUNT_WEIGHT,
        float(found[-1]) / bounded_sums.BIT_WEIGHT,
        count_std * privacy_lib.noise_factor(settings, len(clients)),
    )
    rng = randomness.generator(self._seed, "private clusters, revival", number)
    return state.next(
        sums, len(clients), settings.rounds, settings.target_unclipped_quantile, rng
    )

  def _start(self) -> tuple[training.State, np.ndarray]:
    """Groups the clients, and asks for the first clip norm.

    Returns:
      The state before the first round, and the released centers of sketches, of shape (K, d).
    """
    num_clusters = self._settings.num_clusters
    state = training.State.first(
        self._first_model(), num_clusters, len(self._clients(0)), clip_norm=1.0
    )
    centers = np.zeros((num_clusters, sketch.SIZE))
    if num_clusters > 1:
      centers = grouping.private_centers(
          self._settings, self._sums, self._door, self._releases, self._seed
      )
    clip_norm = self._first_clip_norm(self._public(state, centers))
    state = dataclasses.replace(
        state, clip_norm=clip_norm, is_exact=not self._settings.is_private
    )
    return state, centers

  def states(self) -> Iterator[tuple[training.State, bounded_sums.Public]]:
    """Yields the state before every round and after the last, and what clients are told of it."""
    state, centers = self._start()
    public = self._public(state, centers)
    yield state, public
    for _ in range(self._settings.rounds):
      state = self._round(state, public)
      public = self._public(state, centers)
      yield state, public

  def report(self, public: bounded_sums.Public) -> Report:
    """Asks all clients for the report and closes the ledger."""
    num_clients, question = self._sums.num_clients, bounded_sums.REPORT
    found = self._door.ask(
        "report", question, public, np.arange(num_clients), self._budget.report
    )
    self._releases.ledger.freeze()
    if found is None:
      found = np.full(self._sums.size(question), np.nan)
    std = question.sensitivity / self._budget.report
    std *= privacy_lib.noise_factor(self._settings, num_clients)
    return Report.of_sums(found.reshape(-1, 2), std)
