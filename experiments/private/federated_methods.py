"""`refine` on secure sums over clients, as methods of the benchmark."""

import functools
from typing import Callable

import numpy as np

from clustering_basics import randomness
from dp_clustering import noise
from experiments.private import data
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import private_fit
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums

# Who adds the noise, by the names of the methods.
_TRUST = {"refine_server": privacy_lib.SERVER, "refine_none": privacy_lib.NONE}


def clients(dataset: data.BenchmarkDataset, seed: int) -> dict[str, np.ndarray]:
  """Returns the points of every client, by id; the seed splits data without clients."""
  sizes = dataset.client_sizes
  if sizes:
    parts = np.split(dataset.points, np.cumsum(sizes)[:-1])
  else:
    rng = randomness.generator(seed, "private benchmark: clients")
    parts = np.array_split(rng.permutation(dataset.points), data.NUM_CLIENTS)
  return {str(index): part for index, part in enumerate(parts)}


def _privacy(
    dataset: data.BenchmarkDataset, epsilon: float, delta: float, trust: str
) -> privacy_lib.PointPrivacy | privacy_lib.ClientPrivacy:
  if dataset.unit_points == 1:
    return privacy_lib.PointPrivacy(epsilon, delta, data.RADIUS, trust)
  return privacy_lib.ClientPrivacy(epsilon, delta, data.RADIUS, dataset.unit_points, trust)


def _centers(
    trust: str, dataset: data.BenchmarkDataset, k: int, epsilon: float, delta: float, seed: int
) -> np.ndarray:
  privacy = _privacy(dataset, epsilon, delta, trust)
  config = kmeans_config.KMeansConfig(k, privacy=privacy, seed=seed)
  held = private_fit.hold(clients(dataset, seed), privacy, secure_sums.hold)
  return private_fit.fit(config, held, noise.SeededNoise(seed)).centroids


METHODS: dict[str, Callable[..., np.ndarray]] = {
    name: functools.partial(_centers, trust) for name, trust in _TRUST.items()
}
