"""What is measured: one cell per data set, partition, seed, method and view."""

import numpy as np

from clustering_basics import randomness
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


def _share(data, partition, config, seed):
  """Returns the indices of every client's points."""
  if partition in (AS_GIVEN, POOLED):
    return data.sites or {"all": np.arange(data.num_points)}
  rng = randomness.generator(seed, f"multi-view clients: {partition}")
  if partition == IID:
    shares = shares_lib.iid_shares(data.labels, config.num_clients, rng)
  else:
    shares = shares_lib.dirichlet_shares(
        data.labels, config.num_clients, rng, config.dirichlet_alpha
    )
  return {f"client_{index}": share for index, share in enumerate(shares)}


def _cell(*values):
  return dict(zip(KEYS, values))


def _data_cells(data, config):
  partitions = (AS_GIVEN,) if data.sites else (IID, DIRICHLET)
  for seed in config.seeds:
    for name, method in methods.METHODS.items():
      if method.needs_labels and data.labels is None:
        continue
      for partition in (POOLED,) if method.place == "central" else partitions:
        for view in data.views if method.by_view else (methods.ALL_VIEWS,):
          yield _cell(data.name, partition, seed, name, view)


def _demonstration_cells(config):
  # The tutorial's own seed first.
  for seed in range(simulated_dha.SOURCE_SEED, simulated_dha.SOURCE_SEED + config.num_seeds):
    for row in simulated_dha.ROWS:
      yield _cell(data_lib.DEMONSTRATION, AS_GIVEN, seed, row, methods.ALL_VIEWS)


def cells(loaded, config):
  """Returns all cells, as dicts with `KEYS`.

  Args:
    loaded: The `LoadedData`.
    config: The `MultiViewStudyConfig`.
  """
  found = [cell for one in loaded.datasets.values() for cell in _data_cells(one, config)]
  return found + (list(_demonstration_cells(config)) if loaded.with_demonstration else [])


def problem(data, partition, seed, config):
  """Returns the `methods.Problem` of a data set.

  Args:
    data: The `MultiViewData`.
    partition: How its points are split over clients.
    seed: Seed of the partition and of the methods.
    config: The `MultiViewStudyConfig`.
  """
  return methods.Problem(
      data.views, data.labels, _share(data, partition, config, seed), data.num_clusters, seed,
      config.method_settings,
  )


def build_measure(loaded, config):
  """Returns the function that measures a cell: its keys -> a dict with `methods.VALUES`.

  Args:
    loaded: The `LoadedData`.
    config: The `MultiViewStudyConfig`.
  """

  def measure(dataset, partition, seed, method, view):
    if dataset == data_lib.DEMONSTRATION:
      drawn = simulated_dha.draw(seed, config.method_settings)
      return simulated_dha.ROWS[method].run(drawn).to_row()
    arguments = [problem(loaded.datasets[dataset], partition, seed, config)]
    row = methods.METHODS[method]
    if row.by_view:
      arguments.append(view)
    return row.run(*arguments).to_row()

  return measure
