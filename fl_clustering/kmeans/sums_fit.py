"""A fit by secure sums alone: the grid, splits and swaps, the final centroids and scores.

No client's own mean, row or count reaches the server, only totals over all clients.  Exact
totals can still show a single point: a cluster that holds one point *is* that point.  Only
noise (`private_fit`) prevents that.
"""

import dataclasses

from absl import logging
import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from dp_clustering import point_grid
from dp_clustering import sum_query
from fl_clustering.kmeans import fit_result
from fl_clustering.kmeans import split_and_swap
from fl_clustering.kmeans import sum_kinds
from fl_clustering.points import federated_points
from fl_clustering.points import grid_scaling

# Mean square of a coordinate's distance to its center, in squared grid steps.  Below, the
# rounding to the grid, 1/12, is a percent or more of it.
_LEAST_SQUARE = 8.0


def sum_of_squares(points):
  """Returns the sum of the squared norms of all points in grid steps, a Python integer."""
  start = sum_query.SumQuery(sum_kinds.Start(), {"origin": np.zeros((1, points.dim))})
  (total,) = sum_kinds.whole(start.split(points.totals(start))["squares"])
  return total


def _fine_means(grid, points, asked):
  """Returns the means of the points nearest to every center, in grid steps, of shape (M, d).

  They are exact in every column, also in one that is narrower than a step of the grid.

  Args:
    grid: The `Grid`.
    points: `FederatedPoints` on the grid.
    asked: The centers, integers of shape (M, d); those without points are left out.
  """
  files, cells = grid_scaling.in_column_steps(points.files, grid.column_factor)
  query = sum_query.SumQuery(
      sum_kinds.FineSums(), {"centers": asked, "cells": np.tile(cells, (len(asked), 1))}
  )
  parts = query.split(dataclasses.replace(points, files=files).totals(query))
  filled = parts["counts"][:, 0] > 0
  sums = sum_kinds.whole(np.stack([parts["high_sums"], parts["low_sums"]], axis=-1))
  return (sums[filled] / parts["counts"][filled]).astype(np.float64) * cells


def _scores(points, total_square, centers):
  """Returns the inertia at the centers, in squared grid steps, and the mean silhouette.

  Args:
    points: `FederatedPoints`.
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


def _warn_if_too_coarse(grid, inertia):
  """Warns if clusters are so small beside the farthest point that the grid hides them.

  Args:
    grid: The `Grid`.
    inertia: In squared grid steps.
  """
  num_coordinates = grid.num_points * len(grid.scaling.shift)
  if inertia < _LEAST_SQUARE * num_coordinates:
    logging.warning(
        "The clusters' spread is below what can be told: coordinates closer than %.2g count as "
        "equal, as the farthest point is %.2g from the mean. If the points of a cluster are not "
        "all the same, remove far outliers.",
        grid.step, grid.step * point_grid.POINT_STEPS,
    )


def _history(result, message_bytes, scaling, unit):
  """Returns the `RoundRecord`s of a `split_and_swap.Result`."""
  return [
      fit_result.RoundRecord(
          step.stage, scaling.undo(step.centers), step.inertia * unit, bytes_down, bytes_up
      )
      for step, (bytes_down, bytes_up) in zip(result.history, message_bytes)
  ]


def fit(config, files):
  """Fits centroids.

  Args:
    config: A `KMeansConfig` with `algorithm` "sums", without `privacy`.
    files: The clients as `PointFiles`.

  Returns:
    A `fit_result.Fit`.

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
      files.scaled(grid.scaling), split_and_swap.largest_num_centers(config.n_clusters)
  )
  total_square = sum_of_squares(points)
  message_bytes = []

  def totals(query):
    message_bytes.append(points.message_bytes(query))
    return points.totals(query)

  result = split_and_swap.sums_kmeans(
      totals, points.dim, total_square, config.n_clusters,
      randomness.generator(config.seed, "k-means from sums"), config.num_rounds,
  )
  means = _fine_means(grid, points, result.asked)
  centers = np.resize(means, (config.n_clusters, points.dim))
  inertia, silhouette = _scores(points, total_square, centers)
  _warn_if_too_coarse(grid, inertia)
  unit = grid.step**2
  *history, last = _history(result, message_bytes, grid.scaling, unit)
  centroids = grid.scaling.undo(centers)
  last = dataclasses.replace(last, centroids=centroids, inertia=inertia * unit)
  return fit_result.Fit(
      scaling=grid.scaling,
      centroids=centroids,
      inertia=inertia * unit,
      silhouette=silhouette,
      history=(*history, last),
      num_rounds=grid.num_rounds + 3 + len(result.history),
      column_scales=grid.scaling.factor * grid.step if config.standardize else np.ones(points.dim),
  )
