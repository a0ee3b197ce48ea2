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

import dataclasses
import math

import numpy as np

from dp_clustering import ledger as privacy_ledger
from dp_clustering import noise
from dp_clustering import private_sums


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
  def with_added(self):
    """The second data set; what is added comes last."""
    return np.concatenate([self.without, self.added])


class Evidence:
  """The log likelihood ratio of the releases so far."""

  def __init__(self):
    self.log_ratio = 0.0

  def add(self, noisy, exact, std):
    """Adds an output.

    Args:
      noisy: The output, an array or a number.
      exact: Its pair of values without noise.
      std: Standard deviation of the noise, a number or one for each column.
    """
    without, with_added = exact
    change = np.subtract(with_added, without) / std
    distances = (np.asarray(noisy) - np.add(without, with_added) / 2) / std
    self.log_ratio += float((change * distances).sum())


def _exact_sums(points, radius):
  source = noise.NoNoise()
  return private_sums.PrivateSums(
      points, radius, source, privacy_ledger.Ledger(math.inf, 0.5, source)
  )


class AuditedSums:
  """`PrivateSums` of one of two data sets, with the evidence for which one it is.

  Attributes:
    dim: Number of coordinates of a point.
    radius: Radius of the ball that points are mapped into.
  """

  def __init__(self, points, radius, noise_source, ledger, neighbours):
    """Takes what `PrivateSums` takes, and the `Neighbours`."""
    self._sums = private_sums.PrivateSums(points, radius, noise_source, ledger)
    self._exact = [
        _exact_sums(points, radius) for points in (neighbours.without, neighbours.with_added)
    ]
    self._evidence = Evidence()
    self.dim, self.radius = self._sums.dim, self._sums.radius

  @property
  def log_ratio(self):
    """How much the releases speak for the second data set, as a log likelihood ratio."""
    return self._evidence.log_ratio

  @property
  def mu_left(self):
    """The part of the budget that is not spent yet."""
    return self._sums.mu_left

  def private_count(self, std, name):
    """Does `PrivateSums.private_count`."""
    noisy = self._sums.private_count(std, name)
    self._evidence.add(noisy, [sums.private_count(0.0, name) for sums in self._exact], std)
    return noisy

  def hashed(self, hyperplanes):
    """Does `PrivateSums.hashed`."""
    return _AuditedHashedSums(
        self._sums.hashed(hyperplanes), [sums.hashed(hyperplanes) for sums in self._exact],
        self._evidence, self.radius,
    )

  def private_cluster_statistics(
      self, centers, residual_radius, mu, name, count_weight, squared_error_weight
  ):
    """Does `PrivateSums.private_cluster_statistics`."""
    noisy, *exact = (
        sums.private_cluster_statistics(
            centers, residual_radius, budget, name, count_weight, squared_error_weight
        )
        for sums, budget in zip([self._sums, *self._exact], [mu, math.inf, math.inf])
    )
    residual_std = noisy.residual_sum_std
    self._evidence.add(
        noisy.residual_sums, [one.residual_sums for one in exact], residual_std)
    self._evidence.add(noisy.counts, [one.counts for one in exact], noisy.count_std)
    if squared_error_weight:
      # What noise is added to: the squared errors less half the counts.
      excess, *exact_excess = (
          one.squared_errors - one.counts / 2 * residual_radius**2 for one in [noisy, *exact])
      std = residual_std * residual_radius / squared_error_weight
      self._evidence.add(excess, exact_excess, std)
    return noisy


class _AuditedHashedSums:
  """`HashedSums` that add to the evidence."""

  def __init__(self, hashed, exact, evidence, radius):
    self._hashed = hashed
    self._exact = exact
    self._evidence = evidence
    self._radius = radius

  def private_prefix_counts(self, level, prefixes, std):
    """Does `HashedSums.private_prefix_counts`."""
    noisy = self._hashed.private_prefix_counts(level, prefixes, std)
    exact = [one.private_prefix_counts(level, prefixes, 0.0) for one in self._exact]
    self._evidence.add(noisy, exact, std)
    return noisy

  def private_leaf_sums(self, prefixes, levels, noise_multiplier):
    """Does `HashedSums.private_leaf_sums`."""
    noisy = self._hashed.private_leaf_sums(prefixes, levels, noise_multiplier)
    exact = [one.private_leaf_sums(prefixes, levels, 0.0) for one in self._exact]
    self._evidence.add(noisy, exact, noise_multiplier * self._radius)
    return noisy
