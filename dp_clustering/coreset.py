"""The leaves of the tree become a small weighted set, and that becomes k centers.

The algorithm is that of Chang, Ghazi, Kumar, Manurangsi 2021, "Locally Private k-Means in One
Round" (https://arxiv.org/abs/2104.09734), in its central form.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from clustering_basics import single_thread_kmeans
from clustering_basics import validate
from dp_clustering import lsh_tree
from dp_clustering import point_grid
from dp_clustering import private_centers
from dp_clustering import private_sums

if TYPE_CHECKING:
  from dp_clustering import clustering_params
  from dp_clustering import privacy_calculator

_NUM_STARTS = 20
# How far points of a single leaf may be from each other, in radii.
_UNKNOWN_SPREAD = 0.5


@dataclasses.dataclass(frozen=True)
class Coreset:
  """Weighted points that stand for all points; private.

  Attributes:
    points: Noisy means of the leaves, in the ball, of shape (num_leaves, dim).
    weights: Noisy counts of the leaves, shape (num_leaves,).
    sum_std: Standard deviation of the noise on a coordinate of a leaf's sum.
    count_std: That of the noise on a count.
  """

  points: np.ndarray
  weights: np.ndarray
  sum_std: float
  count_std: float


def clip_to_ball(centers: np.ndarray, radius: float) -> np.ndarray:
  """Returns the centers moved into the ball.

  Args:
    centers: Finite array of shape (num_centers, dim).
  """
  norms = np.linalg.norm(centers, axis=1, keepdims=True)
  return centers * (radius / np.maximum(norms, radius))


def private_lsh_coreset(
    sums: private_sums.PrivateSums, k: int, tree_param: clustering_params.TreeParam | None,
    lsh_noise: privacy_calculator.LshNoise, rng: np.random.Generator,
) -> Coreset:
  """Returns the private `Coreset` of the points.

  Args:
    tree_param: `TreeParam`, or None for one that suits the noisy number of points.
    lsh_noise: `LshNoise` for the depth of the tree.  The noise on the sums is what the tree
      is planned with.  The sums, the last release, then get all of the budget that is left,
      so their noise is smaller if the tree ends before its last level.
    rng: `np.random.Generator` for the hyperplanes, which need no protection.
  """
  if tree_param is not None:
    validate.integer(0, private_sums.LARGEST_MAX_DEPTH, max_depth=tree_param.max_depth)
  count_std = lsh_noise.count_std
  private_count = sums.private_count(count_std, "count of all points")
  if tree_param is None:
    tree_param = lsh_tree.default_tree_param(
        k, sums.dim, private_count, lsh_noise.sum_noise_multiplier
    )
  hashed = sums.hashed(rng.normal(size=(tree_param.max_depth, sums.dim)))
  leaves = lsh_tree.private_leaves(hashed, tree_param, private_count, count_std)
  # By rounding, what is left may be less than what was planned, or nothing.
  planned = lsh_noise.sum_noise_multiplier
  noise_multiplier = min(1 / sums.mu_left, planned) if sums.mu_left else planned
  leaf_sums = hashed.private_leaf_sums(leaves.prefixes, leaves.levels, noise_multiplier)
  means = leaf_sums / leaves.private_counts[:, np.newaxis]
  return Coreset(
      clip_to_ball(means, sums.radius), leaves.private_counts, noise_multiplier * sums.radius,
      count_std,
  )


def fit_coreset(
    points: np.ndarray, weights: np.ndarray, k: int, rng: np.random.Generator
) -> np.ndarray:
  """Returns the k centers of weighted k-means.

  Args:
    points: Array of shape (num_points, dim) with at least k rows.
    weights: Positive weights, shape (num_points,).
  """
  # There may be fewer different points than centers, since centers may coincide.
  kmeans = single_thread_kmeans.fit(
      points, k, weights, n_init=_NUM_STARTS, random_state=int(rng.integers(2**31))
  )
  return kmeans.cluster_centers_


def _closest_pairs(centers: np.ndarray, num_pairs: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns the positions of the closest pairs' centers, at most so many, the closest one first."""
  distances, pairs = np.zeros(0), np.zeros((2, 0), int)
  for center in range(len(centers) if num_pairs else 0):
    others = np.arange(center + 1, len(centers))
    # All at once, there would be as many differences as pairs.
    norms = np.linalg.norm(centers[center] - centers[others], axis=1)
    distances = np.concatenate([distances, norms])
    pairs = np.concatenate([pairs, [np.full(len(others), center), others]], axis=1)
    closest = np.argsort(distances, kind="stable")[:num_pairs]
    distances, pairs = distances[closest], pairs[:, closest]
  return pairs[0], pairs[1]


def fill_centers(
    centers: np.ndarray, k: int, spread: float, radius: float, rng: np.random.Generator
) -> np.ndarray:
  """Returns exactly k centers: the given ones, and others where points are likely.

  The added centers cost no privacy and can only lower the loss.  Points that are far
  from their center tend to lie towards its neighbours, so midpoints of the closest
  pairs are added first, then points in random directions.

  Args:
    centers: Private centers, of shape (num_centers, dim), at most k.
    spread: Typical distance of a point from its center.
  """
  first, second = _closest_pairs(centers, k - len(centers))
  centers = np.concatenate([centers, (centers[first] + centers[second]) / 2])
  missing = k - len(centers)
  directions = rng.normal(size=(missing, centers.shape[1]))
  directions *= spread / np.linalg.norm(directions, axis=1, keepdims=True)
  around = centers[np.arange(missing) % len(centers)]
  return np.concatenate([centers, clip_to_ball(around + directions, radius)])


def _of_leaves(coreset: Coreset, centers: np.ndarray) -> private_centers.PrivateCenters:
  """Returns the centers and their noise; each is the mean of the leaves nearest to it."""
  nearest = point_grid.nearest(np, coreset.points, centers)
  num_leaves = np.bincount(nearest, minlength=len(centers))
  counts = np.bincount(nearest, coreset.weights, minlength=len(centers))
  # The sums are of points about the origin: what a count is off moves a center towards it, or away.
  noise_sd = np.hypot(coreset.sum_std, centers * coreset.count_std)
  noise_sd *= (np.sqrt(num_leaves) / np.maximum(counts, 1))[:, np.newaxis]
  return private_centers.of_counts(
      centers, noise_sd, counts, np.sqrt(num_leaves) * coreset.count_std
  )


def exactly_k_centers(
    coreset: Coreset, k: int, radius: float, rng: np.random.Generator
) -> private_centers.PrivateCenters:
  """Returns k private centers of a `Coreset`, which may have fewer than k points."""
  if len(coreset.points) >= k:
    return _of_leaves(coreset, fit_coreset(coreset.points, coreset.weights, k, rng))
  centers = fill_centers(coreset.points, k, _UNKNOWN_SPREAD * radius, radius, rng)
  return _of_leaves(coreset, coreset.points).filled(centers)
