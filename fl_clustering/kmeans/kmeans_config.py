"""The settings of federated k-means and of its algorithms, checked as they are made."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable, Mapping, Sequence

from clustering_basics import validate
from fl_clustering.points import grid_scaling
from fl_clustering.points import privacy as privacy_lib

FRESH = "fresh"
WARM = "warm"
# Of `Sums`, without `privacy`.
MOST_ROUNDS = 30
_LEAST_ROUNDS = 6

_CHECKS: Mapping[str, Callable[[Any], None]] = {
    "n_init": lambda value: validate.integer(minimum=1, n_init=value),
    "num_rounds": lambda value: validate.integer(minimum=1, num_rounds=value),
    "tol": lambda value: validate.not_negative(tol=value),
    "min_count": lambda value: validate.integer(minimum=2, min_count=value),
    "fkm_rounds": lambda value: validate.integer(minimum=1, fkm_rounds=value),
    "server_init": lambda value: validate.one_of((FRESH, WARM), server_init=value),
    "local_iterations": lambda value: validate.integer(minimum=1, local_iterations=value),
    "local_clusters": lambda value: validate.integer(minimum=1, local_clusters=value),
    "lloyd_rounds": lambda value: validate.integer(minimum=0, lloyd_rounds=value),
    "weight_by_counts": lambda value: validate.boolean(weight_by_counts=value),
    "shuffle": lambda value: validate.boolean(shuffle=value),
}


@dataclasses.dataclass(frozen=True)
class Algorithm:
  """An algorithm with its options.

  Attributes:
    n_init: Number of restarts; the one with the lowest inertia is taken.
    num_rounds: The most rounds.
    min_count: The least number of points whose mean leaves a client, at least 2.
    lloyd_rounds: The most rounds of Lloyd to add at the end, by sums.  They end early when
      nothing improves.
  """

  name = ""
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
    server_init: As in `Fkm`.
    local_iterations: As in `Fkm`.
  """

  name = "fkm_lloyd"

  n_init: int = 5
  num_rounds: int = 100
  tol: float = 1e-5
  min_count: int = 2
  fkm_rounds: int = 3
  server_init: str = FRESH
  local_iterations: int = 1


@dataclasses.dataclass(frozen=True)
class Lloyd(Algorithm):
  """Lloyd's algorithm by sums, from random centroids.

  Attributes:
    tol: A restart ends when a round lowers its inertia by no more than this share.
  """

  name = "lloyd"

  n_init: int = 5
  num_rounds: int = 100
  tol: float = 1e-5


@dataclasses.dataclass(frozen=True)
class Fkm(Algorithm):
  """Garst and Reinders, Federated K-Means Clustering.

  Attributes:
    server_init: Where the server's k-means of the clients' means starts in every round; "fresh"
      from new seeds, "warm" from the last global centroids.
    local_iterations: Lloyd steps of a client in every round but the first.
  """

  name = "fkm"

  n_init: int = 1
  num_rounds: int = 20
  min_count: int = 2
  server_init: str = FRESH
  local_iterations: int = 1
  lloyd_rounds: int = 0


@dataclasses.dataclass(frozen=True)
class KFed(Algorithm):
  """k-FED of Dennis, Li and Smith, one round that gathers.

  Attributes:
    local_clusters: The number of clusters to look for on a client, at most K.  Default: K.
  """

  name = "kfed"

  n_init: int = 1
  min_count: int = 2
  local_clusters: int | None = None
  lloyd_rounds: int = 0


@dataclasses.dataclass(frozen=True)
class ChildParent(Algorithm):
  """k-means of the clients' centroids, one round that gathers.

  Attributes:
    weight_by_counts: Whether the server weighs the clients' centroids by their numbers of points.
    shuffle: Whether a client shuffles its points before it sets a quarter of them aside.
  """

  name = "child_parent"

  n_init: int = 1
  min_count: int = 2
  weight_by_counts: bool = False
  shuffle: bool = False
  lloyd_rounds: int = 0


@dataclasses.dataclass(frozen=True)
class TffMinibatch(Algorithm):
  """TFF's mini-batch k-means (`tff.learning.algorithms.build_fed_kmeans`), for comparison."""

  name = "tff_minibatch"

  n_init: int = 1
  num_rounds: int = 20


# By their names; the default comes first.
ALGORITHMS: dict[str, type[Algorithm]] = {
    algorithm.name: algorithm
    for algorithm in (Sums, FkmLloyd, Lloyd, Fkm, KFed, ChildParent, TffMinibatch)
}


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
      validate.one_of(ALGORITHMS, algorithm=self.algorithm)
      object.__setattr__(self, "algorithm", ALGORITHMS[self.algorithm]())
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
