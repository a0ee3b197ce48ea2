"""Splits labelled images over clients: the kinds of skew that clients can have.

`iid`, `dirichlet`, `shards` and `quantity` make clients which differ in their
label mix or their size.  `rotated` and `permuted_labels` make known groups of
clients which differ in kind, so that a grouping can be compared with the truth;
inside a group the data is IID or, with a `dirichlet_alpha`, skewed by label.

A strong Dirichlet skew leaves some clients with nothing: 2 to 8 of 100 clients over
4,000 digits at an alpha of 0.1 (seeds 0 to 19).  Drawing again until every client has
data would not end.  So these clients are topped up (`shares.top_up`), and the split's
warnings say how many.  If they are more than a quarter, the data would no longer be
what its name says, which is an error.
"""

import dataclasses
from typing import Optional

import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering import options
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import known_groups
from fl_clustering.tasks import shares as shares_lib

_TEST_FRACTION = 0.2
_MAX_TOPPED_UP_FRACTION = 0.25

# Far below this range NumPy's Dirichlet does not return, far above it overflows;
# at these ends a class is all one client's, or as good as evenly spread.
_MIN_ALPHA = 1e-4
_MAX_ALPHA = 1e6


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


def choose(partition, num_clients=None, **asked):
  """Returns a partition with its options, checked.

  Args:
    partition: A name in `PARTITIONS`.
    num_clients: Number of clients; `None` where it is not known yet.
    **asked: Options by name, any of `OPTIONS`; `None` where one is not asked for.

  Raises:
    ValueError: If an option is asked for which the partition does not take, or
      is out of its range.
  """
  chosen = PARTITIONS[partition]
  given = {name: value for name, value in asked.items() if value is not None}
  for name, value in given.items():
    if name not in options.of(chosen):
      users = " or ".join(map(repr, OPTIONS[name]))
      raise validate.error(name, f"be left out unless `partition` is {users}", value)
  partition = chosen(**given)
  num_groups = getattr(partition, "num_groups", 1)
  if num_clients is not None and num_clients < num_groups:
    raise validate.error("num_clients", f"be at least `num_groups`={num_groups}", num_clients)
  return partition


def _check_alpha(dirichlet_alpha):
  validate.positive(dirichlet_alpha=dirichlet_alpha)
  if not _MIN_ALPHA <= dirichlet_alpha <= _MAX_ALPHA:
    raise validate.error(
        "dirichlet_alpha", f"be in [{_MIN_ALPHA}, {_MAX_ALPHA:.0f}]", dirichlet_alpha
    )


def split(partition, pool, num_clients, seed, **asked):
  """Splits a pool of images over clients.

  Every client's share is then cut into 80% training and 20% test data, at least
  one example of each.

  Args:
    partition: A name in `PARTITIONS`.
    pool: A `federated_task.ImagePool`.
    num_clients: Number of clients.
    seed: Decides who gets what.
    **asked: Options of the partition, by name; `None` for their defaults.

  Returns:
    A `Split`.

  Raises:
    ValueError: If an option does not fit the partition or the pool, or more than
      a quarter of the clients would have fewer than two examples of their own.
  """
  validate.one_of(PARTITIONS, partition=partition)
  validate.integer(minimum=1, num_clients=num_clients)
  return split_with(choose(partition, num_clients, **asked), pool, num_clients, seed)


def split_with(chosen, pool, num_clients, seed):
  """Splits a pool of images over clients, as `split` does.

  Args:
    chosen: A partition with its options, as `choose` returns it.
    pool: A `federated_task.ImagePool`.
    num_clients: Number of clients.
    seed: Decides who gets what.

  Returns:
    A `Split`.

  Raises:
    ValueError: If the pool does not fit, as of `split`.
  """
  num_examples = len(pool.pool)
  if num_examples < shares_lib.MIN_EXAMPLES_PER_CLIENT * num_clients:
    raise validate.error(
        "num_clients",
        f"be at most {num_examples // shares_lib.MIN_EXAMPLES_PER_CLIENT}, which gives each client "
        f"{shares_lib.MIN_EXAMPLES_PER_CLIENT} of the {num_examples} examples",
        num_clients,
    )
  return chosen(pool, num_clients, seed)


def _split_ungrouped(shares_fn, pool, num_clients, seed, **skew):
  rng = randomness.generator(seed, "partition: shares")
  shares = shares_fn(pool.pool.labels, num_clients, rng, **skew)
  warnings = _top_up_shares(shares, [np.arange(num_clients)], pool, seed, **skew)
  clients = [
      _client(client_id, pool.pool.take(share), seed)
      for client_id, share in zip(_client_ids(num_clients), shares)
  ]
  return Split(tuple(clients), pool.global_test, warnings)


def _split_grouped(transforms_fn, pool, num_clients, seed, dirichlet_alpha, num_groups):
  """Splits into groups of clients, each with a transformation of its own.

  The groups' members are drawn, so a client's position says nothing about its group.
  The global test set is a mix like the clients' data: each example is given to a group
  at random and transformed like that group's.
  """
  transforms = transforms_fn(pool, num_groups, randomness.generator(seed, "partition: transforms"))
  rng = randomness.generator(seed, "partition: groups")
  groups = rng.permutation(np.arange(num_clients) % num_groups)
  rng = randomness.generator(seed, "partition: shares")
  shares = _grouped_shares(pool.pool.labels, groups, rng, dirichlet_alpha)
  warnings = _top_up_shares(shares, _members_by_group(groups), pool, seed, dirichlet_alpha)
  clients = [
      _client(client_id, transforms[group](pool.pool.take(share)), seed, int(group))
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
  images, labels = examples.images.copy(), examples.labels.copy()
  for group, transform in enumerate(transforms):
    transformed = transform(examples.take(groups == group))
    images[groups == group] = transformed.images
    labels[groups == group] = transformed.labels
  return federated_task.Examples(images, labels)


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
  if num_small > _MAX_TOPPED_UP_FRACTION * num_clients:
    error = validate.error(
        "num_clients",
        f"leave three in four clients at least {shares_lib.MIN_EXAMPLES_PER_CLIENT} examples (with "
        f"`dirichlet_alpha`={dirichlet_alpha} this draw leaves {num_small} clients fewer)",
        num_clients,
    )
    raise ValueError(f"{error} Use fewer `num_clients` or a larger `dirichlet_alpha`.")
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


def _client(client_id, examples, seed, group=None):
  rng = randomness.generator(seed, "partition: training and test", client_id=client_id)
  order = rng.permutation(len(examples))
  num_test = max(1, round(_TEST_FRACTION * len(examples)))
  return federated_task.ClientData(
      client_id=client_id,
      train=examples.take(order[num_test:]),
      test=examples.take(order[:num_test]),
      group=group,
  )


# The partitions.  Each is a frozen dataclass of its options.  It is called by `split_with`,
# which checks the pool before, as (pool, num_clients, seed), and returns a `Split`.


def _alpha_option(about, default):
  return options.option(float, about, default=default)


_LABEL_SKEW = "Concentration of the Dirichlet skew: small is skewed."
_GROUP_SKEW = "Inside the groups of rotated and permuted_labels, none means IID."


@dataclasses.dataclass(frozen=True)
class Iid:
  """Equal shares at random."""

  def __call__(self, pool, num_clients, seed):
    return _split_ungrouped(shares_lib.iid_shares, pool, num_clients, seed)


@dataclasses.dataclass(frozen=True)
class Dirichlet:
  """Label skew: every class is shared out by Dirichlet proportions.

  Attributes:
    dirichlet_alpha: Concentration; the smaller, the fewer clients share a class.
  """

  dirichlet_alpha: float = _alpha_option(_LABEL_SKEW, 0.5)

  def __post_init__(self):
    _check_alpha(self.dirichlet_alpha)

  def __call__(self, pool, num_clients, seed):
    return _split_ungrouped(
        shares_lib.dirichlet_shares, pool, num_clients, seed, dirichlet_alpha=self.dirichlet_alpha
    )


@dataclasses.dataclass(frozen=True)
class Shards:
  """Label skew: two shards of the examples sorted by label."""

  def __call__(self, pool, num_clients, seed):
    return _split_ungrouped(shares_lib.shard_shares, pool, num_clients, seed)


@dataclasses.dataclass(frozen=True)
class Quantity:
  """Skew of the sizes: they follow Dirichlet proportions.

  Attributes:
    dirichlet_alpha: Concentration; the smaller, the more unequal the sizes.
  """

  dirichlet_alpha: float = _alpha_option(_LABEL_SKEW, 0.5)

  def __post_init__(self):
    _check_alpha(self.dirichlet_alpha)

  def __call__(self, pool, num_clients, seed):
    return _split_ungrouped(
        shares_lib.quantity_shares, pool, num_clients, seed, dirichlet_alpha=self.dirichlet_alpha
    )


def _num_groups_option():
  return options.option(int, "Number of true groups.", default=4)


@dataclasses.dataclass(frozen=True)
class Rotated:
  """Known groups: group g has its images turned by g * 90 degrees.

  Attributes:
    dirichlet_alpha: Concentration of the label skew inside a group; `None` = IID.
    num_groups: Number of groups, from 2 to 4.
  """

  dirichlet_alpha: Optional[float] = _alpha_option(_GROUP_SKEW, None)
  num_groups: int = _num_groups_option()

  def __post_init__(self):
    _check_groups(self, most=4)

  def __call__(self, pool, num_clients, seed):
    return _split_grouped(
        known_groups.rotations, pool, num_clients, seed, self.dirichlet_alpha, self.num_groups
    )


@dataclasses.dataclass(frozen=True)
class PermutedLabels:
  """Known groups: every group has its own permutation of the labels.

  Attributes:
    dirichlet_alpha: Concentration of the label skew inside a group; `None` = IID.
    num_groups: Number of groups, at least 2.
  """

  dirichlet_alpha: Optional[float] = _alpha_option(_GROUP_SKEW, None)
  num_groups: int = _num_groups_option()

  def __post_init__(self):
    _check_groups(self)

  def __call__(self, pool, num_clients, seed):
    return _split_grouped(
        known_groups.label_permutations,
        pool,
        num_clients,
        seed,
        self.dirichlet_alpha,
        self.num_groups,
    )


def _check_groups(partition, most=None):
  if partition.dirichlet_alpha is not None:
    _check_alpha(partition.dirichlet_alpha)
  validate.integer(minimum=2, maximum=most, num_groups=partition.num_groups)


PARTITIONS = {
    "iid": Iid,
    "dirichlet": Dirichlet,
    "shards": Shards,
    "quantity": Quantity,
    "rotated": Rotated,
    "permuted_labels": PermutedLabels,
}

# From an option's name to the partitions that have it.
OPTIONS = options.by_name(PARTITIONS)
