"""A fit from the clients' files to its result: coordinates, algorithm, best restart."""

import dataclasses
from typing import Any, Mapping, Optional

import numpy as np
from sklearn import metrics

from clustering_basics import core_count
from clustering_basics import validate
from fl_clustering.kmeans import algorithms
from fl_clustering.kmeans import rounds as rounds_lib
from fl_clustering.kmeans import sums
from fl_clustering.points import noise as noise_lib
from fl_clustering.points import scaling as scaling_lib

_BYTES = 4  # Messages are float32.


@dataclasses.dataclass(frozen=True, eq=False)
class RoundRecord:
  """One round of the restart that was taken.

  Attributes:
    stage: The kind of round: `gather`, where the server sees every client's means;
      `lloyd`, where it sees sums; `minibatch`.
    centroids: The global centroids after it, in the data's units; float64 (K, d).
    inertia: The inertia of these centroids, or None if no round told it.
    bytes_down: What the server sent each client for this restart, in bytes.
    bytes_up: What each client sent for it.
  """

  stage: str
  centroids: np.ndarray
  inertia: Optional[float]
  bytes_down: int
  bytes_up: int


@dataclasses.dataclass(frozen=True, eq=False)
class Fit:
  """The result of a fit.

  Attributes:
    scaling: The `Scaling` of the coordinates that were clustered.
    centroids: In the data's units; float64 (K, d).
    inertia: Sum of the squared distances to the nearest centroid; of standardised
      columns, if they are.  None with `privacy`.
    silhouette: The mean simplified silhouette, likewise.
    history: Tuple of `RoundRecord`.
    privacy_spent: The `spent` of the `RoundNoise`, or None.
  """

  scaling: scaling_lib.Scaling
  centroids: np.ndarray
  inertia: Optional[float]
  silhouette: Optional[float]
  history: tuple[RoundRecord, ...]
  privacy_spent: Optional[Mapping[str, Any]] = None

  def assign(self, points):
    """Returns the nearest centroid of every point (n, d), an int array of shape (n,)."""
    core_count.count_quietly()
    scaled = (self.scaling.apply(values) for values in (points, self.centroids))
    return metrics.pairwise_distances_argmin(*map(scaling_lib.as_float32, scaled))


def _history(candidate, scaling, inertia_unit=1.0, tells_inertia=True):
  """Returns the `RoundRecord`s of a candidate.

  Args:
    candidate: A `Candidate`.
    scaling: The `Scaling` of its coordinates.
    inertia_unit: What to multiply its inertias with.
    tells_inertia: Whether clients send the inertia in Lloyd's rounds.
  """
  records = []
  for index, step in enumerate(candidate.steps):
    num_clusters, num_columns = step.centroids.shape
    sends_centroids = index > 0 or not candidate.from_scratch
    sends_inertia = tells_inertia and step.stage == algorithms.LLOYD
    records.append(
        RoundRecord(
            stage=step.stage,
            centroids=scaling.undo(step.centroids),
            inertia=None if step.inertia is None else step.inertia * inertia_unit,
            bytes_down=_BYTES * num_clusters * num_columns * sends_centroids,
            bytes_up=_BYTES * (num_clusters * (num_columns + 1) + sends_inertia),
        )
    )
  return tuple(records)


def fit(config, files, sum_factory=None):
  """Fits centroids.

  Args:
    config: A `KMeansConfig` without `privacy`.
    files: The clients as `PointFiles`.
    sum_factory: How the clients' sums are added up in rounds of Lloyd, a
      `tff.aggregators.UnweightedAggregationFactory`; None for a plain sum.

  Returns:
    A `Fit`.

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
  rounds = rounds_lib.Rounds(files.scaled(scaling), config.n_init, sum_factory=sum_factory)
  candidates = algorithms.ALGORITHMS[config.algorithm](config, rounds)
  scores = rounds.scores(np.stack([candidate.centroids for candidate in candidates]))
  best = int(np.argmin(scores["inertia"]))
  *steps, last = candidates[best].steps
  last = last._replace(inertia=float(scores["inertia"][best]))
  candidate = dataclasses.replace(candidates[best], steps=(*steps, last))
  # Standardised columns keep the inertia in their own unit.
  unit = 1.0 if config.standardize else 1 / scaling.factor[0] ** 2
  history = _history(candidate, scaling, unit)
  return Fit(
      scaling=scaling,
      centroids=history[-1].centroids,
      inertia=history[-1].inertia,
      silhouette=float(scores["silhouettes"][best]) / moments.num_points,
      history=history,
  )


def fit_privately(config, files):
  """Fits centroids by noisy sums; nothing else looks at the data.

  Args:
    config: A `KMeansConfig` with `privacy`.
    files: The clients as `PointFiles`.

  Returns:
    A `Fit`.
  """
  noise = config.privacy.round_noise(config.num_rounds)
  num_columns = files.num_columns
  scaling = scaling_lib.Scaling(
      np.zeros(num_columns), np.full(num_columns, 1 / config.privacy.radius)
  )
  rounds = rounds_lib.Rounds(
      files.scaled(scaling), config.n_init, local_sums=sums.projected_sums,
      sum_factory=noise_lib.noisy_sum_factory(noise.std),
  )
  history = _history(
      algorithms.private_lloyd(config, rounds, noise), scaling, tells_inertia=False
  )
  return Fit(
      scaling=scaling,
      centroids=history[-1].centroids,
      inertia=None,
      silhouette=None,
      history=history,
      privacy_spent=noise.spent,
  )
