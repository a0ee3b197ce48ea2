"""The settings of federated k-means and of its algorithms, checked as they are made."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, Sequence

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.points import grid_scaling
from fl_clustering.points import privacy as privacy_lib

# Of `Sums`, without `privacy`.
MOST_ROUNDS = 30
_LEAST_ROUNDS = 6


def _count(about: str, default: int | None, least: int = 1, **details: Any) -> Any:
  rule = functools.partial(validate.integer, least)
  return options.option(int, about, default, rule=rule, **details)


def _rounds(default: int) -> Any:
  return _count("The most rounds.", default)


def _restarts(default: int) -> Any:
  return _count("Number of restarts; the one with the lowest inertia is taken.", default)


def _tolerance() -> Any:
  about = "A restart ends when a round of Lloyd lowers its inertia by no more than this share."
  return options.option(float, about, 1e-5, rule=validate.not_negative)


def _least_count() -> Any:
  return _count("The least number of points whose mean leaves a client, at least 2.", 2, least=2)


@dataclasses.dataclass(frozen=True)
class Algorithm(options.Settings):
  """An algorithm with its options."""

  name = ""
  n_init = 1


@dataclasses.dataclass(frozen=True)
class Sums(Algorithm):
  """Splits, Lloyd's algorithm and swaps, by secure sums alone."""

  name = "sums"

  num_rounds: int | None = _count(
      "The most rounds, at least 6 and at least 5 + log2(K), since the first six find at most two "
      "clusters, and each further one at most doubles them. With no more than that, fewer than K "
      "may be found. Eight more rounds find the scale, the final means and their inertia. With "
      "`privacy` it follows from K, and must be left out.",
      None, _LEAST_ROUNDS, default_text=f"{MOST_ROUNDS}",
  )


@dataclasses.dataclass(frozen=True)
class FkmLloyd(Algorithm):
  """Rounds of FKM for good starts, then rounds of Lloyd."""

  name = "fkm_lloyd"

  n_init: int = _restarts(5)
  num_rounds: int = _count("The most rounds of Lloyd.", 100)
  tol: float = _tolerance()
  min_count: int = _least_count()
  fkm_rounds: int = _count("The number of rounds of FKM before.", 3)


@dataclasses.dataclass(frozen=True)
class Lloyd(Algorithm):
  """Lloyd's algorithm by sums, from random centroids."""

  name = "lloyd"

  n_init: int = _restarts(5)
  num_rounds: int = _rounds(100)
  tol: float = _tolerance()


@dataclasses.dataclass(frozen=True)
class Fkm(Algorithm):
  """Garst and Reinders, Federated K-Means Clustering."""

  name = "fkm"

  n_init: int = _restarts(1)
  num_rounds: int = _rounds(20)
  min_count: int = _least_count()


@dataclasses.dataclass(frozen=True)
class KFed(Algorithm):
  """k-FED of Dennis, Li and Smith, one round that gathers."""

  name = "kfed"

  n_init: int = _restarts(1)
  min_count: int = _least_count()
  local_clusters: int | None = _count(
      "The number of clusters to look for on a client, at most K.", None, default_text="K"
  )


@dataclasses.dataclass(frozen=True)
class ChildParent(Algorithm):
  """k-means of the clients' centroids, one round that gathers."""

  name = "child_parent"

  n_init: int = _restarts(1)
  min_count: int = _least_count()
  weight_by_counts: bool = options.option(
      bool, "Whether the server weighs the clients' centroids by their numbers of points.", False,
      rule=validate.boolean,
  )
  lloyd_rounds: int = _count(
      "The most rounds of Lloyd to add at the end, by sums; they end when nothing improves.", 0,
      least=0,
  )


@dataclasses.dataclass(frozen=True)
class TffMinibatch(Algorithm):
  """TFF's mini-batch k-means (`tff.learning.algorithms.build_fed_kmeans`), for comparison."""

  name = "tff_minibatch"

  n_init: int = _restarts(1)
  num_rounds: int = _rounds(20)


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
