"""The settings of federated k-means and of its algorithms, checked as they are made."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable, Mapping, Sequence

from clustering_basics import validate
from fl_clustering.points import grid_scaling
from fl_clustering.points import privacy as privacy_lib

# Of `Sums`, without `privacy`.
MOST_ROUNDS = 30
_LEAST_ROUNDS = 6

# Parts of what leaves a client.
_MEANS = (
    "A mean of a few points is weak protection. Two rounds differ in a few points only, so the "
    "difference of two messages can be a row."
)
_KEPT = (
    "A mean of fewer points than min_count, or one that equals one of its rows, doesn't leave a "
    "client."
)
_TOTALS = (
    "counts and sums of points by cluster and by half of a cluster, the last sums to float "
    "precision in every column; and by cluster, how much farther its points are from the second "
    "nearest center, and their simplified silhouettes."
)
# Of all algorithms.
BEFORE_THE_FIRST_ROUND = (
    "Before the first round, the server gets sums and sums of squares by column, and how many "
    "numbers of a column and how many points are of which order of magnitude, in secure sums."
)

_CHECKS: Mapping[str, Callable[[Any], None]] = {
    "n_init": lambda value: validate.integer(minimum=1, n_init=value),
    "num_rounds": lambda value: validate.integer(minimum=1, num_rounds=value),
    "tol": lambda value: validate.not_negative(tol=value),
    "min_count": lambda value: validate.integer(minimum=2, min_count=value),
    "fkm_rounds": lambda value: validate.integer(minimum=1, fkm_rounds=value),
    "local_clusters": lambda value: validate.integer(minimum=1, local_clusters=value),
    "lloyd_rounds": lambda value: validate.integer(minimum=0, lloyd_rounds=value),
    "weight_by_counts": lambda value: validate.boolean(weight_by_counts=value),
}


@dataclasses.dataclass(frozen=True)
class Algorithm:
  """An algorithm with its options.

  Attributes:
    n_init: Number of restarts; the one with the lowest inertia is taken.
    num_rounds: The most rounds.
    min_count: The least number of points whose mean leaves a client, at least 2.
  """

  name = ""
  # What leaves a client, in sentences for the user.
  leaves = ""
  n_init = 1

  def __post_init__(self) -> None:
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      if value is not None or field.default is not None:
        _CHECKS[field.name](value)


@dataclasses.dataclass(frozen=True)
class Sums(Algorithm):
  """Splits, Lloyd's algorithm and swaps, by secure sums alone.

  Attributes:
    num_rounds: The most rounds, at least 6 and at least 5 + log2(K), since the first six find at
      most two clusters, and each further one at most doubles them.  With no more than that, fewer
      than K may be found.  Eight more rounds find the scale, the final means and their inertia.
      Default: 30.  With `privacy` it follows from the number of clusters, and must be left out.
  """

  name = "sums"
  leaves = (
      f"The server gets totals over all clients: {_TOTALS} {privacy_lib.EXACT_TOTALS} "
      "Secure sums hide whose rows they are."
  )

  num_rounds: int | None = None

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.num_rounds is not None:
      validate.integer(minimum=_LEAST_ROUNDS, num_rounds=self.num_rounds)


@dataclasses.dataclass(frozen=True)
class FkmLloyd(Algorithm):
  """Rounds of FKM for good starts, then rounds of Lloyd.

  Attributes:
    num_rounds: The most rounds of Lloyd.
    tol: A restart ends when a round of Lloyd lowers its inertia by no more than this share.
    fkm_rounds: The number of rounds of FKM before.
  """

  name = "fkm_lloyd"
  leaves = (
      "In its first rounds the server gets every client's own means and counts, for every "
      f"restart; in those of Lloyd, sums that aren't secure. {_MEANS} On standardised wine at "
      "up to eight clients, with eight clusters, between 39 and 61 of the 178 rows were such a "
      f"difference (three seeds). {_KEPT}"
  )

  n_init: int = 5
  num_rounds: int = 100
  tol: float = 1e-5
  min_count: int = 2
  fkm_rounds: int = 3


@dataclasses.dataclass(frozen=True)
class Lloyd(Algorithm):
  """Lloyd's algorithm by sums, from random centroids.

  Attributes:
    tol: A restart ends when a round lowers its inertia by no more than this share.
  """

  name = "lloyd"
  leaves = (
      "The server gets exact sums, counts and the inertia. They hide a client only if they are "
      "added up in a secure sum, which this algorithm doesn't use."
  )

  n_init: int = 5
  num_rounds: int = 100
  tol: float = 1e-5


@dataclasses.dataclass(frozen=True)
class Fkm(Algorithm):
  """Garst and Reinders, Federated K-Means Clustering."""

  name = "fkm"
  leaves = (
      f"In every round the server gets every client's own means and counts. {_MEANS} {_KEPT}"
  )

  n_init: int = 1
  num_rounds: int = 20
  min_count: int = 2


@dataclasses.dataclass(frozen=True)
class KFed(Algorithm):
  """k-FED of Dennis, Li and Smith, one round that gathers.

  Attributes:
    local_clusters: The number of clusters to look for on a client, at most K.  Default: K.
  """

  name = "kfed"
  leaves = (
      "The server gets every client's own means and counts, once. A mean of a few points is weak "
      f"protection. {_KEPT}"
  )

  n_init: int = 1
  min_count: int = 2
  local_clusters: int | None = None


@dataclasses.dataclass(frozen=True)
class ChildParent(Algorithm):
  """k-means of the clients' centroids, one round that gathers.

  Attributes:
    weight_by_counts: Whether the server weighs the clients' centroids by their numbers of points.
    lloyd_rounds: The most rounds of Lloyd to add at the end, by sums.  They end early when
      nothing improves.
  """

  name = "child_parent"
  leaves = (
      "The server gets every client's own means and counts, once per restart. A mean of a few "
      f"points is weak protection. {_KEPT}"
  )

  n_init: int = 1
  min_count: int = 2
  weight_by_counts: bool = False
  lloyd_rounds: int = 0


@dataclasses.dataclass(frozen=True)
class TffMinibatch(Algorithm):
  """TFF's mini-batch k-means (`tff.learning.algorithms.build_fed_kmeans`), for comparison."""

  name = "tff_minibatch"
  leaves = (
      "The server gets sums and counts of every client's points by cluster. "
      "They are exact, and this algorithm doesn't add them up in a secure sum."
  )

  n_init: int = 1
  num_rounds: int = 20


# By their names; the default comes first.
ALGORITHMS: dict[str, type[Algorithm]] = {
    algorithm.name: algorithm
    for algorithm in (Sums, FkmLloyd, Lloyd, Fkm, KFed, ChildParent, TffMinibatch)
}


def algorithm_of(name: str, **options: Any) -> Algorithm:
  """Returns an algorithm by its name.

  Args:
    **options: Those that differ from the defaults; None for the default.

  Raises:
    ValueError: If there is no such algorithm, it has no such option, or a value is wrong.
  """
  validate.one_of(ALGORITHMS, algorithm=name)
  given = {option: value for option, value in options.items() if value is not None}
  known = {field.name for field in dataclasses.fields(ALGORITHMS[name])}
  for option, value in given.items():
    if option not in known:
      raise validate.error(option, f"be left out with `algorithm`={name!r}", value)
  return ALGORITHMS[name](**given)


@dataclasses.dataclass(frozen=True)
class KMeansConfig:
  """Everything but the data that changes the result; `FederatedKMeans` documents it.

  Attributes:
    algorithm: An `Algorithm`; a name becomes one.
  """

  n_clusters: int
  algorithm: Any = Sums()
  privacy: privacy_lib.Privacy | None = None
  standardize: bool = False
  field_widths: Sequence[int] | None = None
  seed: int = 0

  def __post_init__(self) -> None:
    validate.integer(minimum=1, n_clusters=self.n_clusters)
    if not isinstance(self.algorithm, Algorithm):
      object.__setattr__(self, "algorithm", algorithm_of(self.algorithm))
    elif type(self.algorithm) not in ALGORITHMS.values():
      kinds = ", ".join(kind.__name__ for kind in ALGORITHMS.values())
      raise validate.error("algorithm", f"be of one of {kinds}", self.algorithm)
    validate.integer(minimum=0, seed=self.seed)
    validate.boolean(standardize=self.standardize)
    grid_scaling.check_field_widths(self.field_widths, self.standardize)
    if self.privacy is not None:
      self._check_private()
    local_clusters = getattr(self.algorithm, "local_clusters", None)
    if local_clusters is not None and local_clusters > self.n_clusters:
      raise validate.error(
          "local_clusters", f"be at most `n_clusters`={self.n_clusters}", local_clusters
      )
    num_rounds = self.algorithm.num_rounds if isinstance(self.algorithm, Sums) else None
    least = _LEAST_ROUNDS - 1 + math.ceil(math.log2(self.n_clusters))
    if num_rounds is not None and num_rounds < least:
      rule = f"be at least {least} for `n_clusters`={self.n_clusters}"
      raise validate.error("num_rounds", rule, num_rounds)

  def _check_private(self) -> None:
    if not isinstance(self.algorithm, Sums):
      raise validate.error(
          "privacy", f"be left out with `algorithm`={self.algorithm.name!r}", self.privacy
      )
    # Fixed beforehand, so that it tells nothing.
    if self.algorithm.num_rounds is not None:
      raise validate.error("num_rounds", "be left out with `privacy`", self.algorithm.num_rounds)
    if self.standardize:
      raise validate.error("standardize", "be False with `privacy`", self.standardize)
    if not isinstance(self.privacy, (privacy_lib.PointPrivacy, privacy_lib.ClientPrivacy)):
      raise TypeError(
          "`privacy` must be a PointPrivacy or a ClientPrivacy, got "
          f"{type(self.privacy).__name__}."
      )
