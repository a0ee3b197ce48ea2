"""Gives more examples to clients that a random split leaves with too few."""

import numpy as np


def top_up(shares, labels, minimum, rng):
  """Returns the shares with at least `minimum` examples each.

  A client gets examples of one label, as far as there are enough, so that a skewed
  split stays skewed: a label that the client holds already, else one drawn in
  proportion to the examples to spare.  They come from the client that has the most of
  the label and more than `minimum` examples, because its own mix changes least.

  Args:
    shares: A sequence of index arrays, together `minimum` for each or more.
    labels: Array of shape (num_examples,) of small non-negative integers, which
      the indices are of.
    minimum: The fewest examples a client must have.
    rng: A `np.random.Generator`.

  Returns:
    A list of index arrays; those that were large enough, and gave nothing, are
    as they were.
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


def _label_to_give(own, spare, rng):
  """Returns a label of which there are examples to spare."""
  of_own_labels = np.where(own > 0, spare, 0)
  weights = of_own_labels if of_own_labels.any() else spare
  return rng.choice(len(weights), p=weights / weights.sum())
