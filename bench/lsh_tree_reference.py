"""Google's private clustering, node by node: slow, and easy to compare with.

Every node of the tree holds its points; they are hashed when it branches.  The whole
tree is built and kept, as in Google's code, before its leaves are read.  (This takes most
of its memory, 14 GB at 1,000,000 x 100, and much of its time: at 100,000 x 100,
a tree that drops its inner nodes takes about a third of the time.)  This is the plain
way to write the algorithm; `speed` measures ours against it.
"""

import dataclasses
from typing import Callable

import numpy as np

from dp_clustering import clustering_params


@dataclasses.dataclass(frozen=True)
class Node:
  """A node of the tree.

  Attributes:
    hash_prefix: String of "0" and "1".
    nonprivate_points: The points of this prefix, shape (num_points, dim).
    private_count: Their noisy number.
  """

  hash_prefix: str
  nonprivate_points: np.ndarray
  private_count: float

  def children(
      self, hyperplanes: np.ndarray, noisy_count: Callable[[int], float]
  ) -> list["Node"]:
    """Returns both children, with private counts of their own."""
    sides = self.nonprivate_points @ hyperplanes[len(self.hash_prefix)] < 0
    return [
        Node(self.hash_prefix + bit, points, noisy_count(len(points)))
        for bit, points in (
            ("0", self.nonprivate_points[~sides]), ("1", self.nonprivate_points[sides])
        )
    ]


def tree(
    points: np.ndarray,
    hyperplanes: np.ndarray,
    tree_param: clustering_params.TreeParam,
    private_count: float,
    noisy_count: Callable[[int], float],
) -> list[list[Node]]:
  """Returns the levels of the tree.

  Args:
    points: Points in the ball, shape (num_points, dim).
    hyperplanes: Normal vectors, shape (max_depth, dim).
    tree_param: When a node branches, and when a child is kept.
    private_count: Noisy number of all points.
    noisy_count: Adds noise to a count.
  """
  levels = [[Node("", points, max(1.0, private_count))]]
  while levels[-1] and len(levels) <= tree_param.max_depth:
    children = []
    for node in levels[-1]:
      if node.private_count >= tree_param.min_num_points_in_branching_node:
        children += node.children(hyperplanes, noisy_count)
    levels.append(
        [child for child in children
         if child.private_count >= tree_param.min_num_points_in_node]
    )
  return levels


def leaves(levels: list[list[Node]]) -> list[Node]:
  """Returns the nodes of a `tree` that have no children."""
  found: list[Node] = []
  for level, below in zip(levels, [*levels[1:], []]):
    parents = {node.hash_prefix[:-1] for node in below}
    found += [node for node in level if node.hash_prefix not in parents]
  return found


def coreset(
    points: np.ndarray,
    radius: float,
    hyperplanes: np.ndarray,
    tree_param: clustering_params.TreeParam,
    private_count: float,
    noisy_count: Callable[[int], float],
    noisy_sum: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the coreset's points and weights; arguments as for `tree`."""
  norms = np.linalg.norm(points, axis=1, keepdims=True)
  points = points * (radius / np.maximum(norms, radius))
  levels = tree(points, hyperplanes, tree_param, private_count, noisy_count)
  coreset_points, weights = [], []
  for leaf in leaves(levels):
    mean = noisy_sum(leaf.nonprivate_points.sum(axis=0)) / leaf.private_count
    coreset_points.append(mean * (radius / max(radius, float(np.linalg.norm(mean)))))
    weights.append(leaf.private_count)
  return np.array(coreset_points), np.array(weights)
