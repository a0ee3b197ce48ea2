"""The papers' study: how close federated k-means comes to k-means on all points."""

import contextlib
import dataclasses
import functools
from typing import Any, Callable, Iterator

import numpy as np
from sklearn import metrics

from clustering_basics import agreement
from clustering_basics import extras
from clustering_basics import validate
from experiment_shell import tidy_experiment
from experiments.federated_kmeans import config as config_lib
from experiments.federated_kmeans import data as data_lib
from experiments.federated_kmeans import figures
from experiments.federated_kmeans import methods
from experiments.federated_kmeans import summary
from fl_clustering import runtime


@dataclasses.dataclass(frozen=True, eq=False)
class Study:
  """What a cell is measured with.

  Attributes:
    draw: From the name of the data and a seed to their clients.
    start: Starts TensorFlow Federated, once.
  """

  draw: Callable[[str, int], data_lib.LabelledClients]
  start: Callable[[], None]


def _load(
    config: config_lib.PaperConfig, stack: contextlib.ExitStack, *, cache_dir: str | None = None
) -> tidy_experiment.Inputs:
  """Finds the data; `cache_dir` is TFF's cache folder, or None."""
  if not extras.has_tff():
    rule = f"be given where TensorFlow Federated isn't installed ({extras.advice()})"
    raise validate.error("data_dir", rule, None)
  described = data_lib.describe(config, cache_dir)

  @functools.cache
  def start() -> None:
    import threadpoolctl  # pylint: disable=g-import-not-at-top

    stack.enter_context(runtime.LocalRuntime())
    # One thread: for so few points scikit-learn's several are ten times slower where other
    # programs run too, and add up in an order that changes from run to run.
    stack.enter_context(threadpoolctl.threadpool_limits(1))

  return tidy_experiment.Inputs(
      Study(data_lib.build_draw(described.get("dataset"), cache_dir), start),
      identity={"data": described},
      lines=tuple(f"data: {what}: {source}" for what, source in described.items()),
  )


def cells(config: config_lib.PaperConfig, unused_study: Any = None) -> list[dict[str, Any]]:
  """Returns what is measured, each once though several figures show it."""
  found = {
      (data, seed, method): None
      for figure in config.figures for data, compared in methods.FIGURES[figure].items()
      for seed in config.seeds for method in compared
  }
  return [dict(zip(EXPERIMENT.keys, cell)) for cell in found]


def _scores(
    clients: data_lib.LabelledClients, found: methods.Found, with_silhouette: bool
) -> Iterator[tuple[str, float | None]]:
  points, labels = clients.pooled_points, clients.pooled_labels
  own, other = np.sort(metrics.pairwise_distances(points, found.centroids), axis=1)[:, :2].T
  owners = methods.nearest(points, found.centroids)
  yield "ari", agreement.adjusted_rand_index(labels, owners)
  of_clients = [
      agreement.adjusted_rand_index(clients.labels[name], methods.nearest(rows, found.centroids))
      for name, rows in clients.points.items()
  ]
  sizes = list(map(len, clients.points.values()))
  yield "client_ari", float(np.average(of_clients, weights=sizes))
  yield "inertia", (own**2).sum()
  # It needs the distances of all pairs of points, so most data go without.
  yield "silhouette", metrics.silhouette_score(points, owners) if with_silhouette else None
  yield "simplified_silhouette", float(np.mean((other - own) / np.maximum(other, 1e-300)))
  yield "rounds", len(found.by_round) or None
  for name in ("bytes_down_per_client", "bytes_up_per_client", "local_clusters"):
    yield name, getattr(found, name)


def _measure(
    whole: tidy_experiment.Run, data: str, seed: int, method: str
) -> dict[str, list[dict[str, Any]]]:
  """Returns the scores, which are exact, and those after every round."""
  whole.data.start()
  clients = whole.data.draw(data, seed)
  found = methods.METHODS[method](clients, seed)
  is_shown = "rounds" in whole.config.figures and method in methods.FIGURES["rounds"].get(data, ())
  return {
      tidy_experiment.RESULTS: [
          {"metric": metric, "value": float(value)}
          for metric, value in _scores(clients, found, data == data_lib.REAL) if value is not None
      ],
      summary.BY_ROUND: [
          {"round": number, "metric": "ari", "value": agreement.adjusted_rand_index(
              clients.pooled_labels, methods.nearest(clients.pooled_points, centroids)
          )}
          for number, centroids in enumerate(found.by_round if is_shown else (), start=1)
      ],
  }


EXPERIMENT = tidy_experiment.Experiment(
    name="federated_kmeans",
    title="Federated k-means: the papers' experiments",
    keys={"data": str, "seed": int, "method": str},
    load=_load,
    cells=cells,
    measure=_measure,
    summarise=summary.summarise,
    headlines=summary.HEADLINES,
    tables=summary.TABLES,
    figures=figures.FIGURES,
    reading=summary.READING,
    tidy={tidy_experiment.RESULTS: {}, summary.BY_ROUND: {"round": int}},
    versions_of=("numpy", "scikit-learn", "tensorflow", "tensorflow-federated"),
    failures=(runtime.WorkerLost,),
)
