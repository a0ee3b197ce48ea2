"""Cross-validation: every client's examples in folds, of which one is for testing.

Each client's examples are dealt out by themselves, so every client is in every fold, and each
of its examples is for testing in one of them.
"""

import dataclasses

import numpy as np

from clustering_basics import randomness
from clustering_basics import validate


@dataclasses.dataclass(frozen=True)
class Fold:
  """Which of the folds is for testing.

  Attributes:
    index: Its number, from 0.
    num_folds: How many there are, at least two.
  """

  index: int
  num_folds: int

  def __post_init__(self):
    validate.integer(2, num_folds=self.num_folds)
    validate.integer(0, self.num_folds - 1, index=self.index)


def test_positions(num_examples, fold, seed, client_id):
  """Returns which of a client's examples are for testing in a fold.

  A client with fewer examples than there are folds tests one in each fold, and so some of
  them in several.

  Args:
    num_examples: How many examples the client has, at least two.
    fold: The `Fold`.
    seed: Decides with the id how the examples are dealt out; the same for all folds.
    client_id: The client's id.

  Returns:
    Positions of its examples, at least one and not all, as an integer array.
  """
  validate.integer(2, num_examples=num_examples)
  order = randomness.generator(seed, "folds", client_id=client_id).permutation(num_examples)
  if fold.index < num_examples:
    return order[fold.index :: fold.num_folds]
  return order[[fold.index % num_examples]]
