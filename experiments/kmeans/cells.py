"""What is measured: one cell per data set, seed and method, and which figure shows it."""

import dataclasses
import statistics
import tempfile
import time
from typing import Any, Callable, Iterable

import numpy as np
from sklearn import metrics

from clustering_basics import agreement
from experiment_shell import output_folder
from experiment_shell import study
from experiments.kmeans import config as config_lib
from experiments.kmeans import data as data_lib
from experiments.kmeans import methods
from fl_clustering import runtime

KEYS = ("data", "seed", "method")
VALUES = (
    "ari", "client_ari", "inertia", "silhouette", "simplified_silhouette", "rounds",
    "bytes_down", "bytes_up", "local_clusters", "ari_by_round",
)

COMPARED = ("central", "sums", "fkm_lloyd", "fkm", "kfed")
_ALL = ("central", "sums", "fkm_lloyd", "fkm", "printed", "kfed", "informed")
TABLE_METHODS = (
    "central", "child_parent", "weighted", "one_round", "five_rounds", "best_one_round",
    "best_five_rounds", "fkm_lloyd", "sums",
)
# In the figure of private fits, besides those with noise.
REFERENCES = ("true_centers", "central", "sums")


_PRIVATE = tuple(
    methods.private_name(kind, epsilon)
    for kind in methods.PRIVATE for epsilon in methods.EPSILONS
)

# The methods whose rounds are shown.
_WITH_ROUNDS = ("sums", "fkm")

# The rounds that `measure_dispatch` times.
_NUM_CLIENTS = 5
_POINTS_PER_CLIENT = 20
_CANDIDATES_SHAPE = (5, 16, 2)
_REPEATS = 20


@dataclasses.dataclass(frozen=True)
class Figure:
  """A figure or table of the papers.

  Attributes:
    cells: Pairs (data, methods) that it shows.
  """

  title: str
  cells: tuple[tuple[str, tuple[str, ...]], ...]


def _grid(
    points_per_cluster: Iterable[int], noises: Iterable[float], compared: tuple[str, ...]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
  return tuple(
      (data_lib.grid_name(beta, points, noise), compared)
      for beta in data_lib.BETAS for points in points_per_cluster for noise in noises
  )


FIGURES = {
    "regular": Figure("Figure 1: regular grid", _grid((50,), (1.0,), _ALL + ("lloyd",))),
    "noise": Figure(
        "Figures 2, 3a-c and 6: more noise", _grid(data_lib.POINTS, data_lib.NOISES, COMPARED)
    ),
    "rounds": Figure(
        "Figure 3d-f: rounds", _grid((50,), data_lib.NOISES, ("central", "sums", "fkm"))
    ),
    "extreme": Figure(
        "Figure 4: extreme split",
        tuple((data_lib.extreme_name(noise), _ALL + ("lloyd", "tff_minibatch"))
              for noise in data_lib.EXTREME_NOISES),
    ),
    "real": Figure(
        "Figure 5: real data",
        ((data_lib.REAL, ("central", "sums", "fkm_lloyd", "fkm", "kfed", "informed", "lloyd")),),
    ),
    "sse": Figure(
        "Child/parent: sums of squared errors",
        tuple((data_lib.table_name(name), TABLE_METHODS) for name in data_lib.TABLES),
    ),
    "privacy": Figure(
        "The price of privacy",
        tuple((data_lib.private_grid_name(noise), (*REFERENCES, *_PRIVATE))
              for noise in data_lib.PRIVATE_NOISES),
    ),
}


def cells(figures: Iterable[str], seeds: Iterable[int]) -> list[dict[str, Any]]:
  """Returns the cells of these figures as dicts with `KEYS`, each once."""
  found = {
      (name, seed, method): None
      for figure in figures for name, compared in FIGURES[figure].cells
      for seed in seeds for method in compared
  }
  return [dict(zip(KEYS, cell)) for cell in found]


def _client_ari(clients: data_lib.LabelledClients, centroids: np.ndarray) -> float:
  """Returns the clients' own adjusted Rand indices, averaged by their size."""
  scores = [
      agreement.adjusted_rand_index(
          clients.labels[client_id], methods.nearest(points, centroids)
      )
      for client_id, points in clients.points.items()
  ]
  return float(
      np.average(scores, weights=[len(points) for points in clients.points.values()])
  )


def _scores(
    clients: data_lib.LabelledClients, found: methods.Found, with_silhouette: bool
) -> dict[str, Any]:
  points, labels = clients.pooled_points, clients.pooled_labels
  distances = np.sort(metrics.pairwise_distances(points, found.centroids), axis=1)
  owners = methods.nearest(points, found.centroids)
  own, other = distances[:, 0], distances[:, 1]
  return {
      "ari": agreement.adjusted_rand_index(labels, owners),
      "client_ari": _client_ari(clients, found.centroids),
      "inertia": float((own**2).sum()),
      # It needs the distances of all pairs of points, so most data go without.
      "silhouette": metrics.silhouette_score(points, owners) if with_silhouette else None,
      "simplified_silhouette": float(np.mean((other - own) / np.maximum(other, 1e-300))),
  }


def _ari_by_round(clients: data_lib.LabelledClients, found: methods.Found) -> str:
  points, labels = clients.pooled_points, clients.pooled_labels
  return " ".join(
      f"{agreement.adjusted_rand_index(labels, methods.nearest(points, centroids)):.6f}"
      for centroids in found.by_round
  )


def build_measure(
    draw: Callable[[str, int], data_lib.LabelledClients]
) -> Callable[..., dict[str, Any]]:
  """Returns the function that measures a cell: its keys -> a dict with `VALUES`.

  Args:
    draw: A function from (name of the data, seed) to their clients.
  """

  def measure(data: str, seed: int, method: str) -> dict[str, Any]:
    clients = draw(data, seed)
    found = methods.METHODS[method].run(clients, seed)
    with_rounds = method in _WITH_ROUNDS and data.startswith("grid")
    return {
        **_scores(clients, found, with_silhouette=data == data_lib.REAL),
        "rounds": len(found.by_round) or None,
        "bytes_down": found.bytes_down,
        "bytes_up": found.bytes_up,
        "local_clusters": found.local_clusters,
        "ari_by_round": _ari_by_round(clients, found) if with_rounds else None,
    }

  return measure


def measure_dispatch() -> dict[str, Any]:
  """Times rounds that compute next to nothing: what TFF itself costs; needs its runtime.

  They are rounds of Lloyd with five clients of twenty points each; the result is the number
  of clients and the median seconds per round.
  """
  # pylint: disable=g-import-not-at-top
  from fl_clustering.kmeans import rounds as rounds_lib
  from fl_clustering.points import point_files
  # pylint: enable=g-import-not-at-top

  rng = np.random.default_rng(0)
  clients = {
      f"client_{index}": rng.standard_normal((_POINTS_PER_CLIENT, 2))
      for index in range(_NUM_CLIENTS)
  }
  candidates = rng.standard_normal(_CANDIDATES_SHAPE).astype(np.float32)
  with tempfile.TemporaryDirectory() as folder:
    files = point_files.write_files(clients, folder)
    rounds = rounds_lib.Rounds(files, len(candidates))
    rounds.lloyd(candidates)  # Builds the computation.
    times = []
    for _ in range(_REPEATS):
      start = time.perf_counter()
      rounds.lloyd(candidates)
      times.append(time.perf_counter() - start)
  return {"num_clients": _NUM_CLIENTS, "seconds_per_round": statistics.median(times)}


def measure_all(
    config: config_lib.PaperConfig, draw: Callable[[str, int], data_lib.LabelledClients],
    folder: output_folder.OutputFolder,
) -> None:
  """Measures the cells that have no row yet, and the dispatch of TFF; writes the files.

  Args:
    draw: As of `build_measure`.
  """
  import threadpoolctl  # pylint: disable=g-import-not-at-top

  table = study.Study(folder, config_lib.MEASUREMENTS, KEYS, VALUES)
  # One thread: for so few points scikit-learn's several are ten times slower where other
  # programs run too, and add up in an order that changes from run to run.
  with runtime.LocalRuntime(), threadpoolctl.threadpool_limits(1):
    table.run(cells(config.figures, config.seeds), build_measure(draw))
    dispatch = measure_dispatch()
  folder.write_text(config_lib.TIMING, output_folder.json_text(dispatch))
