"""Points, and queries of every kind, for tests of sums."""

import numpy as np

from dp_clustering import cluster_statistics
from dp_clustering import point_grid
from dp_clustering import sum_query
from fl_clustering.kmeans import sum_kinds
from fl_clustering.multiview import sums as view_sums
from fl_clustering.points import secure_sums

RADIUS = 3.0
LIMITS = {"residual_sums": 1e7, "counts": 2e7, "excesses": 3e7}
_VIEWS = (1, 2)


def points(num_points=5000, dim=3):
  """Returns points in the ball, half of them on the borders between centers."""
  drawn = np.random.default_rng(0).uniform(-1, 1, (num_points, dim))
  drawn[::2] = np.rint(2 * drawn[::2]) / 2
  return drawn


def queries(dim=3):
  """Returns queries of all kinds by name."""
  rng = np.random.default_rng(1)
  centers = point_grid.on_point_grid(np.rint(4 * rng.uniform(-1, 1, (5, dim))) / 4, RADIUS)
  directions = np.rint(rng.uniform(-1, 1, (5, dim)) * 2**20)
  halves = {"centers": centers, "directions": directions, "thresholds": np.zeros((5, 1))}
  clipped = {
      "centers": centers, "clip_radii": np.full((5, 1), 0.1 * point_grid.POINT_STEPS)
  }
  origin, cells = {"origin": np.zeros((1, dim))}, {"cells": np.full((5, dim), 0.7)}
  kinds = {
      "clipped": (cluster_statistics.ClippedResiduals(False), clipped),
      "excesses": (cluster_statistics.ClippedResiduals(True), clipped),
      "start": (sum_kinds.Start(), origin),
      "children": (sum_kinds.ChildSums(False), halves),
      "halves": (sum_kinds.ChildSums(True), halves),
      "fine_sums": (sum_kinds.FineSums(), {"centers": centers, **cells}),
      "scores": (sum_kinds.Scores(), {"centers": centers}),
  }
  if dim == sum(_VIEWS):
    rates = np.tile(np.array([3.0, 0.7]) / point_grid.POINT_STEPS**2, (5, 1))
    views = {"centers": centers, "rates": rates, "factors": np.tile([1.0, 0.3], (5, 1))}
    kinds |= {
        "kernels": (view_sums.KernelSums(_VIEWS, 2**30), views),
        "fine_kernels": (view_sums.FineKernelSums(_VIEWS), {**views, **cells}),
    }
  return {name: sum_query.SumQuery(*query) for name, query in kinds.items()}


def in_steps(clients):
  """Returns clients whose columns are scaled to the ball and to steps of the grid."""
  steps = np.full(clients.num_columns, point_grid.POINT_STEPS / RADIUS)
  return clients.scaled(secure_sums.Scaling(np.zeros(clients.num_columns), steps))
