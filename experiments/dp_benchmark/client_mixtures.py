"""The two mixtures of FedDP-KMeans: points of clients, with a best loss that is known.

Scott, Lampert, Saulpic, "Differentially Private Federated k-Means Clustering with
Server-Side Data" (ICML 2025, https://arxiv.org/abs/2506.05408): ten Gaussians of variance
one half in 100 dimensions, with means uniform in the unit cube, and norms clipped at 11.
There the server has points of its own to start from; here it has none.
"""

import dataclasses

import numpy as np

from clustering_basics import core_count

NUM_CLUSTERS = 10
_DIM = 100
_VARIANCE = 0.5
# The radius of the ball that points are clipped to.
RADIUS = 11.0


@dataclasses.dataclass(frozen=True)
class MixtureSize:
  """How many points a mixture has, and what its privacy protects.

  Attributes:
    protects_clients: Whether privacy protects a client with all of its points, or one
      point.
    paper_epsilon: The epsilon at which the paper's setting is compared, with delta 1e-6.
  """

  num_clients: int
  points_per_client: int
  protects_clients: bool
  paper_epsilon: float


# By the names of the benchmark's data sets.
SIZES = {
    "mixture_100_clients": MixtureSize(100, 1_000, False, 4.0),
    "mixture_2000_clients": MixtureSize(2_000, 50, True, 3.2),
}


def draw(size: MixtureSize, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
  """Returns the points, one client's after the other's, and the means of their clusters.

  They are of shape (num_points, dim) and (NUM_CLUSTERS, dim).
  """
  means = rng.random((NUM_CLUSTERS, _DIM))
  num_points = size.num_clients * size.points_per_client
  clusters = rng.integers(NUM_CLUSTERS, size=num_points)
  noise = rng.normal(0, np.sqrt(_VARIANCE), (num_points, _DIM))
  return means[clusters] + noise, means


def optimal_loss(points: np.ndarray, means: np.ndarray) -> float:
  """Returns the loss per point, (num_points, dim), of k-means without privacy.

  It starts from the true means of the clusters, of shape (k, dim).
  """
  # Imported late: it takes most of a second, and bad flags should fail at once.
  from sklearn import cluster

  core_count.count_quietly()
  found = cluster.KMeans(len(means), init=means, n_init=1).fit(points)
  # The last digits depend on the number of threads.
  return round(found.inertia_ / len(points), 9)
