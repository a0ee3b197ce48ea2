"""What is measured: one cell per data set, partition, seed, method and view."""

from typing import Any, Callable, Iterator

import numpy as np

from clustering_basics import randomness
from experiments.multiview import config as config_lib
from experiments.multiview import data as data_lib
from experiments.multiview import methods
from experiments.multiview import simulated_dha
from fl_clustering.tasks import shares as shares_lib

KEYS = ("dataset", "partition", "seed", "method", "view")

IID = "IID"
DIRICHLET = "Dirichlet"
AS_GIVEN = "as given"
# The partition of a central method, which has no clients.
POOLED = "pooled"


def _share(
    data: data_lib.MultiViewData, partition: str, config: config_lib.MultiViewStudyConfig,
    seed: int,
) -> dict[str, np.ndarray]:
  """Returns the indices of every client's points."""
  if partition in (AS_GIVEN, POOLED):
    return data.clients or {"all": np.arange(data.num_points)}
  labels = np.asarray(data.labels)  # Data without classes are split already.
  rng = randomness.generator(seed, f"multi-view clients: {partition}")
  if partition == IID:
    shares = shares_lib.iid_shares(labels, config.num_clients, rng)
  else:
    shares = shares_lib.dirichlet_shares(
        labels, config.num_clients, rng, config.dirichlet_alpha
    )
  return {f"client_{index}": share for index, share in enumerate(shares)}


def _cell(*values: Any) -> dict[str, Any]:
  return dict(zip(KEYS, values))


def _data_cells(
    data: data_lib.MultiViewData, config: config_lib.MultiViewStudyConfig
) -> Iterator[dict[str, Any]]:
  partitions = (AS_GIVEN,) if data.clients else (IID, DIRICHLET)
  for seed in config.seeds:
    for name, method in methods.METHODS.items():
      if method.needs_labels and data.labels is None:
        continue
      for partition in (POOLED,) if method.place == "central" else partitions:
        for view in data.views if method.by_view else (methods.ALL_VIEWS,):
          yield _cell(data.name, partition, seed, name, view)


def _demonstration_cells(
    config: config_lib.MultiViewStudyConfig
) -> Iterator[dict[str, Any]]:
  # The tutorial's own seed first.
  for seed in range(simulated_dha.SOURCE_SEED, simulated_dha.SOURCE_SEED + config.num_seeds):
    for row in simulated_dha.ROWS:
      yield _cell(data_lib.DEMONSTRATION, AS_GIVEN, seed, row, methods.ALL_VIEWS)


def cells(
    loaded: data_lib.LoadedData, config: config_lib.MultiViewStudyConfig
) -> list[dict[str, Any]]:
  """Returns all cells, as dicts with `KEYS`."""
  found = [cell for one in loaded.datasets.values() for cell in _data_cells(one, config)]
  return found + (list(_demonstration_cells(config)) if loaded.with_demonstration else [])


def problem(
    data: data_lib.MultiViewData, partition: str, seed: int,
    config: config_lib.MultiViewStudyConfig,
) -> methods.Problem:
  """Returns the problem of a data set whose points are split over clients by a partition."""
  return methods.Problem(
      data.views, data.labels, _share(data, partition, config, seed), data.num_clusters, seed,
      config.method_settings,
  )


def build_measure(
    loaded: data_lib.LoadedData, config: config_lib.MultiViewStudyConfig
) -> Callable[..., dict[str, Any]]:
  """Returns the function that measures a cell: its keys -> a dict with `methods.VALUES`."""

  def measure(
      dataset: str, partition: str, seed: int, method: str, view: str
  ) -> dict[str, Any]:
    if dataset == data_lib.DEMONSTRATION:
      drawn = simulated_dha.draw(seed, config.method_settings)
      return simulated_dha.ROWS[method].run(drawn).to_row()
    arguments: list[Any] = [problem(loaded.datasets[dataset], partition, seed, config)]
    row = methods.METHODS[method]
    if row.by_view:
      arguments.append(view)
    return row.run(*arguments).to_row()

  return measure
