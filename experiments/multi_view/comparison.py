"""Federated multi-view k-means against its alternatives, on data sets.

A cell is a data set, a partition of its points over clients, a seed, a method, and the view of a
method that sees only one.
"""

import contextlib
from typing import Any, Iterator, Mapping

import numpy as np

from clustering_basics import randomness
from experiment_shell import tidy_experiment
from experiments.multi_view import config as config_lib
from experiments.multi_view import data as data_lib
from experiments.multi_view import methods
from experiments.multi_view import simulated_dha
from experiments.multi_view import summary
from experiments.own_tables import confusion
from fl_clustering.tasks import shares as shares_lib

_KEYS = {"dataset": str, "partition": str, "seed": int, "method": str, "view": str}
_IID, _DIRICHLET = "IID", "Dirichlet"
# The partition of the tutorial's data, which are drawn at clients.
_AS_GIVEN = "as given"

Datasets = Mapping[str, data_lib.MultiViewData]


def _load(
    config: config_lib.MultiViewStudyConfig, unused_stack: contextlib.ExitStack, *,
    features_dir: str | None = None,
) -> tidy_experiment.Inputs:
  datasets = data_lib.load(config.datasets, features_dir)
  return tidy_experiment.Inputs(
      datasets,
      identity={"datasets": {name: one.describe() for name, one in datasets.items()}},
      lines=tuple(f"data: {one.source}" for one in datasets.values()),
  )


def _cells_of_data(
    data: data_lib.MultiViewData, config: config_lib.MultiViewStudyConfig
) -> Iterator[tuple[Any, ...]]:
  for seed in config.seeds:
    for name, method in methods.METHODS.items():
      is_central = method.place == "central"
      for partition in (summary.POOLED,) if is_central else (_IID, _DIRICHLET):
        for view in data.views if method.by_view else (methods.ALL_VIEWS,):
          yield data.name, partition, seed, name, view


def cells(config: config_lib.MultiViewStudyConfig, datasets: Datasets) -> list[dict[str, Any]]:
  """Returns what is measured, in this order."""
  found = [cell for one in datasets.values() for cell in _cells_of_data(one, config)]
  if data_lib.DEMONSTRATION in config.datasets:
    first = simulated_dha.SOURCE_SEED  # The tutorial's own.
    found += [
        (data_lib.DEMONSTRATION, _AS_GIVEN, seed, method, methods.ALL_VIEWS)
        for seed in range(first, first + config.num_seeds) for method in simulated_dha.METHODS
    ]
  return [dict(zip(_KEYS, cell)) for cell in found]


def _shares(
    data: data_lib.MultiViewData, partition: str, config: config_lib.MultiViewStudyConfig,
    seed: int,
) -> dict[str, np.ndarray]:
  """Returns the indices of every client's points."""
  if partition == summary.POOLED:
    return {"all": np.arange(data.num_points)}
  rng = randomness.generator(seed, f"multi-view clients: {partition}")
  if partition == _IID:
    shares = shares_lib.iid_shares(data.labels, config.num_clients, rng)
  else:
    shares = shares_lib.dirichlet_shares(
        data.labels, config.num_clients, rng, config.dirichlet_alpha
    )
  return {f"client_{index}": share for index, share in enumerate(shares)}


def _outcome(
    config: config_lib.MultiViewStudyConfig, datasets: Datasets, dataset: str, partition: str,
    seed: int, method: str, view: str,
) -> methods.Outcome:
  settings = config.method_settings
  if dataset == data_lib.DEMONSTRATION:
    return simulated_dha.METHODS[method].run(simulated_dha.draw(seed, settings))
  data = datasets[dataset]
  problem = methods.Problem(
      data.views, data.labels, _shares(data, partition, config, seed), data.num_clusters, seed,
      settings,
  )
  row = methods.METHODS[method]
  return row.run(problem, view) if row.by_view else row.run(problem)


def tidy_rows(outcome: methods.Outcome) -> dict[str, list[dict[str, Any]]]:
  """Returns the rows of a cell: its scores, and the details of a multi-view fit."""
  return {
      tidy_experiment.RESULTS: [
          {"metric": name, "value": value} for name, value in outcome.numbers.items()
      ],
      summary.WEIGHTS: [
          {"weighed": view, "metric": "weight", "value": weight}
          for view, weight in outcome.view_weights.items()
      ],
      summary.POINTS: [
          {"class": label, "cluster": cluster, "metric": "points", "value": count}
          for (label, cluster), count in np.ndenumerate(outcome.points)
      ],
  }


def _measure(
    whole: tidy_experiment.Run, dataset: str, **others: Any
) -> dict[str, list[dict[str, Any]]]:
  return tidy_rows(_outcome(whole.config, whole.data, dataset, **others))


EXPERIMENT = tidy_experiment.Experiment(
    name="multi_view",
    title="Federated multi-view k-means",
    keys=_KEYS,
    load=_load,
    cells=cells,
    measure=_measure,
    summarise=summary.summarise,
    headlines=summary.HEADLINES,
    tables=summary.TABLES,
    figures=(
        tidy_experiment.Figure(
            "confusion", "Percent of each class in each cluster (seed {seed})",
            f"{confusion.READING} Of several partitions, clients are those of the most skewed one. "
            "Regret weights are left out.",
            confusion.draw, panels="panel",
        ),
    ),
    reading=summary.READING,
    tidy={
        tidy_experiment.RESULTS: {},
        summary.WEIGHTS: {"weighed": str},
        summary.POINTS: {"class": int, "cluster": int},
    },
    versions_of=("numpy", "scikit-learn", "scipy"),
    rechecks_finished=True,
)
