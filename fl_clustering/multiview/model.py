"""Centers in several views that give clusters to points."""

from __future__ import annotations

import dataclasses
import math
from typing import Callable, Sequence

import numpy as np

from dp_clustering import clustering_params
from dp_clustering import point_grid
from fl_clustering.multiview import server_step
from fl_clustering.multiview import sums
from fl_clustering.points import privacy
from fl_clustering.points import secure_sums

# Rows that are given to clusters at a time.
_BLOCK_ROWS = 2048
# Grid steps beyond which the kernel sees nothing: far outside the ball that points are in.
_FARTHEST = 2.0**40


def norm_scaling(
    view_norms: Sequence[float] | np.ndarray, widths: Sequence[int]
) -> secure_sums.Scaling:
  """Returns the scaling to grid steps from the units that norms are in."""
  # In units of the norms, all views side by side are no longer than the root of their number.
  steps = point_grid.POINT_STEPS / math.sqrt(len(widths))
  return secure_sums.Scaling(np.zeros(sum(widths)), np.repeat(steps / np.array(view_norms), widths))


@dataclasses.dataclass(frozen=True, eq=False)
class FittedViews:
  """Gives points of all views side by side to clusters as the clients of the fit did.

  A distance is what a point adds to the objective in a cluster.

  Attributes:
    on_grid: The model in grid steps.
    view_norms: With `privacy`, the norms that rows are shortened to, in the points' units; else
      None, and points are in grid steps.
  """

  on_grid: server_step.MultiViewModel
  view_norms: Sequence[float] | None = None

  def with_centroids(self, centroids: np.ndarray) -> FittedViews:
    """Returns the private model with other centroids."""
    assert self.view_norms is not None
    scaling = norm_scaling(self.view_norms, self.on_grid.widths)
    centers = server_step.on_grid(scaling.apply(centroids))
    return dataclasses.replace(self, on_grid=dataclasses.replace(self.on_grid, centers=centers))

  def _steps(self, points: np.ndarray) -> np.ndarray:
    """Returns points in whole grid steps, as the clients of the fit computed them."""
    if self.view_norms is None:
      return np.rint(np.clip(points, -_FARTHEST, _FARTHEST))
    widths = self.on_grid.widths
    units = norm_scaling(np.ones(len(widths)), widths)
    return np.rint(units.apply(privacy.in_balls(points, self.view_norms, widths)))

  def _by_blocks(self, function: Callable[..., np.ndarray], points: np.ndarray) -> np.ndarray:
    """Returns a function of `sums` for every point, computed block by block."""
    steps, arrays, widths = self._steps(points), self.on_grid.arrays(), self.on_grid.widths
    starts = range(0, max(len(steps), 1), _BLOCK_ROWS)
    blocks = (steps[start : start + _BLOCK_ROWS] for start in starts)
    return np.concatenate([function(block, arrays, widths) for block in blocks])

  def assign(self, points: np.ndarray) -> np.ndarray:
    """Returns the clusters of points (n, D), an int array of shape (n,)."""
    return self._by_blocks(sums.nearest, points)

  def distances_to(self, clusters: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Returns the distance of every point to the centroid of its cluster, of shape (n,)."""
    return self.distances(points)[np.arange(len(points)), clusters]

  def distances(self, points: np.ndarray) -> np.ndarray:
    """Returns the distances of points to the centroids, of shape (n, K)."""
    factors = self.on_grid.view_factors
    closeness = self._by_blocks(sums.closeness, points)
    return np.maximum(0, factors.sum() - factors.max() * closeness)

  def are_clipped(self, points: np.ndarray) -> np.ndarray:
    """Returns which points (n, D) are beyond the norm of a view, if there are norms; booleans."""
    found = np.zeros(len(points), bool)
    for norm, place in zip(self.view_norms or (), sums.columns(self.on_grid.widths)):
      found |= clustering_params.are_beyond(points[:, place], norm)
    return found

  losses = distances
