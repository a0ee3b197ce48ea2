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
  # What leaves a client, in sentences for the user.
  leaves = ""
  n_init = 1


@dataclasses.dataclass(frozen=True)
class Sums(Algorithm):
  """Splits, Lloyd's algorithm and swaps, by secure sums alone."""

  name = "sums"
  leaves = (
      f"The server gets totals over all clients: {_TOTALS} {privacy_lib.EXACT_TOTALS} "
      "Secure sums hide whose rows they are."
  )

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
  leaves = (
      "In its first rounds the server gets every client's own means and counts, for every "
      f"restart; in those of Lloyd, sums that aren't secure. {_MEANS} On standardised wine at "
      "up to eight clients, with eight clusters, between 39 and 61 of the 178 rows were such a "
      f"difference (three seeds). {_KEPT}"
  )

  n_init: int = _restarts(5)
  num_rounds: int = _count("The most rounds of Lloyd.", 100)
  tol: float = _tolerance()
  min_count: int = _least_count()
  fkm_rounds: int = _count("The number of rounds of FKM before.", 3)


@dataclasses.dataclass(frozen=True)
class Lloyd(Algorithm):
  """Lloyd's algorithm by sums, from random centroids."""

  name = "lloyd"
  leaves = (
      "The server gets exact sums, counts and the inertia. They hide a client only if they are "
      "added up in a secure sum, which this algorithm doesn't use."
  )

  n_init: int = _restarts(5)
  num_rounds: int = _rounds(100)
  tol: float = _tolerance()


@dataclasses.dataclass(frozen=True)
class Fkm(Algorithm):
  """Garst and Reinders, Federated K-Means Clustering."""

  name = "fkm"
  leaves = (
      f"In every round the server gets every client's own means and counts. {_MEANS} {_KEPT}"
  )

  n_init: int = _restarts(1)
  num_rounds: int = _rounds(20)
  min_count: int = _least_count()


@dataclasses.dataclass(frozen=True)
class KFed(Algorithm):
  """k-FED of Dennis, Li and Smith, one round that gathers."""

  name = "kfed"
  leaves = (
      "The server gets every client's own means and counts, once. A mean of a few points is weak "
      f"protection. {_KEPT}"
  )

  n_init: int = _restarts(1)
  min_count: int = _least_count()
  local_clusters: int | None = _count(
      "The number of clusters to look for on a client, at most K.", None, default_text="K"
  )


@dataclasses.dataclass(frozen=True)
class ChildParent(Algorithm):
  """k-means of the clients' centroids, one round that gathers."""

  name = "child_parent"
  leaves = (
      "The server gets every client's own means and counts, once per restart. A mean of a few "
      f"points is weak protection. {_KEPT}"
  )

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
  leaves = (
      "The server gets sums and counts of every client's points by cluster. "
      "They are exact, and this algorithm doesn't add them up in a secure sum."
  )

  n_init: int = _restarts(1)
  num_rounds: int = _rounds(20)


# By their names; the default comes first.
ALGORITHMS: dict[str, type[Algorithm]] = {
    algorithm.name: algorithm
    for algorithm in (Sums, FkmLloyd, Lloyd, Fkm, KFed, ChildParent, TffMinibatch)
}


def algorithm_of(name: str, **asked: Any) -> Algorithm:
  """Returns an algorithm by its name, with options; see `options.chosen`."""
  return options.chosen("algorithm", ALGORITHMS, name, **asked)


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
