"""The tree of hash prefixes, grown by noisy counts alone.

A point's hash has one bit per level, which says on which side of a random hyperplane
through the origin the point is (SimHash: Charikar 2002, "Similarity Estimation
Techniques from Rounding Algorithms").  The root is the empty prefix.  A node branches if
its private count is large enough.  Each of its two children then gets a private count of
its own, and is dropped if that is too small.  Only living nodes are visited, level by
level, so the cost grows with the leaves and not with 2^depth.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Iterator, TYPE_CHECKING

import numpy as np

from dp_clustering import clustering_params

if TYPE_CHECKING:
  from dp_clustering import private_sums

DEFAULT_MAX_DEPTH = 20
# A leaf's noise should be below a tenth of its sum's possible length.
_COUNT_TO_NOISE = 10
_BRANCHING_TO_NODE = 3


@dataclasses.dataclass(frozen=True)
class Leaves:
  """The leaves of a tree; everything in it is private.

  Attributes:
    prefixes: Hash prefixes, integers below 2^level, shape (num_leaves,).
    levels: Numbers of bits of the prefixes, shape (num_leaves,).
    private_counts: Noisy numbers of points, at least 1, shape (num_leaves,).
  """

  prefixes: np.ndarray
  levels: np.ndarray
  private_counts: np.ndarray


def default_tree_param(
    k: int, dim: int, private_count: float, sum_noise_multiplier: float
) -> clustering_params.TreeParam:
  """Returns the `TreeParam` for data of this size.

  Args:
    sum_noise_multiplier: Standard deviation of the noise on a leaf's sum, in radii.
  """
  for_noise = int(_COUNT_TO_NOISE * math.sqrt(dim) * sum_noise_multiplier)
  for_clusters = int(private_count // (2 * k))
  min_num_points_in_node = max(1, min(for_noise, for_clusters))
  return clustering_params.TreeParam(
      min_num_points_in_branching_node=_BRANCHING_TO_NODE * min_num_points_in_node,
      min_num_points_in_node=min_num_points_in_node,
      max_depth=DEFAULT_MAX_DEPTH,
  )


def _grow(
    hashed: private_sums.HashedSums, tree_param: clustering_params.TreeParam, private_count: float,
    count_std: float,
) -> Iterator[tuple[np.ndarray, int, np.ndarray]]:
  """Yields the leaves of every level as (prefixes, level, private counts)."""
  prefixes, counts = np.zeros(1, np.int64), np.array([max(1.0, private_count)])
  for level in range(tree_param.max_depth):
    branching = counts >= tree_param.min_num_points_in_branching_node
    children = (2 * prefixes[branching, np.newaxis] + [0, 1]).ravel()
    child_counts = hashed.private_prefix_counts(level + 1, children, count_std)
    living = child_counts >= tree_param.min_num_points_in_node
    # A branching node left without children is a leaf.
    leaf = ~branching
    leaf[np.flatnonzero(branching)[~living.reshape(-1, 2).any(axis=1)]] = True
    yield prefixes[leaf], level, counts[leaf]
    prefixes, counts = children[living], child_counts[living]
    if not prefixes.size:
      return
  yield prefixes, tree_param.max_depth, counts


def private_leaves(
    hashed: private_sums.HashedSums, tree_param: clustering_params.TreeParam, private_count: float,
    count_std: float,
) -> Leaves:
  """Returns the `Leaves` of the tree.

  Args:
    tree_param: `TreeParam`, which says when nodes branch; its `max_depth` must be that
      of the hashes.
    private_count: Noisy number of all points, the count of the root.
    count_std: Standard deviation of the noise on a count, in points.
  """
  levels = list(_grow(hashed, tree_param, private_count, count_std))
  return Leaves(
      prefixes=np.concatenate([prefixes for prefixes, _, _ in levels]),
      levels=np.concatenate([np.full(len(counts), level) for _, level, counts in levels]),
      private_counts=np.concatenate([counts for _, _, counts in levels]),
  )
