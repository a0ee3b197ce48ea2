"""The methods that the papers' study compares: functions of the clients and a seed.

Among them is FKM as its paper prints it, in NumPy and in one place, for comparison alone.
Its clients begin by sending rows picked by k-means++: raw data.  So it is no algorithm of
the library, whose clients can't send a row.

Reference:
  Swier Garst, Marcel Reinders. Federated K-Means Clustering. 2023, Algorithm 1.
  https://arxiv.org/abs/2310.01195
"""

import dataclasses
from typing import Any, Callable, Sequence

import numpy as np
from sklearn import cluster
from sklearn import metrics

from clustering_basics import agreement
from clustering_basics import core_count
from clustering_basics import randomness
from clustering_basics import single_thread_kmeans
from experiments.federated_kmeans import data
from fl_clustering.kmeans import estimator
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import server_step

_CENTRAL_RESTARTS = 10
_PRINTED_ROUNDS = 20
_PRINTED_LEAST_COUNT = 2
# Local numbers of clusters that informed k-FED tries, as shares of K.
_INFORMED_SHARES = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0)


@dataclasses.dataclass(frozen=True, eq=False)
class Found:
  """What a method found.

  Attributes:
    centroids: float64 of shape (K, d).
    by_round: The centroids after every round; empty for a central method.
    bytes_down_per_client: What each client was sent, in bytes, for all restarts.
    bytes_up_per_client: What each client sent, likewise.
    local_clusters: The local number of clusters, where it was chosen.
  """

  centroids: np.ndarray
  by_round: tuple[np.ndarray, ...] = ()
  bytes_down_per_client: int | None = None
  bytes_up_per_client: int | None = None
  local_clusters: int | None = None


Run = Callable[[data.LabelledClients, int], Found]


def nearest(points: np.ndarray, centroids: np.ndarray) -> np.ndarray:
  core_count.count_quietly()
  return metrics.pairwise_distances_argmin(points, centroids)


def _central(clients: data.LabelledClients, seed: int) -> Found:
  kmeans = single_thread_kmeans.fit(
      clients.pooled_points, clients.num_clusters, n_init=_CENTRAL_RESTARTS, random_state=seed
  )
  return Found(kmeans.cluster_centers_)


def _fit(
    clients: data.LabelledClients, seed: int, algorithm: kmeans_config.Algorithm
) -> Any:
  model = estimator.FederatedKMeans(
      clients.num_clusters, algorithm, keep_history=True, random_state=seed
  )
  return model.fit(clients.points)


def _federated(algorithm: kmeans_config.Algorithm) -> Run:
  def run(clients: data.LabelledClients, seed: int) -> Found:
    model = _fit(clients, seed, algorithm)
    restarts = algorithm.n_init
    return Found(
        model.cluster_centers_,
        tuple(record.centroids for record in model.history_),
        restarts * sum(record.bytes_down for record in model.history_),
        restarts * sum(record.bytes_up for record in model.history_),
    )

  return run


def _child_parent(lloyd_rounds: int, n_init: int = 1) -> Run:
  return _federated(
      kmeans_config.ChildParent(weight_by_counts=True, lloyd_rounds=lloyd_rounds, n_init=n_init)
  )


def _picked_rows(
    points: np.ndarray, num_clusters: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
  """Returns rows picked by k-means++, and how many points are nearest to each."""
  rows, _ = cluster.kmeans_plusplus(
      points, min(num_clusters, len(points)), random_state=int(rng.integers(2**32))
  )
  owners = nearest(points, rows)
  return rows, np.bincount(owners, minlength=len(rows))


def _local_means(
    points: np.ndarray, centroids: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the means of the centroids' points and their counts, without the empty ones."""
  owners = nearest(points, centroids)
  found, counts = np.unique(owners, return_counts=True)
  return np.array([points[owners == k].mean(axis=0) for k in found]), counts


def printed_fkm(
    clients: Sequence[np.ndarray], num_clusters: int, rng: np.random.Generator
) -> list[np.ndarray]:
  """Runs FKM as printed on clients' points, float64 of shape (n, d).

  Returns:
    The global centroids after every round, float32 of shape (K, d).
  """
  core_count.count_quietly()
  sent = [_picked_rows(points, num_clusters, rng) for points in clients]
  after_rounds = []
  for _ in range(_PRINTED_ROUNDS):
    kept = [
        (means[counts >= _PRINTED_LEAST_COUNT], counts[counts >= _PRINTED_LEAST_COUNT])
        for means, counts in sent
    ]
    means, weights = map(np.concatenate, zip(*kept))
    after_rounds.append(server_step.combined_means(means, weights, num_clusters, rng))
    sent = [_local_means(points, after_rounds[-1].astype(np.float64)) for points in clients]
  return after_rounds


def _printed(clients: data.LabelledClients, seed: int) -> Found:
  rng = randomness.generator(seed, "FKM as printed")
  by_round = printed_fkm(list(clients.points.values()), clients.num_clusters, rng)
  return Found(by_round[-1].astype(np.float64), tuple(by_round))


def _informed(clients: data.LabelledClients, seed: int) -> Found:
  points, labels = clients.pooled_points, clients.pooled_labels
  best: Any = None
  best_score = -np.inf
  for share in _INFORMED_SHARES:
    local_clusters = max(1, round(share * clients.num_clusters))
    model = _fit(clients, seed, kmeans_config.KFed(local_clusters=local_clusters))
    score = agreement.adjusted_rand_index(labels, model.predict(points))
    if score > best_score:
      best = Found(model.cluster_centers_, local_clusters=local_clusters)
      best_score = score
  return best


CENTRAL = "central"
DEFAULT = "sums"


@dataclasses.dataclass(frozen=True)
class Method:
  """A row of the registry: its label, what runs it, and its colour in figures if there is one."""

  label: str
  run: Run
  color: str | None = None


# Figures draw them in this order: the best come last, on top.
METHODS = {
    "kfed": Method("k-FED", _federated(kmeans_config.KFed()), "green"),
    "fkm": Method("FKM", _federated(kmeans_config.Fkm()), "vermilion"),
    "fkm_lloyd": Method("FKM, then Lloyd", _federated(kmeans_config.FkmLloyd()), "purple"),
    DEFAULT: Method("Sums (default)", _federated(kmeans_config.Sums()), "blue"),
    CENTRAL: Method("central k-means", _central, "grey"),
    "printed": Method("FKM as printed", _printed, "orange"),
    "informed": Method("k-FED, informed", _informed, "sky blue"),
    "lloyd": Method("Lloyd from random starts", _federated(kmeans_config.Lloyd()), "black"),
    "tff_minibatch": Method(
        "TFF's mini-batch", _federated(kmeans_config.TffMinibatch()), "yellow"
    ),
    "child_parent": Method("child/parent", _federated(kmeans_config.ChildParent())),
    "weighted": Method("child/parent, weighted", _child_parent(0)),
    "one_round": Method("weighted, 1 round of Lloyd", _child_parent(1)),
    "five_rounds": Method("weighted, 5 rounds of Lloyd", _child_parent(5)),
    "best_one_round": Method("best of 5, 1 round of Lloyd", _child_parent(1, n_init=5)),
    "best_five_rounds": Method("best of 5, 5 rounds of Lloyd", _child_parent(5, n_init=5)),
}
LABELS = {name: one.label for name, one in METHODS.items()}

_COMPARED = (CENTRAL, DEFAULT, "fkm_lloyd", "fkm", "kfed")
_ALL = (CENTRAL, DEFAULT, "fkm_lloyd", "fkm", "printed", "kfed", "informed", "lloyd")
_SSE = (
    CENTRAL, "child_parent", "weighted", "one_round", "five_rounds", "best_one_round",
    "best_five_rounds", "fkm_lloyd", DEFAULT,
)
# From a figure to the data, and from these to the methods, that it shows.
FIGURES: dict[str, dict[str, tuple[str, ...]]] = {
    "regular": {data.grid_name(beta, 50, 1.0): _ALL for beta in data.BETAS},
    "noise": {data.grid_name(*grid): _COMPARED for grid in data.GRID},
    "rounds": {
        data.grid_name(*grid): (CENTRAL, DEFAULT, "fkm") for grid in data.GRID if grid[1] == 50
    },
    "extreme": {
        data.extreme_name(noise): (*_ALL, "tff_minibatch") for noise in data.EXTREME_NOISES
    },
    "real": {data.REAL: (CENTRAL, DEFAULT, "fkm_lloyd", "fkm", "kfed", "informed", "lloyd")},
    "sse": {data.table_name(name): _SSE for name in data.TABLES},
}
