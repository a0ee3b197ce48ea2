"""A fit by an algorithm of the papers: coordinates, algorithm, best restart."""

import dataclasses

import numpy as np

from clustering_basics import validate
from fl_clustering.kmeans import algorithms
from fl_clustering.kmeans import fit_result
from fl_clustering.kmeans import rounds as rounds_lib
from fl_clustering.points import scaling as scaling_lib

_BYTES = 4  # Messages are float32.


def _history(candidate, scaling, inertia_unit):
  """Returns the `RoundRecord`s of a candidate.

  Args:
    candidate: A `Candidate`.
    scaling: The `Scaling` of its coordinates.
    inertia_unit: What to multiply its inertias with.
  """
  records = []
  for index, step in enumerate(candidate.steps):
    num_clusters, num_columns = step.centroids.shape
    sends_centroids = index > 0 or not candidate.from_scratch
    sends_inertia = step.stage == algorithms.LLOYD
    records.append(
        fit_result.RoundRecord(
            stage=step.stage,
            centroids=scaling.undo(step.centroids),
            inertia=None if step.inertia is None else step.inertia * inertia_unit,
            bytes_down=_BYTES * num_clusters * num_columns * sends_centroids,
            bytes_up=_BYTES * (num_clusters * (num_columns + 1) + sends_inertia),
        )
    )
  return tuple(records)


def fit(config, files):
  """Fits centroids.

  Args:
    config: A `KMeansConfig` of one of `algorithms.ALGORITHMS`.
    files: The clients as `PointFiles`.

  Returns:
    A `fit_result.Fit`.

  Raises:
    ValueError: If there are fewer points than clusters.
    NothingReleased: If the clients may send nothing that the algorithm could use.
  """
  moments = files.column_moments()
  if moments.num_points < config.n_clusters:
    raise validate.error(
        "n_clusters", f"be at most the {moments.num_points} points of all clients",
        config.n_clusters,
    )
  scaling = scaling_lib.unit_scaling(moments, config.standardize)
  rounds = rounds_lib.Rounds(files.scaled(scaling), config.n_init)
  candidates = algorithms.ALGORITHMS[config.algorithm](config, rounds)
  scores = rounds.scores(np.stack([candidate.centroids for candidate in candidates]))
  best = int(np.argmin(scores["inertia"]))
  *steps, last = candidates[best].steps
  last = last._replace(inertia=float(scores["inertia"][best]))
  candidate = dataclasses.replace(candidates[best], steps=(*steps, last))
  # Standardised columns keep the inertia in their own unit.
  unit = 1.0 if config.standardize else 1 / scaling.factor[0] ** 2
  history = _history(candidate, scaling, unit)
  return fit_result.Fit(
      scaling=scaling,
      centroids=history[-1].centroids,
      inertia=history[-1].inertia,
      silhouette=float(scores["silhouettes"][best]) / moments.num_points,
      history=history,
      num_rounds=len(history),
      column_scales=scaling.factor if config.standardize else np.ones(files.num_columns),
  )
