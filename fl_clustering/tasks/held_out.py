"""What is held out of training: test and validation examples of the clients, and new clients.

Each client's examples are dealt out by themselves: its test examples follow from the seed and its
id.  In cross-validation every client is in every fold, and each of its examples is for testing in
one of them.  Validation examples are some of those for training: whatever a run chooses by how well
models do, they decide, and the test examples only judge.
"""

import dataclasses
import functools
from typing import Container, Iterable, Sequence

import numpy as np

from clustering_basics import options
from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import shares

TEST_SHARE = 0.2
VALIDATION_SHARE = 0.1
# A client with fewer training examples needs them all.
MIN_TRAIN_TO_VALIDATE = 20
# Without more of the clients, the data would no longer be what their name says.
MAX_SMALL_FRACTION = 0.25


@dataclasses.dataclass(frozen=True)
class Fold:
  """Which of the folds, at least two, is for testing, counted from 0."""

  index: int
  num_folds: int

  def __post_init__(self) -> None:
    validate.integer(2, num_folds=self.num_folds)
    validate.integer(0, self.num_folds - 1, index=self.index)

  def test_positions(self, num_examples: int, seed: int, client_id: str) -> np.ndarray:
    """Returns which of a client's examples are for testing, at least one and not all.

    A client with fewer examples than there are folds tests one in each fold, and so some of
    them in several.  The seed decides with the id how the examples, at least two, are dealt out,
    in the same way for all folds.
    """
    order = randomness.generator(seed, "folds", client_id=client_id).permutation(num_examples)
    if self.index < num_examples:
      return order[self.index :: self.num_folds]
    return order[[self.index % num_examples]]


def _num_test(num_examples: int, test_share: float) -> int:
  return min(max(1, round(test_share * num_examples)), num_examples - 1)


def _mask(length: int, positions: np.ndarray) -> np.ndarray:
  mask = np.zeros(length, bool)
  mask[positions] = True
  return mask


def _masks(masks: Iterable[np.ndarray]) -> np.ndarray:
  return np.concatenate([np.zeros(0, bool), *masks])


def deal_out(
    client_id: str, num_examples: int, seed: int, test_share: float = TEST_SHARE
) -> tuple[np.ndarray, np.ndarray]:
  """Returns which of a client's examples, at least two, it trains and which it tests on.

  They are drawn at random, and neither part is empty.
  """
  rng = randomness.generator(seed, "partition: training and test", client_id=client_id)
  order = rng.permutation(num_examples)
  num_test = _num_test(num_examples, test_share)
  return order[num_test:], order[:num_test]


def in_fold(
    task: federated_task.FederatedTask, fold: Fold, seed: int
) -> federated_task.FederatedTask:
  """Returns the task whose clients test on one fold of their examples and train on the others.

  The examples must not have been changed by what was learned from the training examples, as
  those of tables are: their folds are drawn where they are read.
  """

  def split(clients: federated_task.PooledClients) -> federated_task.PooledClients:
    examples = clients.train.joined(clients.test)
    is_test = _masks(
        _mask(number, fold.test_positions(number, seed, client_id))
        for client_id, number in zip(clients.ids, examples.counts.tolist())
    )
    return dataclasses.replace(
        clients, train=examples.where(~is_test), test=examples.where(is_test)
    )

  return dataclasses.replace(
      task, clients=split(task.clients), new_clients=split(task.new_clients)
  )


def draw_validation(
    client_id: str, num_train: int, validation_share: float, seed: int
) -> np.ndarray:
  """Returns which training examples of a client are for validation, bool of shape (num_train,).

  It is a share of them, in [0, 1), for a client with 20 of them or more.

  Raises:
    ValueError: If the client would have no example left to train on.
  """
  if not validation_share or num_train < MIN_TRAIN_TO_VALIDATE:
    return np.zeros(num_train, bool)
  chosen = max(1, round(validation_share * num_train))
  if chosen == num_train:
    raise validate.error(
        "validation_share",
        f"leave client {client_id!r} one of its {num_train} examples to train on", validation_share,
    )
  rng = randomness.generator(seed, "validation", client_id=client_id)
  return _mask(num_train, rng.choice(num_train, chosen, replace=False))


def left_out_warnings(client_ids: Sequence[str], kept: Container[str]) -> tuple[str, ...]:
  """Returns warnings of the clients that can't be trained and tested.

  A user's client can't be given extra examples, so it is left out.

  Raises:
    ValueError: If more than a quarter of the clients are not kept.
  """
  left_out = [client_id for client_id in client_ids if client_id not in kept]
  if not left_out:
    return ()
  if len(left_out) > MAX_SMALL_FRACTION * len(client_ids):
    raise validate.error(
        "clients",
        "hold an example for training and one for testing for three in four of them",
        f"{len(left_out)} of {len(client_ids)} without",
    )
  names = ", ".join(left_out[:5]) + (", ..." if len(left_out) > 5 else "")
  return (
      f"{len(left_out)} of {len(client_ids)} clients ({names}) are left out: they have no example "
      "for training and another one for testing.",
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeldOut(options.Settings):
  """What is held out of training; the settings of programs that hold out something extend it."""

  num_new_clients: int = options.option(
      int,
      "How many of the clients, drawn at random, don't train. They join after the training, and "
      "every method finds a model for them.",
      0, rule=functools.partial(validate.integer, 0),
  )
  test_share: float | None = options.option(
      float,
      "Share of every client's rows, drawn at random, that are for testing and not for training "
      "(files).",
      None, rule=functools.partial(validate.between, 0, 1), default_text=f"{TEST_SHARE}",
  )
  validation_share: float | None = options.option(
      float,
      "Share of every client's training rows, of 20 or more, on which no model is trained and "
      "which decide instead of test rows: the weights of the weighted mean (b) of phase 3, and "
      "which method's models are saved. 0: test rows decide.",
      None, rule=functools.partial(validate.within, 0, 1),
      default_text=f"{VALIDATION_SHARE}; 0 with --examples_per_client",
  )

  def check_rows(self, schema: schema_lib.Schema | None, fold: Fold | None = None) -> None:
    """Raises a ValueError unless one thing at most says which rows are for testing."""
    split = schema and schema.split
    for name, value, is_other, rule in (
        ("test_share", self.test_share, schema is None, "for images"),
        ("test_share", self.test_share, split is not None, "with `split_column`"),
        ("test_share", self.test_share, fold is not None, "with folds"),
        ("split_column", split, fold is not None, "with folds"),
    ):
      if value is not None and is_other:
        raise validate.error(name, f"be left out {rule}", value)

  def draw_rows(
      self, client_id: str, num_rows: int, seed: int, fold: Fold | None = None
  ) -> np.ndarray:
    """Returns which rows of a client are for testing where no column says so, bool (num_rows,).

    At least one is.  A fold takes the place of the share for clients with two rows or more.
    """
    if fold is not None and num_rows >= shares.MIN_EXAMPLES_PER_CLIENT:
      return _mask(num_rows, fold.test_positions(num_rows, seed, client_id))
    rng = randomness.generator(seed, f"rows for testing: {client_id}")
    num_test = _num_test(num_rows, TEST_SHARE if self.test_share is None else self.test_share)
    return _mask(num_rows, rng.choice(num_rows, num_test, replace=False))

  def new_positions(self, num_clients: int, seed: int) -> set[int]:
    """Returns the positions of the clients that don't train, fewer than all."""
    rng = randomness.generator(seed, "new clients")
    return set(rng.choice(num_clients, self.num_new_clients, replace=False).tolist())

  def of_task(self, task: federated_task.FederatedTask, seed: int) -> federated_task.FederatedTask:
    """Returns the task with new clients, and with validation examples at those that train.

    Without a `validation_share`, there are none.  A new client trains on all that it has but its
    test examples.
    """
    if self.num_new_clients:
      new = self.new_positions(len(task.clients), seed)
      is_new = _mask(len(task.clients), np.array(sorted(new)))
      training, others = (task.clients.among(np.flatnonzero(mask)) for mask in (~is_new, is_new))
      if others.validation is not None:
        train = others.train.joined(others.validation)
        others = dataclasses.replace(others, train=train, validation=None)
      task = dataclasses.replace(task, clients=training, new_clients=others)
    if self.validation_share:
      clients = task.clients
      mask = _masks(
          draw_validation(client_id, number, self.validation_share, seed)
          for client_id, number in zip(clients.ids, clients.train.counts.tolist())
      )
      if mask.any():
        clients = dataclasses.replace(
            clients, train=clients.train.where(~mask), validation=clients.train.where(mask)
        )
        task = dataclasses.replace(task, clients=clients)
    return task
