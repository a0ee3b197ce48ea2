"""What a round of training is, who takes part in it, and what it tells.

A client is its place among all clients of the task, of which those that train come first.

Rounds are numbered through all phases, from 1.  The draw follows from the run's seed, which is in
the run's files.  So whoever reads those knows who took part in which round.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Protocol, Sequence, Union

import numpy as np

from clustering_basics import randomness


class Evaluation(Protocol):
  """What a run's settings say of where models are evaluated."""

  @property
  def seed(self) -> int: ...

  @property
  def evaluated_clients(self) -> int | None: ...


class Schedule(Evaluation, Protocol):
  """What a run's settings say of its rounds."""

  @property
  def pretrain_rounds(self) -> int: ...

  @property
  def cluster_rounds(self) -> int: ...

  @property
  def clients_per_round(self) -> int | None: ...

  @property
  def client_epochs_per_round(self) -> int: ...

  @property
  def grouping_epochs(self) -> int | None: ...


# Per model, the clients that train it: int64 arrays, or one of shape (num_models, n).  A client may
# train several, or none.
Clusters = Union[Sequence[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class Round:
  """One round of training.

  Attributes:
    number: Its number, from which the clients' random numbers follow.
    clients: The clients that take part.
    num_epochs: Passes of a client over its data.
  """

  number: int
  clients: np.ndarray
  num_epochs: int

  def among(self, clients: np.ndarray) -> np.ndarray:
    """Returns those of some clients that take part, in their order."""
    return clients[np.isin(clients, self.clients)]


class ClientLosses(NamedTuple):
  """The mean training losses of clients that took part in a round.

  Attributes:
    clients: The clients, int64 of shape (n,).
    values: Their losses, of shape (n,).
  """

  clients: np.ndarray
  values: np.ndarray


def joined(parts: Sequence[ClientLosses]) -> ClientLosses:
  """Returns the losses of several parts of the clients, which may be none."""
  return ClientLosses(
      np.concatenate([np.zeros(0, np.int64), *(part.clients for part in parts)]),
      np.concatenate([np.zeros(0), *(part.values for part in parts)]),
  )


def grouping_round(config: Schedule) -> int:
  """Returns the number of the round between the phases.

  It is kept for the local training whose weights are grouped, so that every local training has
  random numbers of its own.
  """
  return config.pretrain_rounds + 1


def cluster_numbers(config: Schedule) -> list[int]:
  """Returns the numbers of the rounds of phase 2."""
  first = grouping_round(config) + 1
  return list(range(first, first + config.cluster_rounds))


def numbers_of(config: Schedule, from_start: bool) -> list[int]:
  """Returns the numbers of a method's rounds.

  Args:
    config: The run's settings.
    from_start: Whether the method trains in place of phase 1 too.
  """
  pretraining = range(1, config.pretrain_rounds + 1) if from_start else ()
  return [*pretraining, *cluster_numbers(config)]


def round_of(config: Schedule, num_clients: int, number: int) -> Round:
  """Returns a round of a run, given how many clients train and the round's number."""
  chosen = participants(config.seed, num_clients, config.clients_per_round, number)
  return Round(number, chosen, config.client_epochs_per_round)


def participants(
    seed: int, num_clients: int, clients_per_round: int | None, round_num: int
) -> np.ndarray:
  """Returns the clients of a round as an increasing array.

  They are drawn without replacement; `clients_per_round` is None for all.
  """
  if clients_per_round is None:
    return np.arange(num_clients)
  rng = randomness.generator(seed, "participants", round_num)
  return np.sort(rng.choice(num_clients, clients_per_round, replace=False))


def pass_rounds(num_clients: int, clients_per_round: int | None) -> int:
  """Returns in how many rounds of `round_robin` every client takes part once."""
  return 1 if clients_per_round is None else -(-num_clients // clients_per_round)


def round_robin(
    seed: int, num_clients: int, clients_per_round: int | None, number: int
) -> np.ndarray:
  """Returns the clients of a round, counted from 0, as an increasing array.

  Pass after pass, all clients are shuffled and dealt out to the fewest rounds of at most
  `clients_per_round`, evenly.  So every client takes part in one round of each pass.  The schedule
  follows from public numbers alone.
  """
  length = pass_rounds(num_clients, clients_per_round)
  rng = randomness.generator(seed, "round robin", number // length)
  shuffled = rng.permutation(num_clients) if length > 1 else np.arange(num_clients)
  return np.sort(np.array_split(shuffled, length)[number % length])


def evaluated(config: Evaluation, num_clients: int) -> np.ndarray:
  """Returns the clients on whose data a run evaluates models, as an increasing array."""
  if config.evaluated_clients is None or config.evaluated_clients > num_clients:
    return np.arange(num_clients)
  rng = randomness.generator(config.seed, "evaluated clients")
  return np.sort(rng.choice(num_clients, config.evaluated_clients, replace=False))
