"""Who takes part in a round.

The draw follows from the run's seed, which the run's files name: whoever reads them
knows who took part when.
"""

import numpy as np

from clustering_basics import randomness


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
