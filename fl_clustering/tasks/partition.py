"""Splits labelled images over clients: the kinds of skew that clients can have.

`iid`, `dirichlet`, `shards` and `quantity` make clients which differ in their
label mix or their size.  `rotated`, `permuted_labels` and `feature_shift` make known
groups of clients which differ in kind, so that a grouping can be compared with the
truth; inside a group the data is IID or, with a `dirichlet_alpha`, skewed by label.

A strong Dirichlet skew leaves some clients with nothing: 2 to 8 of 100 clients over
4,000 digits at an alpha of 0.1 (seeds 0 to 19).  Drawing again until every client has
data would not end.  So these clients are topped up (`shares.top_up`), and the split's
warnings say how many.  If they are more than a quarter, the data would no longer be
what its name says, which is an error.

To add a partition: a dataclass of its options and a row in `PARTITIONS`.  One with known groups
extends `KnownGroups`: what it adds is a function that returns the groups' transformations.  Who
gets which example follows from the labels and the seed.
"""

import dataclasses
import functools
from typing import Any, Callable, ClassVar, Mapping, Sequence

import numpy as np

from clustering_basics import options
from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.tasks import drawn_clients
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import held_out
from fl_clustering.tasks import known_groups
from fl_clustering.tasks import pooled_examples
from fl_clustering.tasks import shares as shares_lib

# Far below this range NumPy's Dirichlet does not return, far above it overflows;
# at these ends a class is all one client's, or as good as evenly spread.
_check_alpha = functools.partial(validate.within, 1e-4, 1e6)


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
  """What a partition makes of a pool.

  Attributes:
    global_test: The global test set, transformed as the clients' data is.
    warnings: What a reader of the results should know about the split.
  """

  clients: federated_task.PooledClients
  global_test: examples_lib.Examples
  warnings: tuple[str, ...] = ()


def choose(name: str, num_clients: int, **asked: Any) -> Any:
  """Returns one of `PARTITIONS` with its options, as of `options.chosen`.

  Raises:
    ValueError: As there, or if it needs more clients.
  """
  partition = options.chosen("partition", PARTITIONS, name, **asked)
  num_groups = getattr(partition, "num_groups", 1)
  if num_clients < num_groups:
    raise validate.error(
        "num_clients",
        f"be at least {num_groups}, one for each group of `partition`={name!r} (`num_groups`)",
        num_clients,
    )
  return partition


def _check_size(pool: examples_lib.ImagePool, num_clients: int) -> None:
  num_examples, minimum = len(pool.pool), shares_lib.MIN_EXAMPLES_PER_CLIENT
  if num_examples < minimum * num_clients:
    raise validate.error(
        "num_clients",
        f"be at most {num_examples // minimum}, which gives each client {minimum} of the "
        f"{num_examples} examples",
        num_clients,
    )


# The partitions.  Each is a frozen dataclass of its options.  It is called as (pool, num_clients,
# seed), and returns a `Split`, or raises a ValueError if its options don't fit the pool.  A share
# of the pool is cut into 80% training and 20% test data, at least one example of each.


@dataclasses.dataclass(frozen=True)
class _OneKind(options.Settings):
  """Clients of one kind, which differ in their label mix or their size."""

  # From labels, a number of clients, a generator and the options to the clients' shares.
  shares: ClassVar[Callable[..., list[np.ndarray]]]

  def __call__(self, pool: examples_lib.ImagePool, num_clients: int, seed: int) -> Split:
    _check_size(pool, num_clients)
    rng = randomness.generator(seed, "partition: shares")
    shares = self.shares(pool.pool.labels, num_clients, rng, **dataclasses.asdict(self))
    return _split(pool, shares, seed)


@dataclasses.dataclass(frozen=True)
class _Skewed(_OneKind):
  dirichlet_alpha: float = options.option(
      float, "Concentration of the Dirichlet skew: small is skewed.", 0.5, rule=_check_alpha
  )


@dataclasses.dataclass(frozen=True)
class Iid(_OneKind):
  """Equal shares at random."""

  shares = staticmethod(shares_lib.iid_shares)


@dataclasses.dataclass(frozen=True)
class Dirichlet(_Skewed):
  """Label skew: every class is shared out by Dirichlet proportions."""

  shares = staticmethod(shares_lib.dirichlet_shares)


@dataclasses.dataclass(frozen=True)
class Shards(_OneKind):
  """Label skew: two shards of the examples sorted by label."""

  shares = staticmethod(shares_lib.shard_shares)


@dataclasses.dataclass(frozen=True)
class Quantity(_Skewed):
  """Skew of the sizes: they follow Dirichlet proportions."""

  shares = staticmethod(shares_lib.quantity_shares)


@dataclasses.dataclass(frozen=True)
class KnownGroups(options.Settings):
  """Groups of clients, each with a transformation of its own.

  The groups' members are drawn, so a client's position says nothing about its group.
  The global test set is a mix like the clients' data: each example is given to a group
  at random and transformed like that group's.
  """

  dirichlet_alpha: float | None = options.option(
      float, "Inside the groups of partitions that have true groups, none means IID.", None,
      rule=_check_alpha,
  )
  num_groups: int = options.option(int, "Number of true groups.", default=4)
  examples_per_client: int | None = options.option(
      int,
      "Every client draws so many training images, with replacement, and 2/5 of that for testing "
      "from the data's own test images.",
      None, rule=functools.partial(validate.integer, 2), default_text="the images are shared out",
  )
  most_groups: ClassVar[int | None] = None
  # From a pool, `num_groups` and a generator to the groups' transformations.
  build_transformations: ClassVar[Callable[..., list[known_groups.Transformation]]]

  def __post_init__(self) -> None:
    super().__post_init__()
    validate.integer(minimum=2, maximum=self.most_groups, num_groups=self.num_groups)

  def __call__(self, pool: examples_lib.ImagePool, num_clients: int, seed: int) -> Split:
    rng = randomness.generator(seed, "partition: transforms")
    transformations = self.build_transformations(pool, self.num_groups, rng)
    rng = randomness.generator(seed, "partition: groups")
    groups = rng.permutation(np.arange(num_clients) % self.num_groups)
    if self.examples_per_client is not None:
      ids = _client_ids(num_clients)
      train, test = drawn_clients.draw(
          pool, ids, groups, transformations, self.examples_per_client, self.dirichlet_alpha, seed
      )
      clients = federated_task.PooledClients(ids, train, test, groups)
      return Split(clients, _transformed_mix(pool.global_test, transformations, seed))
    _check_size(pool, num_clients)
    rng = randomness.generator(seed, "partition: shares")
    shares = _grouped_shares(pool.pool.labels, groups, rng, self.dirichlet_alpha)
    return _split(pool, shares, seed, groups, transformations)


@dataclasses.dataclass(frozen=True)
class Rotated(KnownGroups):
  """Known groups: group g has its images turned by g * 90 degrees."""

  most_groups = 4
  build_transformations = staticmethod(known_groups.rotations)


@dataclasses.dataclass(frozen=True)
class PermutedLabels(KnownGroups):
  """Known groups: every group has its own permutation of the labels."""

  build_transformations = staticmethod(known_groups.label_permutations)


@dataclasses.dataclass(frozen=True)
class FeatureShift(KnownGroups):
  """Known groups: every group has its images changed in another way."""

  most_groups = len(known_groups.SHIFTS)
  build_transformations = staticmethod(known_groups.feature_shifts)


PARTITIONS: Mapping[str, type] = {
    "iid": Iid,
    "dirichlet": Dirichlet,
    "shards": Shards,
    "quantity": Quantity,
    "rotated": Rotated,
    "permuted_labels": PermutedLabels,
    "feature_shift": FeatureShift,
}

# From an option's name to the partitions that have it.
OPTIONS = options.by_name(PARTITIONS)


def _split(
    pool: examples_lib.ImagePool,
    shares: list[np.ndarray],
    seed: int,
    groups: np.ndarray | None = None,
    transformations: Sequence[known_groups.Transformation] = (),
) -> Split:
  """Returns the `Split` of clients with these shares of the pool.

  Args:
    shares: Every client's indices; those of clients with too few are topped up, in place.
    seed: Decides about ties, and about training and testing.
    groups: The clients' groups, of shape (num_clients,); None without known groups.
    transformations: The groups' transformations.
  """
  members = _members_by_group(np.zeros(len(shares), int) if groups is None else groups)
  warnings = _top_up(shares, members, pool.pool.labels, seed)
  examples, global_test = pool.pool, pool.global_test
  if groups is not None:
    group_of = np.zeros(len(examples), int)
    group_of[np.concatenate(shares)] = np.repeat(groups, list(map(len, shares)))
    examples = _transformed(examples, group_of, transformations)
    global_test = _transformed_mix(global_test, transformations, seed)
  ids = _client_ids(len(shares))
  train, test = [], []
  for client_id, share in zip(ids, shares):
    in_train, in_test = held_out.deal_out(client_id, len(share), seed)
    train.append(share[in_train])
    test.append(share[in_test])
  of_shares = functools.partial(pooled_examples.PooledExamples.of_shares, examples)
  clients = federated_task.PooledClients(ids, of_shares(train), of_shares(test), groups)
  return Split(clients, global_test, warnings)


def _client_ids(num_clients: int) -> tuple[str, ...]:
  # Their alphabetic order is their numeric order.
  width = len(str(num_clients - 1))
  return tuple(f"client_{i:0{width}d}" for i in range(num_clients))


def _transformed(
    examples: examples_lib.Examples, groups: np.ndarray,
    transformations: Sequence[known_groups.Transformation],
) -> examples_lib.Examples:
  """Returns examples, each of which is transformed as its group's are."""
  features, labels = examples.features.copy(), examples.labels.copy()
  for group, transform in enumerate(transformations):
    transformed = transform(examples.take(groups == group))
    features[groups == group] = transformed.features
    labels[groups == group] = transformed.labels
  return examples_lib.Examples(features, labels)


def _transformed_mix(
    examples: examples_lib.Examples, transformations: Sequence[known_groups.Transformation],
    seed: int,
) -> examples_lib.Examples:
  """Returns examples each of which is given to a group at random and transformed like that."""
  rng = randomness.generator(seed, "partition: groups of the global test set")
  groups = rng.integers(len(transformations), size=len(examples))
  return _transformed(examples, groups, transformations)


def _members_by_group(groups: np.ndarray) -> list[np.ndarray]:
  return [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]


def _grouped_shares(
    labels: np.ndarray, groups: np.ndarray, rng: np.random.Generator,
    dirichlet_alpha: float | None,
) -> list[np.ndarray]:
  """Returns every client's indices, the groups being IID among each other."""
  if dirichlet_alpha is None:
    return shares_lib.iid_shares(labels, len(groups), rng)
  members_by_group = _members_by_group(groups)
  num_members = np.cumsum([len(members) for members in members_by_group])
  cuts = num_members[:-1] * len(labels) // len(groups)
  shares: dict[int, np.ndarray] = {}
  for members, examples in zip(members_by_group, np.split(rng.permutation(len(labels)), cuts)):
    within = shares_lib.dirichlet_shares(labels[examples], len(members), rng, dirichlet_alpha)
    for member, share in zip(members, within):
      shares[member] = examples[share]
  return [shares[i] for i in range(len(groups))]


def _top_up(
    shares: list[np.ndarray], members_by_group: Sequence[np.ndarray], labels: np.ndarray, seed: int
) -> tuple[str, ...]:
  """Tops up the clients with too few examples, in place, within groups; returns warnings."""
  num_clients, minimum = len(shares), shares_lib.MIN_EXAMPLES_PER_CLIENT
  num_small = sum(len(share) < minimum for share in shares)
  if not num_small:
    return ()
  # Only a Dirichlet draw gets here: the other kinds share out evenly enough.
  if num_small > held_out.MAX_SMALL_FRACTION * num_clients:
    raise validate.error(
        "num_clients",
        f"leave three in four clients at least {minimum} examples (this draw leaves {num_small} "
        "fewer; a larger `dirichlet_alpha` leaves less)",
        num_clients,
    )
  rng = randomness.generator(seed, "partition: top-up")
  for members in members_by_group:
    full = shares_lib.top_up([shares[member] for member in members], labels, minimum, rng)
    for member, share in zip(members, full):
      shares[member] = share
  return (
      f"The Dirichlet draw left {num_small} of {num_clients} clients with fewer than {minimum} "
      f"examples; they were topped up to {minimum} of one label, from the clients with the most of "
      "it.",
  )
