"""From the clients' rounds to a fit: coordinates, algorithm, and the best restart."""

import numpy as np

from clustering_basics import validate
from fl_clustering.kmeans import algorithms
from fl_clustering.kmeans import fit_result
from fl_clustering.kmeans import scaling as scaling_lib


def choose_scaling(rounds, standardize):
  """Tells the clients the coordinates to compute in, from two rounds of sums.

  Args:
    rounds: `TffRounds`.
    standardize: Whether every column gets variance one, or all the same factor.

  Returns:
    The number of points of all clients.
  """
  rounds.tell_scaling(scaling_lib.identity(rounds.num_columns))
  rounds.tell_scaling(scaling_lib.shift_to_mean(rounds.moments()))
  moments = rounds.moments()
  rounds.tell_scaling(scaling_lib.unit_scaling(rounds.scaling, moments, standardize))
  return int(moments["num_points"])


def fit(config, rounds):
  """Fits centroids.

  Args:
    config: A `KMeansConfig` without `privacy`.
    rounds: `TffRounds`.

  Returns:
    A `Fit`.

  Raises:
    ValueError: If there are fewer points than clusters.
    NothingReleased: If the clients may send nothing that the algorithm could use.
  """
  num_points = choose_scaling(rounds, config.standardize)
  if num_points < config.n_clusters:
    raise validate.error(
        "n_clusters", f"be at most the {num_points} points of all clients", config.n_clusters
    )
  candidates = algorithms.ALGORITHMS[config.algorithm](config, rounds)
  scores = rounds.scores(np.stack([candidate.centroids[-1] for candidate in candidates]))
  best = int(np.argmin(scores["inertia"]))
  candidate = candidates[best]
  candidate.inertias[-1] = float(scores["inertia"][best])
  # Standardised columns keep the inertia in their own unit.
  unit = 1.0 if config.standardize else 1 / rounds.scaling.factor[0] ** 2
  history = fit_result.history(candidate, rounds.scaling, unit)
  return fit_result.Fit(
      scaling=rounds.scaling,
      centroids=history[-1].centroids,
      inertia=history[-1].inertia,
      silhouette=float(scores["silhouettes"][best]) / num_points,
      history=history,
  )
