"""Mechanisms to audit: the real releases, and the same with planted bugs.

A mechanism is a function of (points, noise source, budget) that spends the budget on
one release and returns a score: a number that tells two data sets apart as well as
possible.  The second data set has one point more than the first.
"""

import dataclasses
import math
from typing import Callable

import numpy as np

from dp_clustering import ledger as privacy_ledger
from dp_clustering import privacy_calculator
from dp_clustering import private_sums

_DIM = 5
_COUNT_WEIGHT = 0.5
_SQUARED_ERROR_WEIGHT = 1.0


@dataclasses.dataclass(frozen=True)
class Budget:
  """What a mechanism may spend.

  Attributes:
    epsilon: The epsilon that is claimed.
    delta: The delta that is claimed.
  """

  epsilon: float
  delta: float


def _open(points, noise_source, budget):
  """Returns `PrivateSums` of points in the unit ball, and the mu of the budget."""
  ledger = privacy_ledger.Ledger(budget.epsilon, budget.delta, noise_source)
  mu = privacy_calculator.gaussian_mu(budget.epsilon, budget.delta)
  return private_sums.PrivateSums(points, 1.0, noise_source, ledger), mu


def _count(points, noise_source, budget):
  """Scores a private count."""
  sums, mu = _open(points, noise_source, budget)
  return sums.private_count(1 / mu, "count")


def _cluster_statistics(
    centers, residual_radius, residual_change, count_change, excess_change
):
  """Returns a mechanism: the residual sums, counts and squared errors of centers.

  Its score is the exponent of the likelihood ratio: what the additional point changes
  in each part, times the noisy part, over the variance of the noise.

  Args:
    centers: Array of shape (num_centers, dim).
    residual_radius: Norm that residuals are clipped to.
    residual_change: Change of the residual sums, in such norms, (num_centers, dim).
    count_change: Change of the counts, shape (num_centers,).
    excess_change: Change of the squared errors less half the counts, which is what
      noise is added to; in squares of such norms, shape (num_centers,).
  """
  def mechanism(points, noise_source, budget):
    sums, mu = _open(points, noise_source, budget)
    noisy = sums.private_cluster_statistics(
        centers, residual_radius, mu, name="cluster", count_weight=_COUNT_WEIGHT,
        squared_error_weight=_SQUARED_ERROR_WEIGHT,
    )
    excess = noisy.squared_errors / residual_radius**2 - noisy.counts / 2
    exponent = (
        (noisy.residual_sums / residual_radius * residual_change).sum()
        + _COUNT_WEIGHT**2 * noisy.counts @ count_change
        + _SQUARED_ERROR_WEIGHT**2 * excess @ excess_change
    )
    return float(exponent) * (residual_radius / noisy.residual_sum_std) ** 2

  return mechanism


def _leaf_sum(points, noise_source, budget):
  """Scores the sum of the leaf that the far point is in."""
  sums, mu = _open(points, noise_source, budget)
  leaves = sums.hashed(-_FAR_POINT)
  return float(leaves.private_leaf_sums([0, 1], [1, 1], 1 / mu)[1] @ _FAR_POINT[0])


def _prefix_counts_on_border(points, noise_source, budget):
  """Scores how many points are on the second side of a hyperplane, and not the first."""
  sums, mu = _open(points, noise_source, budget)
  counts = sums.hashed(_HYPERPLANE).private_prefix_counts(1, [0, 1], 1 / mu)
  return float(counts @ _BORDER_CHANGE)


def _random_vectors(num_vectors, norm, rng):
  vectors = rng.normal(size=(num_vectors, _DIM))
  return vectors * (norm / np.linalg.norm(vectors, axis=1, keepdims=True))


def _border(is_second):
  """Returns a hyperplane, and a point on it whose side is decided by rounding.

  A matrix product may round a row differently when there is another row.  So one
  point more could send a point to the other side, which no sensitivity accounts for.
  The point is chosen so that the matrix product of this machine does that.

  Args:
    is_second: Function of points and a normal vector, shape (1, dim): whether each
      point is on the second side, by the product of all points with something.

  Returns:
    A pair of the hyperplane's normal and the point, both of shape (1, dim).
  """
  rng = np.random.default_rng(1)
  for _ in range(10_000):
    normal, point = _random_vectors(2, 1.0, rng)[:, np.newaxis]
    point -= normal * (point @ normal.T)
    if is_second(np.repeat(point, 2, axis=0), normal).all() and not is_second(point, normal):
      break
  return normal, point


def _centers_beside(normal):
  return np.concatenate([normal, -normal]) / 2


def _is_nearer_to_second(points, normal):
  centers = _centers_beside(normal)
  half_squares = (centers * centers).sum(axis=1) / 2
  return np.argmin(half_squares - points @ centers.T, axis=1) == 1


# Few points: what the others are must not matter.
_OTHERS = np.full((3, _DIM), 0.05)
# Of norm 1, and far from whole coordinates, so that rounding to them shows.
_FAR_POINT = np.full((1, _DIM), _DIM**-0.5)
_NAN_POINT = np.full((1, _DIM), np.nan)
# If the second copy of a point sends the first one to the other side.
_BORDER_CHANGE = np.array([-1.0, 2.0])
_HYPERPLANE, _POINT_ON_HYPERPLANE = _border(lambda points, normal: points @ normal.T < 0)
_BETWEEN, _POINT_BETWEEN = _border(_is_nearer_to_second)
_CENTERS = _centers_beside(_BETWEEN)
_RESIDUALS = _POINT_BETWEEN - _CENTERS

_ORIGIN = np.zeros((1, _DIM))
_cluster_sum = _cluster_statistics(_ORIGIN, 1.0, _FAR_POINT, np.array([1.0]), np.array([0.5]))
# NaN counts as the origin.
_cluster_sum_at_origin = _cluster_statistics(
    _ORIGIN, 1.0, _ORIGIN, np.array([1.0]), np.array([-0.5])
)
_cluster_sums_on_border = _cluster_statistics(
    _CENTERS, 0.5,
    _RESIDUALS * (_BORDER_CHANGE / np.linalg.norm(_RESIDUALS, axis=1))[:, np.newaxis],
    _BORDER_CHANGE, _BORDER_CHANGE / 2,
)


class _HalfTheNoise:
  """A noise source that gives half the noise that is asked for: a planted bug."""

  def __init__(self, noise_source):
    self.description = noise_source.description
    self.is_private = noise_source.is_private
    self._noise_source = noise_source

  def discrete_gaussian(self, shape, scale):
    return self._noise_source.discrete_gaussian(shape, scale / 2)


def _with_half_the_noise(mechanism):
  return lambda points, noise_source, budget: mechanism(
      points, _HalfTheNoise(noise_source), budget)


def _sum_rounded_away(points, noise_source, budget):
  """Scores a sum with the sensitivity of the points, not of what they are rounded to."""
  mu = privacy_calculator.gaussian_mu(budget.epsilon, budget.delta)
  rounded = np.sign(points) * np.ceil(np.abs(points))
  return float((rounded.sum(axis=0) + noise_source.discrete_gaussian(_DIM, 1 / mu)).sum())


def _count_that_refuses_nan(points, noise_source, budget):
  if np.isnan(points).any():
    raise ValueError("The points must be numbers.")
  return _count(points, noise_source, budget)


@dataclasses.dataclass(frozen=True)
class Case:
  """A mechanism, its two data sets, and what to expect.

  Attributes:
    mechanism: Function of points, noise source and `Budget`; returns a score.
    point: What the second data set has more than the first, shape (1, dim).
    others: The first data set, shape (num_points, dim).
    has_bug: Whether the audit has to find more than the claimed epsilon.
  """

  mechanism: Callable[..., float]
  point: np.ndarray
  others: np.ndarray = dataclasses.field(default_factory=lambda: _OTHERS)
  has_bug: bool = False

  def run_without(self, noise_source, budget):
    """Returns the score of one run without the point."""
    return self.mechanism(self.others, noise_source, budget)

  def run_with(self, noise_source, budget):
    """Returns the score of one run with the point, `inf` if it ended in an exception."""
    points = np.concatenate([self.others, self.point])
    try:
      return self.mechanism(points, noise_source, budget)
    except Exception:  # pylint: disable=broad-except
      return math.inf  # Whatever it is, who waits for the release sees it.


CASES = {
    "count": Case(_count, _FAR_POINT),
    "cluster sum": Case(_cluster_sum, _FAR_POINT),
    "leaf sum": Case(_leaf_sum, _FAR_POINT),
    "count, a row of NaN": Case(_count, _NAN_POINT),
    "cluster sum, a row of NaN": Case(_cluster_sum_at_origin, _NAN_POINT),
    "cluster sums, point on a border": Case(
        _cluster_sums_on_border, _POINT_BETWEEN, _POINT_BETWEEN),
    "prefix counts, point on a border": Case(
        _prefix_counts_on_border, _POINT_ON_HYPERPLANE, _POINT_ON_HYPERPLANE),
    "count, half the noise": Case(
        _with_half_the_noise(_count), _FAR_POINT, has_bug=True),
    "cluster sum, half the noise": Case(
        _with_half_the_noise(_cluster_sum), _FAR_POINT, has_bug=True),
    "sum, rounded away from zero": Case(_sum_rounded_away, _FAR_POINT, has_bug=True),
    "count, NaN is refused": Case(_count_that_refuses_nan, _NAN_POINT, has_bug=True),
}
