"""A fit by secure sums alone: the grid, splits and swaps, the final centroids and scores.

No client's own mean, row or count reaches the server, only totals over all clients.  Exact
totals can still show a single point: a cluster that holds one point *is* that point.  Only
noise (`private_fit`) prevents that.
"""

from __future__ import annotations

import dataclasses

from absl import logging
import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from dp_clustering import point_grid
from dp_clustering import sum_query
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import model as model_lib
from fl_clustering.kmeans import split_and_swap
from fl_clustering.kmeans import sum_kinds
from fl_clustering.points import federated_points
from fl_clustering.points import fitted
from fl_clustering.points import grid_scaling
from fl_clustering.points import point_files

# Mean square of a coordinate's distance to its center, in squared grid steps.  Below, the
# rounding to the grid, 1/12, is a percent or more of it.
_LEAST_SQUARE = 8.0


def sum_of_squares(points: federated_points.FederatedPoints) -> int:
  """Returns the sum of the squared norms of all points in grid steps."""
  start = sum_query.SumQuery(sum_kinds.Start(), {"origin": np.zeros((1, points.dim))})
  (total,) = sum_kinds.whole(start.split(points.totals(start))["squares"])
  return total


def _fine_means(
    grid: grid_scaling.Grid, points: federated_points.FederatedPoints, asked: np.ndarray
) -> np.ndarray:
  """Returns the means of the points nearest to every center, in grid steps, of shape (M, d).

  They are exact in every column, also in one that is narrower than a step of the grid.

  Args:
    asked: The centers, integers of shape (M, d); those without points are left out.
  """
  files, cells = grid.in_column_steps()
  query = sum_query.SumQuery(
      sum_kinds.FineSums(), {"centers": asked, "cells": np.tile(cells, (len(asked), 1))}
  )
  parts = query.split(dataclasses.replace(points, files=files).totals(query))
  filled = parts["counts"][:, 0] > 0
  sums = sum_kinds.whole(np.stack([parts["high_sums"], parts["low_sums"]], axis=-1))
  return (sums[filled] / parts["counts"][filled]).astype(np.float64) * cells


def _scores(
    points: federated_points.FederatedPoints, total_square: int, centers: np.ndarray
) -> tuple[float, float]:
  """Returns the inertia at the centers, in squared grid steps, and the mean silhouette.

  Args:
    total_square: The sum of the squared norms of all points.
    centers: In grid steps, float64 of shape (K, d).
  """
  rounded = np.rint(centers)
  query = sum_query.SumQuery(sum_kinds.Scores(), {"centers": rounded})
  parts = query.split(points.totals(query))
  silhouettes = parts["silhouettes"].sum() / point_grid.CONTRIBUTION_STEPS
  counts = parts["counts"][:, 0]
  filled = counts > 0
  rounded, counts, residuals = rounded[filled], counts[filled], parts["residuals"][filled]
  _, least = split_and_swap.inertias(total_square, rounded, counts, residuals)
  means = rounded + residuals / counts[:, np.newaxis]
  offsets = counts @ ((means - centers[filled]) ** 2).sum(axis=1)
  return float(least) + offsets, silhouettes / counts.sum()


def _warn_if_too_coarse(grid: grid_scaling.Grid, inertia: float) -> None:
  """Warns if clusters are so small beside the farthest point that the grid hides them.

  Args:
    inertia: In squared grid steps.
  """
  num_coordinates = grid.num_points * grid.files.num_columns
  if inertia < _LEAST_SQUARE * num_coordinates:
    logging.warning(
        "The clusters' spread is below what can be told: coordinates closer than %.2g count as "
        "equal, as the farthest point is %.2g from the mean. If the points of a cluster are not "
        "all the same, remove far outliers.",
        grid.step, grid.step * point_grid.POINT_STEPS,
    )


def fit(config: kmeans_config.KMeansConfig, files: point_files.PointFiles) -> fitted.Fit:
  """Fits centroids by `kmeans_config.Sums`, without `privacy`.

  Raises:
    ValueError: If there are fewer points than clusters.
  """
  grid = grid_scaling.find_grid(files, config.standardize)
  if grid.num_points < config.n_clusters:
    raise validate.error(
        "n_clusters", f"be at most the {grid.num_points} points of all clients",
        config.n_clusters,
    )
  points = federated_points.FederatedPoints(
      grid.files, split_and_swap.largest_num_centers(config.n_clusters)
  )
  total_square = sum_of_squares(points)
  message_bytes = []

  def totals(query: sum_query.SumQuery) -> np.ndarray:
    message_bytes.append(points.message_bytes(query))
    return points.totals(query)

  result = split_and_swap.sums_kmeans(
      totals, points.dim, total_square, config.n_clusters,
      randomness.generator(config.seed, "k-means from sums"),
      config.algorithm.num_rounds or kmeans_config.MOST_ROUNDS,
  )
  means = _fine_means(grid, points, result.asked)
  centers = np.resize(means, (config.n_clusters, points.dim))
  inertia, silhouette = _scores(points, total_square, centers)
  _warn_if_too_coarse(grid, inertia)
  unit, scaling = grid.step**2, grid.files.scaling
  *history, last = (
      model_lib.RoundRecord(
          step.stage, scaling.undo(step.centers), step.inertia * unit, bytes_down, bytes_up
      )
      for step, (bytes_down, bytes_up) in zip(result.history, message_bytes)
  )
  centroids = scaling.undo(centers)
  last = dataclasses.replace(last, centroids=centroids, inertia=inertia * unit)
  scales = scaling.factor * grid.step if config.standardize else np.ones(points.dim)
  return fitted.Fit(
      model_lib.KMeansModel(centroids, scaling, scales),
      (*history, last),
      num_rounds=grid.num_rounds + 3 + len(result.history),
      loss=inertia * unit,
      silhouette=silhouette,
  )
