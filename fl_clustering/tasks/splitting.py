"""Splits a pool over clients, by whatever decides the shares and the groups.

A strong Dirichlet skew leaves some clients with nothing: 2 to 8 of 100 clients over
4,000 digits at an alpha of 0.1 (seeds 0 to 19).  Drawing again until every client has
data would not end.  So these clients are topped up (`shares.top_up`), and the split's
warnings say how many.  If they are more than a quarter, the data would no longer be
what its name says, which is an error.
"""

import dataclasses

import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import folds
from fl_clustering.tasks import shares as shares_lib

_TEST_SHARE = 0.2
MAX_SMALL_FRACTION = 0.25


class TooFewExamples(ValueError):
  """A draw leaves too many clients with too few examples; one of another seed may not."""


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
  """What a partition makes of a pool.

  Attributes:
    clients: The clients' data.
    global_test: The global test set, transformed as the clients' data is.
    warnings: What a reader of the results should know about the split.
  """

  clients: tuple[federated_task.ClientData, ...]
  global_test: federated_task.Examples
  warnings: tuple[str, ...] = ()


def ungrouped(shares_fn, pool, num_clients, seed, **skew):
  """Splits into clients of one kind.

  Args:
    shares_fn: A function of `shares.py`.
    pool: A `federated_task.ImagePool`.
    num_clients: Number of clients.
    seed: Decides who gets what.
    **skew: Further arguments of `shares_fn`.

  Returns:
    A `Split`.

  Raises:
    TooFewExamples: If more than a quarter of the clients would have fewer than two examples
      of their own.
  """
  rng = randomness.generator(seed, "partition: shares")
  shares = shares_fn(pool.pool.labels, num_clients, rng, **skew)
  warnings = _top_up_shares(shares, [np.arange(num_clients)], pool, seed, **skew)
  clients = [
      client(client_id, pool.pool.take(share), seed)
      for client_id, share in zip(_client_ids(num_clients), shares)
  ]
  return Split(tuple(clients), pool.global_test, warnings)


def grouped(transforms_fn, pool, num_clients, seed, dirichlet_alpha, num_groups):
  """Splits into groups of clients, each with a transformation of its own.

  The groups' members are drawn, so a client's position says nothing about its group.
  The global test set is a mix like the clients' data: each example is given to a group
  at random and transformed like that group's.

  Args:
    transforms_fn: A function from a pool, a number of groups and a `np.random.Generator`
      to a transformation per group: a function from `federated_task.Examples` to as many
      new ones.
    pool: A `federated_task.ImagePool`.
    num_clients: Number of clients.
    seed: Decides who gets what.
    dirichlet_alpha: Concentration of the label skew inside a group; `None` = IID.
    num_groups: Number of groups, at most `num_clients`.

  Returns:
    A `Split`.

  Raises:
    TooFewExamples: As of `ungrouped`.
  """
  transforms = transforms_fn(pool, num_groups, randomness.generator(seed, "partition: transforms"))
  rng = randomness.generator(seed, "partition: groups")
  groups = rng.permutation(np.arange(num_clients) % num_groups)
  rng = randomness.generator(seed, "partition: shares")
  shares = _grouped_shares(pool.pool.labels, groups, rng, dirichlet_alpha)
  warnings = _top_up_shares(shares, _members_by_group(groups), pool, seed, dirichlet_alpha)
  clients = [
      client(client_id, transforms[group](pool.pool.take(share)), seed, int(group))
      for client_id, group, share in zip(_client_ids(num_clients), groups, shares)
  ]
  rng = randomness.generator(seed, "partition: groups of the global test set")
  test_groups = rng.integers(num_groups, size=len(pool.global_test))
  global_test = _transform_mix(transforms, test_groups, pool.global_test)
  return Split(tuple(clients), global_test, warnings)


def _members_by_group(groups):
  return [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]


def _grouped_shares(labels, groups, rng, dirichlet_alpha):
  """Returns every client's indices, the groups being IID among each other."""
  if dirichlet_alpha is None:
    return shares_lib.iid_shares(labels, len(groups), rng)
  members_by_group = _members_by_group(groups)
  num_members = np.cumsum([len(members) for members in members_by_group])
  cuts = num_members[:-1] * len(labels) // len(groups)
  shares = [None] * len(groups)
  for members, examples in zip(members_by_group, np.split(rng.permutation(len(labels)), cuts)):
    within = shares_lib.dirichlet_shares(labels[examples], len(members), rng, dirichlet_alpha)
    for member, share in zip(members, within):
      shares[member] = examples[share]
  return shares


def _transform_mix(transforms, groups, examples):
  features, labels = examples.features.copy(), examples.labels.copy()
  for group, transform in enumerate(transforms):
    transformed = transform(examples.take(groups == group))
    features[groups == group] = transformed.features
    labels[groups == group] = transformed.labels
  return federated_task.Examples(features, labels)


def _top_up_shares(shares, members_by_group, pool, seed, dirichlet_alpha=None):
  """Tops up the clients with too few examples, in place; returns warnings.

  Args:
    shares: A list of every client's indices.
    members_by_group: The clients that may give each other examples, a set a group.
    pool: The `federated_task.ImagePool` that the indices are of.
    seed: Decides about ties.
    dirichlet_alpha: What the shares were drawn with.
  """
  num_clients = len(shares)
  num_small = sum(len(share) < shares_lib.MIN_EXAMPLES_PER_CLIENT for share in shares)
  if not num_small:
    return ()
  # Only a Dirichlet draw gets here: the other kinds share out evenly enough.
  if num_small > MAX_SMALL_FRACTION * num_clients:
    error = validate.error(
        "num_clients",
        f"leave three in four clients at least {shares_lib.MIN_EXAMPLES_PER_CLIENT} examples (with "
        f"`dirichlet_alpha`={dirichlet_alpha} this draw leaves {num_small} clients fewer)",
        num_clients,
    )
    raise TooFewExamples(f"{error} Use fewer `num_clients` or a larger `dirichlet_alpha`.")
  rng = randomness.generator(seed, "partition: top-up")
  for members in members_by_group:
    full = shares_lib.top_up(
        [shares[member] for member in members],
        pool.pool.labels,
        shares_lib.MIN_EXAMPLES_PER_CLIENT,
        rng,
    )
    for member, share in zip(members, full):
      shares[member] = share
  return (
      f"The Dirichlet({dirichlet_alpha:g}) draw left {num_small} of {num_clients} clients with "
      f"fewer than {shares_lib.MIN_EXAMPLES_PER_CLIENT} examples; they were topped up to "
      f"{shares_lib.MIN_EXAMPLES_PER_CLIENT} of one label, from the clients with the most of it.",
  )


def _client_ids(num_clients):
  """Returns ids whose alphabetic order is their numeric order."""
  width = len(str(num_clients - 1))
  return [f"client_{i:0{width}d}" for i in range(num_clients)]


def client(client_id, examples, seed, group=None, test_share=_TEST_SHARE):
  """Returns a client whose examples are split at random into training and test data.

  Args:
    client_id: The client's id.
    examples: Its `federated_task.Examples`, at least two.
    seed: Decides with the id which are test data.
    group: The number of its true group; `None` if unknown.
    test_share: The share that is test data; each part has one example at least.
  """
  rng = randomness.generator(seed, "partition: training and test", client_id=client_id)
  order = rng.permutation(len(examples))
  num_test = min(max(1, round(test_share * len(examples))), len(examples) - 1)
  return federated_task.ClientData(
      client_id=client_id,
      train=examples.take(order[num_test:]),
      test=examples.take(order[:num_test]),
      group=group,
  )


def _pooled(client):
  return federated_task.Examples(
      np.concatenate([client.train.features, client.test.features]),
      np.concatenate([client.train.labels, client.test.labels]),
  )


def _client_in_fold(client, fold, seed):
  examples = _pooled(client)
  is_test = np.zeros(len(examples), bool)
  is_test[folds.test_positions(len(examples), fold, seed, client.client_id)] = True
  return dataclasses.replace(
      client, train=examples.take(~is_test), test=examples.take(is_test)
  )


def in_fold(task, fold, seed):
  """Returns the task whose clients test on one fold of their examples and train on the others.

  The examples must not have been changed by what was learned from the training examples, as
  those of tables are: their folds are drawn where they are read.

  Args:
    task: A `FederatedTask`.
    fold: The `Fold`.
    seed: Decides how the examples are dealt out.
  """
  return dataclasses.replace(
      task,
      clients=tuple(_client_in_fold(client, fold, seed) for client in task.clients),
      new_clients=tuple(_client_in_fold(client, fold, seed) for client in task.new_clients),
  )
