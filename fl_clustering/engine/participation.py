"""What a round of training is, and who takes part in it.

Rounds are numbered through all phases, from 1.  The draw follows from the run's seed, which is in
the run's files.  So whoever reads those knows who took part in which round.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol, Sequence

import numpy as np

from clustering_basics import randomness


class Schedule(Protocol):
  """What a run's settings say of its rounds."""

  @property
  def seed(self) -> int: ...

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


@dataclasses.dataclass(frozen=True)
class Round:
  """One round of training.

  Attributes:
    number: Its number, from which the clients' random numbers follow.
    client_ids: The clients that take part.
    num_epochs: Passes of a client over its data.
  """

  number: int
  client_ids: tuple[str, ...]
  num_epochs: int


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


def round_of(config: Schedule, client_ids: Sequence[str], number: int) -> Round:
  """Returns a round of a run, given all clients' ids and the round's number."""
  chosen = participants(config.seed, len(client_ids), config.clients_per_round, number)
  return Round(number, tuple(client_ids[i] for i in chosen), config.client_epochs_per_round)


def participants(
    seed: int, num_clients: int, clients_per_round: int | None, round_num: int
) -> np.ndarray:
  """Returns the clients of a round as an increasing array of their positions.

  They are drawn without replacement; `clients_per_round` is None for all.
  """
  if clients_per_round is None:
    return np.arange(num_clients)
  rng = randomness.generator(seed, "participants", round_num)
  return np.sort(rng.choice(num_clients, clients_per_round, replace=False))


def most_rounds_of_a_client(
    seed: int, num_clients: int, clients_per_round: int | None, num_rounds: int
) -> int:
  """Returns in how many of the rounds 1 to `num_rounds` the busiest client takes part."""
  if clients_per_round in (None, num_clients):
    return num_rounds
  rounds = np.zeros(num_clients, int)
  for round_num in range(1, num_rounds + 1):
    rounds[participants(seed, num_clients, clients_per_round, round_num)] += 1
  return int(rounds.max())
