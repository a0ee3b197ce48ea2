"""The methods that the benchmark compares."""

import dataclasses
import functools
from typing import Callable

import numpy as np

from clustering_basics import core_count
from dp_clustering import clustering
from dp_clustering import clustering_params
from dp_clustering import privacy_calculator
from experiments.dp_benchmark import data
from fl_clustering.points import privacy as privacy_lib

NOT_PRIVATE = "sklearn"
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


def _of_point(unit_points: int, epsilon: float, delta: float) -> tuple[float, float]:
  """Returns the budget of one point at which so many together have (epsilon, delta).

  They have so many times the mu of one (Dong, Roth, Su, "Gaussian Differential Privacy",
  2019, section 2.5).  At the same delta, that mu may have no epsilon above 0; at as small a part of
  the delta, it has.
  """
  if unit_points == 1:
    return epsilon, delta
  mu = privacy_calculator.gaussian_mu(epsilon, delta)
  own_delta = delta / unit_points
  return privacy_calculator.gaussian_epsilon(mu / unit_points, own_delta), own_delta


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
          *_of_point(dataset.unit_points, epsilon, delta)
      ),
      random_state=seed,
  ).centers


def _federated_centers(
    trust: str, dataset: data.BenchmarkDataset, k: int, epsilon: float, delta: float, seed: int
) -> np.ndarray:
  # scikit-learn, which these import, takes long to import.
  from dp_clustering import noise
  from fl_clustering.kmeans import kmeans_config
  from fl_clustering.kmeans import sums_fit

  budget = (epsilon, delta, data.RADIUS)
  privacy: privacy_lib.PointPrivacy | privacy_lib.ClientPrivacy
  if dataset.unit_points == 1:
    privacy = privacy_lib.PointPrivacy(*budget, trust)
  else:
    privacy = privacy_lib.ClientPrivacy(*budget, dataset.unit_points, trust)
  config = kmeans_config.KMeansConfig(k, privacy=privacy, seed=seed)
  held = privacy_lib.hold(dataset.clients(), dataset.points.shape[1:], privacy)
  return sums_fit.fit(config, held, noise.SeededNoise(seed)).centroids


@dataclasses.dataclass(frozen=True)
class Method:
  """A row of the registry.

  Attributes:
    label: What tables and figures call it.
    run: A function (dataset, k, epsilon, delta, seed) that returns centers, of shape (k, dim).  It
      ignores epsilon and delta if it is not private.  They are for `dataset.unit_points` points
      together.
    is_federated: Whether it sees sums over clients alone.
  """

  label: str
  run: Callable[..., np.ndarray]
  is_federated: bool = False


METHODS = {
    NOT_PRIVATE: Method("scikit-learn (not private)", _sklearn_centers),
    "lsh": Method("LSH tree", functools.partial(_private_centers, "lsh")),
    "refine": Method("split and refine", functools.partial(_private_centers, "refine")),
    "refine_server": Method(
        "federated, noise by the server",
        functools.partial(_federated_centers, privacy_lib.SERVER), is_federated=True,
    ),
    "refine_none": Method(
        "federated, noise by the clients",
        functools.partial(_federated_centers, privacy_lib.NONE), is_federated=True,
    ),
}
LABELS = {name: one.label for name, one in METHODS.items()}
CENTRAL = tuple(name for name, one in METHODS.items() if not one.is_federated)
