"""Private sums that weigh, release by release, which of two data sets was used.

An audit wants to know how well the releases of a whole algorithm tell two neighbouring
data sets apart.  The best score for that is the likelihood ratio of all releases (Neyman,
Pearson 1933).  `AuditedSums` stands in for `PrivateSums`: it makes the same releases, and
asks both data sets the same questions without noise.  For noise of standard deviation s,
an output x adds (b - a) (x - (a + b) / 2) / s^2 to the logarithm of the ratio, where a and b
are the exact values.  That holds for adaptive algorithms too, since each question follows
from earlier outputs.  The code that computes a and b is the audited one, so what it does
wrong to a sum makes the two data sets easier to tell apart.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Sequence, TYPE_CHECKING

import numpy as np

from dp_clustering import clustering_params
from dp_clustering import ledger as privacy_ledger
from dp_clustering import noise
from dp_clustering import private_sums

if TYPE_CHECKING:
  from dp_clustering import cluster_statistics


@dataclasses.dataclass(frozen=True)
class Neighbours:
  """Two data sets that differ in one point, or in all points of one client.

  Attributes:
    without: The first data set, shape (num_points, dim).
    added: What the second one has more, shape (num_added, dim).
  """

  without: np.ndarray
  added: np.ndarray

  @property
  def with_added(self) -> np.ndarray:
    """The second data set; what is added comes last."""
    return np.concatenate([self.without, self.added])


class Evidence:
  """What the releases so far say.

  Attributes:
    log_ratio: The log likelihood ratio of the two data sets.
  """

  def __init__(self) -> None:
    self.log_ratio = 0.0
    self._residuals: list[tuple[np.ndarray, ...]] = []

  def add(
      self,
      noisy: np.ndarray | float,
      exact: Sequence[np.ndarray | float],
      std: np.ndarray | float,
  ) -> None:
    """Adds an output.

    Args:
      noisy: The output.
      exact: Its pair of values without noise.
      std: Standard deviation of the noise, a number or one for each column.
    """
    without, with_added = exact
    change = np.subtract(with_added, without) / std
    distances = (np.asarray(noisy) - np.add(without, with_added) / 2) / std
    self.log_ratio += float((change * distances).sum())
    self._residuals.append(tuple(np.subtract(noisy, one) / std for one in exact))

  def residuals(self, is_second: bool) -> list[np.ndarray]:
    """Returns the noise of every output, in its standard deviations.

    Args:
      is_second: Which of the two data sets was used.
    """
    return [pair[is_second] for pair in self._residuals]


@dataclasses.dataclass(frozen=True)
class AuditedSums:
  """`PrivateSums` or `HashedSums` of one of two data sets, with the evidence for which one it is.

  Attributes:
    sums: Those with noise.
    exact: Those of both data sets without noise.
    radius: Radius of the ball that points are mapped into.
  """

  sums: Any
  exact: Sequence[Any]
  radius: float
  evidence: Evidence

  @property
  def dim(self) -> int:
    return self.sums.dim

  @property
  def mu_left(self) -> float:
    return self.sums.mu_left

  def private_count(self, std: float, name: str) -> float:
    noisy = self.sums.private_count(std, name)
    self.evidence.add(noisy, [sums.private_count(0.0, name) for sums in self.exact], std)
    return noisy

  def hashed(self, hyperplanes: np.ndarray) -> AuditedSums:
    sums, *exact = (sums.hashed(hyperplanes) for sums in (self.sums, *self.exact))
    return dataclasses.replace(self, sums=sums, exact=exact)

  def private_prefix_counts(self, level: int, prefixes: Any, std: float) -> np.ndarray:
    noisy = self.sums.private_prefix_counts(level, prefixes, std)
    exact = [sums.private_prefix_counts(level, prefixes, 0.0) for sums in self.exact]
    self.evidence.add(noisy, exact, std)
    return noisy

  def private_leaf_sums(self, prefixes: Any, levels: Any, noise_multiplier: float) -> np.ndarray:
    noisy = self.sums.private_leaf_sums(prefixes, levels, noise_multiplier)
    exact = [sums.private_leaf_sums(prefixes, levels, 0.0) for sums in self.exact]
    self.evidence.add(noisy, exact, noise_multiplier * self.radius)
    return noisy

  def private_cluster_statistics(
      self,
      centers: np.ndarray,
      residual_radius: float,
      mu: float,
      name: str,
      count_weight: float,
      squared_error_weight: float,
  ) -> cluster_statistics.ClusterStatistics:
    noisy, *exact = (
        sums.private_cluster_statistics(
            centers, residual_radius, budget, name, count_weight, squared_error_weight
        )
        for sums, budget in zip((self.sums, *self.exact), (mu, math.inf, math.inf))
    )
    residual_std = noisy.residual_sum_std
    self.evidence.add(noisy.residual_sums, [one.residual_sums for one in exact], residual_std)
    self.evidence.add(noisy.counts, [one.counts for one in exact], noisy.count_std)
    if squared_error_weight:
      # What noise is added to: the squared errors less half the counts.
      excess, *exact_excess = (
          one.squared_errors - one.counts / 2 * residual_radius**2 for one in (noisy, *exact))
      std = residual_std * residual_radius / squared_error_weight
      self.evidence.add(excess, exact_excess, std)
    return noisy


@dataclasses.dataclass(frozen=True)
class Run:
  """One run of a mechanism that is audited.

  Attributes:
    is_second: Which of the data sets it runs on.
    budget: What it may spend.
    evidence: What its releases say so far.
  """

  neighbours: Neighbours
  is_second: bool
  noise_source: noise.Source
  budget: clustering_params.DifferentialPrivacyParam
  evidence: Evidence = dataclasses.field(default_factory=Evidence)

  @property
  def points(self) -> np.ndarray:
    """The data set that it runs on."""
    return self.neighbours.with_added if self.is_second else self.neighbours.without

  def open_sums(
      self,
      points: np.ndarray,
      radius: float,
      noise_source: noise.Source,
      ledger: privacy_ledger.Ledger,
  ) -> AuditedSums:
    """Stands in for `PrivateSums`, whose arguments it takes."""
    no_noise = noise.NoNoise()
    exact = [
        private_sums.PrivateSums(
            one, radius, no_noise, privacy_ledger.Ledger(math.inf, 0.5, no_noise)
        )
        for one in (self.neighbours.without, self.neighbours.with_added)
    ]
    sums = private_sums.PrivateSums(points, radius, noise_source, ledger)
    return AuditedSums(sums, exact, sums.radius, self.evidence)
