"""Splits labelled images over clients: the kinds of skew that clients can have.

`iid`, `dirichlet`, `shards` and `quantity` make clients which differ in their
label mix or their size.  `rotated`, `permuted_labels` and `feature_shift` make known
groups of clients which differ in kind, so that a grouping can be compared with the
truth; inside a group the data is IID or, with a `dirichlet_alpha`, skewed by label.

To add a partition: a dataclass of its options and a row in `PARTITIONS`.
"""

import dataclasses
from typing import Optional

from clustering_basics import validate
from fl_clustering import options
from fl_clustering.tasks import feature_shift
from fl_clustering.tasks import known_groups
from fl_clustering.tasks import shares as shares_lib
from fl_clustering.tasks import splitting

# Far below this range NumPy's Dirichlet does not return, far above it overflows;
# at these ends a class is all one client's, or as good as evenly spread.
_MIN_ALPHA = 1e-4
_MAX_ALPHA = 1e6


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
    A `splitting.Split`.

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
    A `splitting.Split`.

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


# The partitions.  Each is a frozen dataclass of its options.  It is called by `split_with`,
# which checks the pool before, as (pool, num_clients, seed), and returns a `splitting.Split`.


def _alpha_option(about, default):
  return options.option(float, about, default=default)


_LABEL_SKEW = "Concentration of the Dirichlet skew: small is skewed."
_GROUP_SKEW = "Inside the groups of partitions that have true groups, none means IID."


@dataclasses.dataclass(frozen=True)
class Iid:
  """Equal shares at random."""

  def __call__(self, pool, num_clients, seed):
    return splitting.ungrouped(shares_lib.iid_shares, pool, num_clients, seed)


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
    return splitting.ungrouped(
        shares_lib.dirichlet_shares, pool, num_clients, seed, dirichlet_alpha=self.dirichlet_alpha
    )


@dataclasses.dataclass(frozen=True)
class Shards:
  """Label skew: two shards of the examples sorted by label."""

  def __call__(self, pool, num_clients, seed):
    return splitting.ungrouped(shares_lib.shard_shares, pool, num_clients, seed)


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
    return splitting.ungrouped(
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
    return splitting.grouped(
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
    return splitting.grouped(
        known_groups.label_permutations,
        pool,
        num_clients,
        seed,
        self.dirichlet_alpha,
        self.num_groups,
    )


@dataclasses.dataclass(frozen=True)
class FeatureShift:
  """Known groups: every group has its images changed in another way.

  Attributes:
    dirichlet_alpha: Concentration of the label skew inside a group; `None` = IID.
    num_groups: Number of groups, from 2 to 5; group g gets the g-th of `feature_shift.SHIFTS`.
  """

  dirichlet_alpha: Optional[float] = _alpha_option(_GROUP_SKEW, None)
  num_groups: int = _num_groups_option()

  def __post_init__(self):
    _check_groups(self, most=len(feature_shift.SHIFTS))

  def __call__(self, pool, num_clients, seed):
    return splitting.grouped(
        feature_shift.transformations,
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
    "feature_shift": FeatureShift,
}

# From an option's name to the partitions that have it.
OPTIONS = options.by_name(PARTITIONS)
