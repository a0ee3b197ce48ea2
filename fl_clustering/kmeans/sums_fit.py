"""A fit by secure sums alone: the grid, splits and swaps, the final centroids and scores.

The clients send totals of their points through secure sums, and nothing else.  Exact totals show
rows to the server: a cluster that holds one point *is* that point, and so may be the difference of
two totals.  Only noise (`private_fit`) prevents that.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Callable

from absl import logging
import numpy as np

from clustering_basics import randomness
from dp_clustering import noise
from dp_clustering import point_grid
from dp_clustering import sum_query
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import model as model_lib
from fl_clustering.kmeans import private_fit
from fl_clustering.kmeans import split_and_swap
from fl_clustering.kmeans import sum_kinds
from fl_clustering.points import fitted
from fl_clustering.points import grid_scaling
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums

# Mean square of a coordinate's distance to its center, in squared grid steps.  Below, the
# rounding to the grid, 1/12, is a percent or more of it.
_LEAST_SQUARE = 8.0

_Totals = Callable[[sum_query.SumQuery], np.ndarray]


def sum_of_squares(points: secure_sums.FederatedPoints) -> int:
  """Returns the sum of the squared norms of all points in grid steps."""
  start = sum_query.SumQuery(sum_kinds.Start(), {"origin": np.zeros((1, points.dim))})
  (total,) = sum_kinds.whole(start.split(points.totals(start))["squares"])
  return total


def _fine_means(
    totals: _Totals, cells: np.ndarray, asked: np.ndarray
) -> tuple[np.ndarray, np.ndarray, bool]:
  """Returns the exact means of the centers' points, how many these are, and if they seem equal.

  The means are exact also in a column that is narrower than a step of the grid.

  Args:
    totals: Of points in column steps.
    cells: Column steps in grid steps, of shape (d,).
    asked: The centers, integers of shape (M, d).

  Returns:
    Means in grid steps, of shape (L, d), and counts, (L,), of the L centers that have points.  And
    False if a cluster's points differ: then its sums need not be multiples of its count.
  """
  query = sum_query.SumQuery(
      sum_kinds.FineSums(), {"centers": asked, "cells": np.tile(cells, (len(asked), 1))}
  )
  parts = query.split(totals(query))
  filled = parts["counts"][:, 0] > 0
  sums = sum_kinds.whole(np.stack([parts["high_sums"], parts["low_sums"]], axis=-1))
  sums, counts = sums[filled], parts["counts"][filled]
  seem_equal = not (sums % counts.astype(object)).any()
  return (sums / counts).astype(np.float64) * cells, counts[:, 0], seem_equal


def _scores(
    totals: _Totals, total_square: int, centers: np.ndarray, seem_equal: bool
) -> tuple[float, float]:
  """Returns the inertia at the centers, in squared grid steps, and the mean silhouette.

  Args:
    total_square: The sum of the squared norms of all points.
    centers: In grid steps, float64 of shape (K, d).
    seem_equal: Whether every cluster's points seem equal: then the inertia is exactly zero.
  """
  query = sum_query.SumQuery(sum_kinds.Scores(), {"centers": np.rint(centers)})
  rounded, parts = query.arrays["centers"], query.split(totals(query))
  silhouettes = parts["silhouettes"].sum() / point_grid.CONTRIBUTION_STEPS
  counts = parts["counts"][:, 0]
  filled = counts > 0
  rounded, counts, residuals = rounded[filled], counts[filled], parts["residuals"][filled]
  _, least = split_and_swap.inertias(total_square, rounded, counts, residuals)
  if not least and seem_equal:
    return 0.0, silhouettes / counts.sum()
  means = rounded + residuals / counts[:, np.newaxis]
  offsets = counts @ ((means - centers[filled]) ** 2).sum(axis=1)
  return float(least) + offsets, silhouettes / counts.sum()


def _warn_if_too_coarse(grid: grid_scaling.Grid, inertia: float, standardize: bool) -> None:
  """Warns if clusters are so small beside the farthest point that the grid hides them.

  Args:
    inertia: In squared grid steps; zero of equal points, of which there is nothing to hide.
  """
  if 0 < inertia < _LEAST_SQUARE * grid.num_points * grid.clients.num_columns:
    logging.warning(
        "The clusters' spread is below what can be told: coordinates closer than %.2g count as "
        "equal, as the farthest point is up to %.2g from the mean%s. If the points of a cluster "
        "are not all the same, remove far outliers.",
        grid.step, grid.step * point_grid.POINT_STEPS,
        ", in standard deviations of the columns" if standardize else "",
    )


def fit(
    config: kmeans_config.KMeansConfig, clients: secure_sums.ClientPoints,
    noise_source: noise.Source | None = None,
) -> fitted.Fit:
  """Fits centroids by `kmeans_config.Sums` to clients from `privacy.hold`.

  Args:
    noise_source: With `privacy`; secure noise by default.

  Raises:
    ValueError: If there are fewer points than clusters, without `privacy`.
  """
  if config.privacy is not None:
    return private_fit.fit(config, clients, noise_source or noise.SecureNoise())
  grid = grid_scaling.find_grid(clients, config.standardize, config.field_widths)
  grid.check_enough(config.n_clusters)
  points = secure_sums.FederatedPoints(
      grid.clients, split_and_swap.largest_num_centers(config.n_clusters)
  )
  fine_clients, cells = grid.in_column_steps()
  fine_points = dataclasses.replace(points, clients=fine_clients)
  total_square = sum_of_squares(points)
  message_bytes = []

  def totals_of(
      points: secure_sums.FederatedPoints, query: sum_query.SumQuery
  ) -> np.ndarray:
    message_bytes.append(points.message_bytes(query))
    return points.totals(query)

  totals = functools.partial(totals_of, points)

  result = split_and_swap.sums_kmeans(
      totals, points.dim, total_square, config.n_clusters,
      randomness.generator(config.seed, "k-means from sums"),
      config.algorithm.num_rounds or kmeans_config.MOST_ROUNDS,
  )
  centers, counts, seem_equal = _fine_means(
      functools.partial(totals_of, fine_points), cells, result.asked
  )
  inertia, silhouette = _scores(totals, total_square, centers, seem_equal)
  _warn_if_too_coarse(grid, inertia, config.standardize)
  unit, scaling = grid.step**2, grid.clients.scaling
  *history, last = (
      model_lib.RoundRecord(
          step.stage, scaling.undo(step.centers), step.inertia * unit, bytes_down, bytes_up
      )
      for step, (bytes_down, bytes_up) in zip(result.history, message_bytes)
  )
  centroids = scaling.undo(centers)
  last = dataclasses.replace(last, centroids=centroids, inertia=inertia * unit)
  scales = scaling.factor * grid.step if config.standardize else np.ones(points.dim)
  of_model = secure_sums.Scaling(scaling.shift, scales)
  return fitted.Fit(
      model_lib.KMeansModel(of_model.apply(centroids)), of_model, centroids, (*history, last),
      num_rounds=grid.num_rounds + 1 + len(message_bytes),
      loss=inertia * unit,
      simplified_silhouette=silhouette if len(centers) > 1 else None,
      num_clusters_found=len(centers),
      num_centers_on_few_points=int(np.count_nonzero(counts < privacy_lib.FEW_POINTS)),
  )
