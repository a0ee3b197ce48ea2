"""What a round of training is, and who takes part in it.

The draw follows from the run's seed, which is in the run's files.  So whoever reads those
knows who took part in which round.
"""

import dataclasses

import numpy as np

from clustering_basics import randomness


@dataclasses.dataclass(frozen=True)
class Round:
  """One round of training.

  Attributes:
    number: Its number, counted through all phases, from which the clients' random
      numbers follow.
    client_ids: The clients that take part.
    num_epochs: Passes of a client over its data.
  """

  number: int
  client_ids: tuple[str, ...]
  num_epochs: int


def grouping_round(config):
  """Returns the number of the round between the phases.

  It is kept for the local training whose weights are grouped.  Rounds are numbered
  through the phases, so every local training has random numbers of its own.

  Args:
    config: The run's `ThreePhaseConfig`.
  """
  return config.pretrain_rounds + 1


def cluster_numbers(config):
  """Returns the numbers of the rounds of phase 2, as a list.

  Args:
    config: The run's `ThreePhaseConfig`.
  """
  first = grouping_round(config) + 1
  return list(range(first, first + config.cluster_rounds))


def numbers_of(config, from_start):
  """Returns the numbers of a method's rounds, as a list.

  Args:
    config: The run's `ThreePhaseConfig`.
    from_start: Whether the method trains in place of phase 1 too.
  """
  pretraining = range(1, config.pretrain_rounds + 1) if from_start else ()
  return [*pretraining, *cluster_numbers(config)]


def round_of(config, client_ids, number):
  """Returns a `Round` of a run.

  Args:
    config: The run's `ThreePhaseConfig`.
    client_ids: Every client's id.
    number: The round's number, counted through all phases.
  """
  chosen = participants(config.seed, len(client_ids), config.clients_per_round, number)
  return Round(number, tuple(client_ids[i] for i in chosen), config.client_epochs_per_round)


def participants(seed, num_clients, clients_per_round, round_num):
  """Returns the clients of a round as an increasing array of their positions.

  Args:
    seed: The run's seed.
    num_clients: Number of clients.
    clients_per_round: How many take part, drawn without replacement; `None` = all.
    round_num: The round's number, counted through all phases.
  """
  if clients_per_round is None:
    return np.arange(num_clients)
  rng = randomness.generator(seed, "participants", round_num)
  return np.sort(rng.choice(num_clients, clients_per_round, replace=False))


def most_rounds_of_a_client(seed, num_clients, clients_per_round, num_rounds):
  """Returns in how many of the rounds 1 to `num_rounds` the busiest client takes part.

  Args:
    seed: The run's seed.
    num_clients: Number of clients.
    clients_per_round: How many take part in a round; `None` = all.
    num_rounds: Number of rounds.
  """
  if clients_per_round in (None, num_clients):
    return num_rounds
  rounds = np.zeros(num_clients, int)
  for round_num in range(1, num_rounds + 1):
    rounds[participants(seed, num_clients, clients_per_round, round_num)] += 1
  return int(rounds.max())
