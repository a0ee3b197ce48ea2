"""What is measured: one cell per data set, seed and method, and which figure shows it."""

import dataclasses

import numpy as np
from sklearn import metrics

from clustering_basics import randomness
from experiments.kmeans import grid_data
from experiments.kmeans import methods
from experiments.kmeans import real_data

KEYS = ("data", "seed", "method")
VALUES = (
    "ari", "client_ari", "inertia", "silhouette", "simplified_silhouette", "rounds",
    "bytes_down", "bytes_up", "local_clusters", "ari_by_round",
)

BETAS = (0.1, 1.0, 10.0)
NOISES = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5)
POINTS = (50, 100, 200)
EXTREME_NOISES = (1.0, 1.5)
REAL = "real"

_COMPARED = ("central", "fkm_lloyd", "fkm", "kfed")
_ALL = ("central", "fkm_lloyd", "fkm", "printed", "kfed", "informed")
TABLE_METHODS = (
    "central", "child_parent", "weighted", "one_round", "five_rounds", "best_one_round",
    "best_five_rounds", "fkm_lloyd",
)


def grid_name(beta, points, noise):
  return f"grid beta={beta:g} points={points} noise={noise:g}"


def extreme_name(noise):
  return f"extreme noise={noise:g}"


def table_name(name):
  return f"table {name}"


@dataclasses.dataclass(frozen=True)
class Figure:
  """A figure or table of the sources.

  Attributes:
    title: What it is in its source.
    cells: Pairs (data, methods) that it shows.
  """

  title: str
  cells: tuple[tuple[str, tuple[str, ...]], ...]


def _grid(points_per_cluster, noises, compared):
  return tuple(
      (grid_name(beta, points, noise), compared)
      for beta in BETAS for points in points_per_cluster for noise in noises
  )


FIGURES = {
    "regular": Figure("Figure 1: regular grid", _grid((50,), (1.0,), _ALL + ("lloyd",))),
    "noise": Figure("Figures 2, 3a-c and 6: more noise", _grid(POINTS, NOISES, _COMPARED)),
    "rounds": Figure(
        "Figure 3d-f: rounds", _grid((50,), NOISES, ("central", "fkm_lloyd", "fkm"))
    ),
    "extreme": Figure(
        "Figure 4: extreme split",
        tuple((extreme_name(noise), _ALL + ("lloyd", "tff_minibatch"))
              for noise in EXTREME_NOISES),
    ),
    "real": Figure("Figure 5: real data", ((REAL, ("central", "fkm_lloyd", "fkm", "kfed",
                                                     "informed", "lloyd")),)),
    "sse": Figure(
        "Child/parent: sums of squared errors",
        tuple((table_name(name), TABLE_METHODS) for name in real_data.TABLES),
    ),
}


def cells(figures, seeds):
  """Returns the cells of these figures as dicts with `KEYS`, each once.

  Args:
    figures: Keys of `FIGURES`.
    seeds: The seeds.
  """
  found = {
      (data, seed, method): None
      for figure in figures for data, compared in FIGURES[figure].cells
      for seed in seeds for method in compared
  }
  return [dict(zip(KEYS, cell)) for cell in found]


def draw_grid(beta, points, noise, seed):
  """Returns the `LabelledClients` of a regular grid."""
  # The same points for every beta, as in the paper.
  rng = randomness.generator(seed, f"grid: {points} points, noise {noise:g}")
  sampled, clusters = grid_data.sample_points(points, noise, rng)
  rng = randomness.generator(seed, f"grid: beta {beta:g}")
  return grid_data.split_by_place(sampled, clusters, beta, rng)


def draw_extreme(noise, seed):
  """Returns the `LabelledClients` of the extreme split."""
  rng = randomness.generator(seed, f"extreme split: noise {noise:g}")
  return grid_data.extreme_split(noise, rng)


_SYNTHETIC = {
    **{grid_name(beta, points, noise): (draw_grid, beta, points, noise)
       for beta in BETAS for points in POINTS for noise in NOISES},
    **{extreme_name(noise): (draw_extreme, noise) for noise in EXTREME_NOISES},
    **{table_name(name): (real_data.load_table, name) for name in real_data.TABLES},
}


def draw(data, seed, load_real):
  """Returns the `LabelledClients` of a cell.

  Args:
    data: Name of the data.
    seed: The seed.
    load_real: A function from a seed to the digits' clients.
  """
  if data == REAL:
    return load_real(seed)
  draw_one, *settings = _SYNTHETIC[data]
  return draw_one(*settings, seed)


def _client_ari(clients, centroids):
  """Returns the clients' own adjusted Rand indices, averaged by their size."""
  scores = [
      metrics.adjusted_rand_score(
          clients.labels[client_id], methods.nearest(points, centroids)
      )
      for client_id, points in clients.points.items()
  ]
  return np.average(scores, weights=[len(points) for points in clients.points.values()])


def _scores(clients, found, with_silhouette):
  points, labels = clients.pooled_points, clients.pooled_labels
  distances = np.sort(metrics.pairwise_distances(points, found.centroids), axis=1)
  owners = methods.nearest(points, found.centroids)
  own, other = distances[:, 0], distances[:, 1]
  return {
      "ari": metrics.adjusted_rand_score(labels, owners),
      "client_ari": _client_ari(clients, found.centroids),
      "inertia": float((own**2).sum()),
      # Pairwise distances of all points, and worth them in many columns only.
      "silhouette": metrics.silhouette_score(points, owners) if with_silhouette else None,
      "simplified_silhouette": float(np.mean((other - own) / np.maximum(other, 1e-300))),
  }


def build_measure(load_real):
  """Returns the function that measures a cell: its keys -> a dict with `VALUES`."""

  def measure(data, seed, method):
    clients = draw(data, seed, load_real)
    found = methods.METHODS[method].run(clients, seed)
    points, labels = clients.pooled_points, clients.pooled_labels
    by_round = None
    if data.startswith("grid") and found.by_round:
      by_round = " ".join(
          f"{metrics.adjusted_rand_score(labels, methods.nearest(points, centroids)):.6f}"
          for centroids in found.by_round
      )
    return {
        **_scores(clients, found, with_silhouette=data == REAL),
        "rounds": len(found.by_round) or None,
        "bytes_down": found.bytes_down,
        "bytes_up": found.bytes_up,
        "local_clusters": found.local_clusters,
        "ari_by_round": by_round,
    }

  return measure
