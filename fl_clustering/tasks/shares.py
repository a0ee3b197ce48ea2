"""Shares out examples: which of them each client gets, a list of index arrays.

The examples are known by their labels, small non-negative integers of shape (num_examples,).

References:
  Brendan McMahan, Eider Moore, Daniel Ramage, Seth Hampson, Blaise Aguera y
  Arcas. Communication-Efficient Learning of Deep Networks from Decentralized
  Data. AISTATS 2017, section 3 (shards). https://arxiv.org/abs/1602.05629
  Mikhail Yurochkin, Mayank Agarwal, Soumya Ghosh, Kristjan Greenewald, Trong
  Nghia Hoang, Yasaman Khazaeni. Bayesian Nonparametric Federated Learning of
  Neural Networks. ICML 2019 (Dirichlet over the clients, class by class).
  https://arxiv.org/abs/1905.12022
  Tzu-Ming Harry Hsu, Hang Qi, Matthew Brown. Measuring the Effects of
  Non-Identical Data Distribution for Federated Visual Classification. 2019.
  https://arxiv.org/abs/1909.06335
"""

from typing import Sequence

import numpy as np

# One to train on, one to test on.
MIN_EXAMPLES_PER_CLIENT = 2


def iid_shares(
    labels: np.ndarray, num_clients: int, rng: np.random.Generator
) -> list[np.ndarray]:
  """Returns equal shares at random, whose lengths differ by at most one."""
  return np.array_split(rng.permutation(len(labels)), num_clients)


def dirichlet_shares(
    labels: np.ndarray, num_clients: int, rng: np.random.Generator, dirichlet_alpha: float
) -> list[np.ndarray]:
  """Returns shares of each class by Dirichlet proportions; they may be empty.

  The smaller the concentration alpha, the fewer clients share a class.
  """
  parts_by_class = []
  for label in np.unique(labels):
    members = rng.permutation(np.flatnonzero(labels == label))
    parts_by_class.append(
        np.split(members, _dirichlet_cuts(len(members), num_clients, rng, dirichlet_alpha))
    )
  return [np.concatenate(parts) for parts in zip(*parts_by_class)]


def _dirichlet_cuts(
    num_examples: int, num_clients: int, rng: np.random.Generator, dirichlet_alpha: float
) -> np.ndarray:
  """Returns the num_clients - 1 places at which to cut `num_examples`."""
  proportions = rng.dirichlet(np.full(num_clients, dirichlet_alpha))
  return (np.cumsum(proportions[:-1]) * num_examples).astype(int)


def shard_shares(
    labels: np.ndarray, num_clients: int, rng: np.random.Generator
) -> list[np.ndarray]:
  """Returns shares of two shards of the examples sorted by label."""
  shuffled = rng.permutation(len(labels))
  by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
  shards = np.array_split(by_label, 2 * num_clients)
  dealt = rng.permutation(2 * num_clients).reshape(num_clients, 2)
  return [np.concatenate([shards[i], shards[j]]) for i, j in dealt]


def quantity_shares(
    labels: np.ndarray, num_clients: int, rng: np.random.Generator, dirichlet_alpha: float
) -> list[np.ndarray]:
  """Returns shares of sizes by Dirichlet proportions, labels IID.

  Every client first gets the two examples that it needs.  Of a hundred clients,
  proportions alone would leave some with nothing.  The smaller the concentration alpha, the more
  unequal the sizes.
  """
  shuffled = rng.permutation(len(labels))
  num_first = MIN_EXAMPLES_PER_CLIENT * num_clients
  first = np.split(shuffled[:num_first], num_clients)
  rest = shuffled[num_first:]
  cuts = _dirichlet_cuts(len(rest), num_clients, rng, dirichlet_alpha)
  return [np.concatenate(parts) for parts in zip(first, np.split(rest, cuts))]


def top_up(
    shares: Sequence[np.ndarray], labels: np.ndarray, minimum: int, rng: np.random.Generator
) -> list[np.ndarray]:
  """Returns the shares with at least `minimum` examples each.

  A client gets examples of one label, as far as there are enough, so that a skewed
  split stays skewed: a label that the client holds already, else one drawn in
  proportion to the examples to spare.  They come from the client that has the most of
  the label and more than `minimum` examples, because its own mix changes least.

  Shares that are large enough, and give nothing, are returned as they are.
  """
  shares = list(shares)
  num_labels = int(labels.max()) + 1
  counts = np.array([np.bincount(labels[share], minlength=num_labels) for share in shares])
  for client in np.flatnonzero(counts.sum(axis=1) < minimum):
    while len(shares[client]) < minimum:
      may_give = counts.sum(axis=1) > minimum
      label = _label_to_give(counts[client], counts[may_give].sum(axis=0), rng)
      giver = np.argmax(np.where(may_give, counts[:, label], -1))
      position = np.flatnonzero(labels[shares[giver]] == label)[-1]
      shares[client] = np.append(shares[client], shares[giver][position])
      shares[giver] = np.delete(shares[giver], position)
      counts[client, label] += 1
      counts[giver, label] -= 1
  return shares


def _label_to_give(own: np.ndarray, spare: np.ndarray, rng: np.random.Generator) -> int:
  """Returns a label of which there are examples to spare."""
  of_own_labels = np.where(own > 0, spare, 0)
  weights = of_own_labels if of_own_labels.any() else spare
  return rng.choice(len(weights), p=weights / weights.sum())
