"""Private k-means by splitting and refining, through noisy sums alone.

Three stages, each of which sees the points only through the noisy residual sums,
counts and squared errors of the points nearest to each center (`PrivateSums`):

1. Split. One center, at the origin, moves to the noisy mean of its points.  Then
   centers are split in two along a random direction, those with the largest
   squared error first, and starved ones are dropped.  This goes on until there are
   two or three times k centers (Linde, Buzo, Gray 1980, "An Algorithm for Vector
   Quantizer Design", made private).
2. Reduce them to k by weighted k-means, which needs no data.
3. Refine the k centers by a few private Lloyd steps.

Four properties make it useful at small epsilon.  Centers are split at private means and
not at hyperplanes through the origin.  Residuals are clipped to a radius that follows the
private spread of the clusters, so the noise shrinks with the clusters.  A move that could
be noise alone is shrunk (James, Stein 1961), but for the last one where the noise is small, so that
it is known.  A center is not split if the noise on its
children's means would be too large.  Residual clipping to a private radius follows Lu,
Shen (2020) and the idea of FastLloyd (Diaa, Humphries, Kerschbaum 2024,
https://arxiv.org/abs/2405.02437).

Nothing here is chosen by looking at the private data.  All constants are fixed, and
the noise of every step is fixed before the first step.  So is the number of steps: if the
number of points is public and small for the budget, there are fewer, with less noise each.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple, Sequence, TYPE_CHECKING

import numpy as np

from dp_clustering import cluster_statistics
from dp_clustering import coreset
from dp_clustering import point_grid
from dp_clustering import private_centers as private_centers_lib

if TYPE_CHECKING:
  from dp_clustering import private_sums

# Weights of counts and squared errors relative to the residual sums in a release.
_SPLIT_WEIGHTS = {"count_weight": 0.4, "squared_error_weight": 0.5}
_REFINE_WEIGHTS = {"count_weight": 0.25, "squared_error_weight": 0.0}
# Residuals are clipped to this many times their root mean square.
_CLIP_FACTOR = 1.15
_SMALLEST_CLIP = 0.02  # In radii.  Noise alone must not make the clip radius vanish.
# Centers with counts below this many standard deviations of the count are dropped.
_STARVED = 2.0
# Planning numbers up to which separated clusters are found, and above which many are missed: of 3
# to 30 Gaussians in 2 to 40 dimensions, at most 1% of what tells them apart was lost at the first,
# 4% to 56% at the second, and 43% or more at 2.
SMALL_NOISE = 0.1
LARGE_NOISE = 0.5
# A center is split only if the noise of its children's means would be at most this part
# of the clip radius.
_LARGEST_CHILD_NOISE = 0.5
_CHILD_OFFSET = 0.05  # In clip radii.
# If the noise of a center of a cluster of mean size is at most this part of the clip radius, the
# clip radius is that of the merged centers, and the last moves are whole: then what is left of the
# noise of earlier steps is small, too, and the noise of a center is known.  Otherwise a smaller
# clip radius and shrinking are worth more.
_LARGEST_CLEAR_NOISE = 0.15


@dataclasses.dataclass(frozen=True)
class _Plan:
  """How many centers and steps there are.

  Attributes:
    centers_per_cluster: More centers than clusters let weighted k-means choose among them.
    extra_split_steps: Splits double the centers.  These extra steps replace dropped centers.
    refine_share: Share of the budget (of mu squared) for the last stage.
  """

  centers_per_cluster: int
  extra_split_steps: int
  refine_steps: int
  refine_share: float


_PLAN = _Plan(3, 3, 3, 0.5)
# For fewer points than this, each plan with the signal below which it is used, see `_signal`.
# Fewer steps have less noise each, so that it does not stop the splits.  The limits were chosen on
# small data sets.  With 20,000 points in 64 clusters, the extra steps are worth their noise.
_FEW_POINTS = 500
_PLANS_FOR_FEW_POINTS = ((20.0, _Plan(2, 0, 2, 0.4)), (50.0, _Plan(2, 1, 2, 0.4)))


@dataclasses.dataclass(frozen=True)
class _Schedule:
  """The number of steps and what each may spend; fixed before the first step.

  Attributes:
    split_mus: mu of every split step, as a Gaussian mechanism (Dong, Roth, Su 2019).
    refine_mus: mu of every Lloyd step on k centers.
  """

  max_centers: int
  split_mus: tuple[float, ...]
  refine_mus: tuple[float, ...]


def largest_num_centers(k: int) -> int:
  """Returns the most centers that `private_centers` asks about at a time."""
  return _PLAN.centers_per_cluster * k


def planning_number(
    k: int, mu: float, dim: int, num_points: float, growth: float = 1.0,
    public_num_points: int | None = None,
) -> float:
  """Returns the planning number: how large the noise is beside what it hides; public.

  In the last split there are some centers for each cluster.  The noise on the mean of one of mean
  size, in clip radii, is as long as this number in the directions in which it hides a move (see
  `_signal`).

  Args:
    mu: Of the budget of all releases.
    num_points: How many points there are, about; must not be taken from the points.
    public_num_points: As of `private_centers`.
    growth: How many times as large the noise is as that of the budget for one point, for example
      where the unit is a client, or all clients add shares of which few count.
  """
  plan = _plan(k, mu, dim, public_num_points)
  noise = growth * cluster_statistics.point_sensitivity(**_SPLIT_WEIGHTS)
  *_, last_mu = _schedule(k, mu, plan).split_mus
  return plan.centers_per_cluster * noise / last_mu / _signal(k, 1.0, dim, num_points)


def least_num_points(k: int, mu: float, dim: int, growth: float = 1.0) -> int:
  """Returns the number of points below which the planning number exceeds `SMALL_NOISE`."""
  return math.ceil(planning_number(k, mu, dim, SMALL_NOISE, growth))


def planning_warnings(k: int, noise: float) -> list[str]:
  """Returns warnings, in words, that a planning number is too large; public."""
  if noise <= SMALL_NOISE:
    return []
  meaning = "some may" if noise <= LARGE_NOISE else "many will"
  return [
      f"the noise is {noise:.2g} of what it hides, for {k} clusters: {meaning} be missed; more "
      "points, fewer clusters, fewer columns or a larger `epsilon` make it less."
  ]


def _signal(k: int, mu: float, dim: int, num_points: float) -> float:
  """Returns how clearly the move of a cluster of mean size would show in a single release.

  The noise on the mean of a cluster of m points has a standard deviation s in proportion to
  1 / (mu m) per coordinate.  Its square varies around dim s^2 by about sqrt(dim) s^2, which the
  square of a move must exceed: hence the root of a root.
  """
  return mu * num_points / (k * dim**0.25)


def _plan(k: int, mu: float, dim: int, public_num_points: int | None) -> _Plan:
  if public_num_points is not None and public_num_points < _FEW_POINTS:
    signal = _signal(k, mu, dim, public_num_points)
    for limit, plan in _PLANS_FOR_FEW_POINTS:
      if signal < limit:
        return plan
  return _PLAN


def _schedule(k: int, mu: float, plan: _Plan) -> _Schedule:
  """Returns the `_Schedule` for k centers; the squares of its mus add up to mu^2."""
  max_centers = plan.centers_per_cluster * k
  num_splits = math.ceil(math.log2(max_centers)) + plan.extra_split_steps
  # In proportion to the number of centers, as more centers have fewer points each.
  shares = np.minimum(2.0 ** np.arange(num_splits + 1), max_centers)
  shares *= (1 - plan.refine_share) / shares.sum()
  refine_mu = mu * math.sqrt(plan.refine_share / plan.refine_steps)
  return _Schedule(
      max_centers,
      tuple(float(mu * math.sqrt(share)) for share in shares),
      (refine_mu,) * plan.refine_steps,
  )


class _Moves(NamedTuple):
  """How centers move in a step.

  Attributes:
    moves: From each to its noisy mean, of shape (num_centers, dim).
    noise_sd: Standard deviation of the noise on a coordinate of a move, of shape (num_centers,).
    kept: The share of each move that is kept, likewise.
  """

  moves: np.ndarray
  noise_sd: np.ndarray
  kept: np.ndarray

  def moved(self, centers: np.ndarray, radius: float) -> np.ndarray:
    """Returns the centers after the step, in the ball."""
    return coreset.clip_to_ball(centers + self.kept[:, np.newaxis] * self.moves, radius)

  def next_sd(self, noise_sd: np.ndarray) -> np.ndarray:
    """Returns the noise of the centers after the step from that before, standard deviations.

    The part of a move that is kept takes the place of as large a part of what was there.
    """
    before = np.where(self.kept < 1, (1 - self.kept) * noise_sd, 0)  # It may be infinite.
    return np.hypot(self.kept * self.noise_sd, before)

  @property
  def squares(self) -> np.ndarray:
    """The squared lengths of the steps, of shape (num_centers,)."""
    return self.kept**2 * (self.moves**2).sum(axis=1)


def _moves(
    statistics: cluster_statistics.ClusterStatistics, shrinks: bool = True
) -> _Moves:
  """Returns how centers move towards their noisy means, less the expected noise.

  The move of a center is the noisy mean of its points' residuals.  The expected
  square of its noise is known.  The move is shrunk by the ratio of that to its own
  square, as in the positive-part James-Stein estimator.  A center that may have no points stays.

  Args:
    shrinks: False for whole moves, noise included.
  """
  counts = np.maximum(statistics.counts, 1)
  moves = statistics.residual_sums / counts[:, np.newaxis]
  squares = (moves**2).sum(axis=1)
  # The limits of what is dropped and split are for the noise that was asked for: with more of it,
  # they would leave too few centers.
  noise_sd = statistics.noise_factor * statistics.residual_sum_std / counts
  kept = np.ones_like(squares)
  if shrinks:
    noise = moves.shape[1] * noise_sd**2
    kept -= np.divide(noise, squares, out=np.ones_like(squares), where=squares > noise)
  kept[statistics.counts < _STARVED * statistics.count_std] = 0
  return _Moves(moves, noise_sd, kept)


def _remaining_errors(
    statistics: cluster_statistics.ClusterStatistics, squared_moves: np.ndarray
) -> np.ndarray:
  """Returns the squared error of every center after its move, at least zero."""
  gains = np.maximum(statistics.counts, 0) * squared_moves
  return np.maximum(statistics.squared_errors - gains, 0)


def _clip_radius(counts: np.ndarray, squared_errors: np.ndarray, radius: float) -> float:
  """Returns the next clip radius of residuals, from the noisy spread of the clusters."""
  there = counts > 0
  mean_square = squared_errors[there].sum() / max(counts[there].sum(), 1)
  return float(
      np.clip(_CLIP_FACTOR * math.sqrt(mean_square), _SMALLEST_CLIP * radius, 2 * radius)
  )


def _children(
    centers: np.ndarray, counts: np.ndarray, errors: np.ndarray, least_count: float,
    keep: np.ndarray, max_centers: int, offset: float, rng: np.random.Generator,
) -> np.ndarray:
  """Returns the centers after one round of splitting and dropping.

  Args:
    centers: Array of shape (num_centers, dim).
    counts: Noisy counts of the centers, shape (num_centers,).
    errors: Noisy squared errors of the centers, shape (num_centers,).
    least_count: Smallest count of a center that may be split.
    keep: Boolean array, shape (num_centers,), which marks the centers that are not
      starved.
    offset: Distance of a child from its parent.
  """
  order = np.argsort(-errors, kind="stable")
  candidates = order[(keep & (counts >= least_count) & (errors > 0))[order]]
  parents = candidates[: max(0, max_centers - np.count_nonzero(keep))]
  directions = rng.normal(size=(len(parents), centers.shape[1]))
  directions *= offset / np.linalg.norm(directions, axis=1, keepdims=True)
  keep = keep.copy()
  keep[parents] = False
  return np.concatenate(
      [centers[keep], centers[parents] + directions, centers[parents] - directions]
  )


def _not_starved(statistics: cluster_statistics.ClusterStatistics) -> np.ndarray:
  """Returns which centers are not starved, as booleans; all True if every one is."""
  keep = statistics.counts >= np.maximum(_STARVED * statistics.count_std, 1)
  return keep if keep.any() else np.ones_like(keep)


class _Split(NamedTuple):
  """Centers after the split stage.

  Attributes:
    centers: Of shape (num_centers, dim).
    counts: Their noisy counts, of shape (num_centers,).
    errors: Their squared errors, of shape (num_centers,).
    noise_sd: Standard deviation of the noise on a coordinate of each, of shape (num_centers,).
    unit_noise: Standard deviation of all noise on a residual sum, in clip radii, at mu = 1.
    clip_radius: For the residuals of the next step.
  """

  centers: np.ndarray
  counts: np.ndarray
  errors: np.ndarray
  noise_sd: np.ndarray
  unit_noise: float
  clip_radius: float


def _merged(
    split: _Split, k: int, is_clear: bool, radius: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float]:
  """Returns k of the centers, their noise, and the clip radius for their residuals.

  Args:
    is_clear: See `_LARGEST_CLEAR_NOISE`.
  """
  if len(split.centers) <= k:
    return split.centers, split.noise_sd, split.clip_radius
  weights = np.maximum(split.counts, 1)
  centers = coreset.fit_coreset(split.centers, weights, k, rng)
  nearest = point_grid.nearest(np, split.centers, centers)
  noise_sd = private_centers_lib.merged_sd(split.noise_sd, weights, nearest, k)
  if not is_clear:
    return centers, noise_sd, split.clip_radius
  # Fewer centers are farther from their points.
  squares = ((split.centers - centers[nearest]) ** 2).sum(axis=1)
  return centers, noise_sd, _clip_radius(
      split.counts, split.errors + split.counts * squares, radius
  )


def _split_stage(
    sums: private_sums.PrivateSums, mus: Sequence[float], max_centers: int, rng: np.random.Generator
) -> _Split:
  """Returns up to `max_centers` centers, and what is known of them."""
  centers = np.zeros((1, sums.dim))
  clip_radius = sums.radius
  for step, mu in enumerate(mus):
    statistics = sums.private_cluster_statistics(
        centers, clip_radius, mu, name=f"split step {step}", **_SPLIT_WEIGHTS
    )
    moves = _moves(statistics)
    centers = moves.moved(centers, sums.radius)
    errors = _remaining_errors(statistics, moves.squares)
    # For a budget of one, in clip radii.
    noise = statistics.residual_sum_std / clip_radius * mu
    all_noise = noise * statistics.noise_factor
    clip_radius = _clip_radius(statistics.counts, errors, sums.radius)
    if step + 1 < len(mus):
      next_noise = noise / mus[step + 1] if mu < math.inf else 0.0
      least_count = max(2.0, next_noise * math.sqrt(sums.dim) / _LARGEST_CHILD_NOISE)
      centers = _children(
          centers, statistics.counts, errors, least_count, _not_starved(statistics),
          max_centers, _CHILD_OFFSET * clip_radius, rng,
      )
  return _Split(centers, statistics.counts, errors, moves.noise_sd, all_noise, clip_radius)


def private_centers(
    sums: private_sums.PrivateSums, k: int, mu: float, rng: np.random.Generator,
    public_num_points: int | None = None,
) -> private_centers_lib.PrivateCenters:
  """Returns k private centers.

  Args:
    sums: `PrivateSums` over the points, the only access to them.
    mu: The budget, as mu of Gaussian differential privacy; `inf` for no noise.
    rng: `np.random.Generator` for what needs no protection: split directions and the
      seeds of k-means.
    public_num_points: See `clustering_params.Data`; must not be taken from the points.

  Returns:
    Private centers, finite, of shape (k, dim), each within `sums.radius`.
  """
  schedule = _schedule(k, mu, _plan(k, mu, sums.dim, public_num_points))
  split = _split_stage(sums, schedule.split_mus, schedule.max_centers, rng)
  *_, last_mu = schedule.refine_mus
  mean_count = max(split.counts.sum(), 1) / k
  is_clear = (
      mu == math.inf or
      split.unit_noise / last_mu * math.sqrt(sums.dim) <= _LARGEST_CLEAR_NOISE * mean_count
  )
  centers, noise_sd, clip_radius = _merged(split, k, is_clear, sums.radius, rng)
  for step, step_mu in enumerate(schedule.refine_mus, start=1):
    statistics = sums.private_cluster_statistics(
        centers, clip_radius, step_mu, name=f"refine step {step - 1}", **_REFINE_WEIGHTS
    )
    is_last = step == len(schedule.refine_mus)
    moves = _moves(statistics, shrinks=not (is_last and is_clear))
    centers, noise_sd = moves.moved(centers, sums.radius), moves.next_sd(noise_sd)
  found = private_centers_lib.of_counts(
      centers, noise_sd[:, np.newaxis], statistics.counts,
      statistics.noise_factor * statistics.count_std,
  )
  return found.filled(
      coreset.fill_centers(centers, k, clip_radius / _CLIP_FACTOR, sums.radius, rng)
  )
