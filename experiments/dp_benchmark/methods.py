"""The methods that the benchmark compares.

A method is a function (dataset, k, epsilon, delta, seed) that returns centers, of shape (k, dim).
It ignores epsilon or delta if it has no such parameter.  They are for `dataset.unit_points` points
together.
"""

import functools
from typing import Callable

import numpy as np

from clustering_basics import core_count
from dp_clustering import clustering
from dp_clustering import clustering_params
from dp_clustering import privacy_calculator
from experiments.dp_benchmark import data
from fl_clustering.points import privacy as privacy_lib

# The label of each method in tables and figures.
LABELS = {
    "sklearn": "scikit-learn (not private)",
    "lsh": "LSH tree",
    "refine": "split and refine",
    "refine_server": "federated, noise by the server",
    "refine_none": "federated, noise by the clients",
}
NOT_PRIVATE = "sklearn"
# `refine` on sums over clients, and who adds the noise.
FEDERATED = {"refine_server": privacy_lib.SERVER, "refine_none": privacy_lib.NONE}
CENTRAL = tuple(name for name in LABELS if name not in FEDERATED)

# scikit-learn's default when Google's benchmarks were made.  With today's default, 1,
# k-means without privacy is often worse than private k-means.
_NUM_STARTS = 10


def _sklearn_centers(
    dataset: data.BenchmarkDataset, k: int, unused_epsilon: float, unused_delta: float, seed: int
) -> np.ndarray:
  # Imported late: it takes most of a second, and bad flags should fail at once.
  from sklearn import cluster

  core_count.count_quietly()
  kmeans = cluster.KMeans(n_clusters=k, n_init=_NUM_STARTS, random_state=seed)
  return kmeans.fit(dataset.points).cluster_centers_


def _point_epsilon(unit_points: int, epsilon: float, delta: float) -> float:
  """Returns the epsilon of one point at which so many together have `epsilon`.

  They have so many times the mu of one (Dong, Roth, Su, "Gaussian Differential Privacy",
  2019, section 2.5).  The delta is that of both.
  """
  if unit_points == 1:
    return epsilon
  mu = privacy_calculator.gaussian_mu(epsilon, delta)
  return privacy_calculator.gaussian_epsilon(mu / unit_points, delta)


def _private_centers(
    method: str, dataset: data.BenchmarkDataset, k: int, epsilon: float, delta: float,
    seed: int | None,
) -> np.ndarray:
  """Returns centers by one of `clustering.METHODS`; without a seed, noise is secure."""
  return clustering.METHODS[method](
      k,
      clustering_params.Data(
          dataset.points, data.RADIUS, public_num_points=dataset.public_num_points
      ),
      clustering_params.DifferentialPrivacyParam(
          _point_epsilon(dataset.unit_points, epsilon, delta), delta
      ),
      random_state=seed,
  ).centers


def _federated_centers(
    trust: str, dataset: data.BenchmarkDataset, k: int, epsilon: float, delta: float, seed: int
) -> np.ndarray:
  # scikit-learn, which these import, takes long to import.
  # pylint: disable=g-import-not-at-top
  from dp_clustering import noise
  from fl_clustering.kmeans import kmeans_config
  from fl_clustering.kmeans import private_fit
  from fl_clustering.points import secure_sums
  # pylint: enable=g-import-not-at-top

  budget = (epsilon, delta, data.RADIUS)
  privacy: privacy_lib.PointPrivacy | privacy_lib.ClientPrivacy
  if dataset.unit_points == 1:
    privacy = privacy_lib.PointPrivacy(*budget, trust)
  else:
    privacy = privacy_lib.ClientPrivacy(*budget, dataset.unit_points, trust)
  config = kmeans_config.KMeansConfig(k, privacy=privacy, seed=seed)
  held = private_fit.hold(dataset.clients(), privacy, secure_sums.hold)
  return private_fit.fit(config, held, noise.SeededNoise(seed)).centroids


METHODS: dict[str, Callable[..., np.ndarray]] = {
    "sklearn": _sklearn_centers,
    "lsh": functools.partial(_private_centers, "lsh"),
    "refine": functools.partial(_private_centers, "refine"),
    **{name: functools.partial(_federated_centers, trust) for name, trust in FEDERATED.items()},
}
