"""Federated multi-view k-means against its alternatives, on data sets or the user's own sites.

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
from experiments.multi_view import figures
from experiments.multi_view import methods
from experiments.multi_view import simulated_dha
from experiments.multi_view import summary
from fl_clustering.tables import views as views_lib
from fl_clustering.tasks import shares as shares_lib

_KEYS = {"dataset": str, "partition": str, "seed": int, "method": str, "view": str}
_IID, _DIRICHLET = "IID", "Dirichlet"
# The partition of the user's own rows.
AS_GIVEN = "as given"

Datasets = Mapping[str, data_lib.MultiViewData]


def _load(
    config: config_lib.MultiViewStudyConfig, stack: contextlib.ExitStack, *,
    features_dir: str | None = None, data_dir: str | None = None,
    schemas: views_lib.Schemas | None = None,
    advice: contextlib.AbstractContextManager[None] = contextlib.nullcontext(),
) -> tidy_experiment.Inputs:
  """Loads the data.

  Args:
    data_dir: Folder of the user's own sites, instead of data sets.
    schemas: What their views hold.
    advice: Adds to the errors of their files what the user can do.
  """
  del stack
  if data_dir is None:
    datasets = data_lib.load(config.datasets, features_dir)
  else:
    with advice:
      own = data_lib.load_folder(data_dir, schemas or {}, config.num_clusters)
    datasets = {own.name: own}
  return tidy_experiment.Inputs(
      datasets,
      identity=data_lib.describe(datasets.values()),
      lines=tuple(f"data: {one.source}" for one in datasets.values()),
  )


def _cells_of_data(
    data: data_lib.MultiViewData, config: config_lib.MultiViewStudyConfig
) -> Iterator[tuple[Any, ...]]:
  partitions = (AS_GIVEN,) if data.clients else (_IID, _DIRICHLET)
  for seed in config.seeds:
    for name, method in methods.METHODS.items():
      if method.needs_labels and data.labels is None:
        continue
      for partition in (summary.POOLED,) if method.place == "central" else partitions:
        for view in data.views if method.by_view else (methods.ALL_VIEWS,):
          yield data.name, partition, seed, name, view


def cells(config: config_lib.MultiViewStudyConfig, datasets: Datasets) -> list[dict[str, Any]]:
  """Returns what is measured, in this order."""
  found = [cell for one in datasets.values() for cell in _cells_of_data(one, config)]
  if data_lib.DEMONSTRATION in config.datasets:  # The tutorial's own seed first.
    found += [
        (data_lib.DEMONSTRATION, AS_GIVEN, simulated_dha.SOURCE_SEED + i, method, methods.ALL_VIEWS)
        for i in range(config.num_seeds) for method in simulated_dha.METHODS
    ]
  return [dict(zip(_KEYS, cell)) for cell in found]


def _shares(
    data: data_lib.MultiViewData, partition: str, config: config_lib.MultiViewStudyConfig,
    seed: int,
) -> dict[str, np.ndarray]:
  """Returns the indices of every client's points."""
  if partition in (AS_GIVEN, summary.POOLED):
    return data.clients or {"all": np.arange(data.num_points)}
  labels = np.asarray(data.labels)  # Data without classes are split already.
  rng = randomness.generator(seed, f"multi-view clients: {partition}")
  if partition == _IID:
    shares = shares_lib.iid_shares(labels, config.num_clients, rng)
  else:
    shares = shares_lib.dirichlet_shares(labels, config.num_clients, rng, config.dirichlet_alpha)
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
      settings, data.field_widths,
  )
  row = methods.METHODS[method]
  return row.run(problem, view) if row.by_view else row.run(problem)


def tidy_rows(outcome: methods.Outcome) -> dict[str, list[dict[str, Any]]]:
  """Returns the rows of a cell: its scores, and the details of a multi-view fit."""
  return {
      tidy_experiment.RESULTS: [
          {"metric": name, "value": value} for name, value in outcome.numbers.items()
      ],
      summary.ROUNDS: [
          {"round": index, "metric": "objective", "value": value}
          for index, value in enumerate(outcome.objectives)
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
    figures=figures.FIGURES,
    reading=summary.READING,
    tidy={
        tidy_experiment.RESULTS: {},
        summary.ROUNDS: {"round": int},
        summary.WEIGHTS: {"weighed": str},
        summary.POINTS: {"class": int, "cluster": int},
    },
    versions_of=("numpy", "scikit-learn", "scipy"),
    rechecks_finished=True,
)
