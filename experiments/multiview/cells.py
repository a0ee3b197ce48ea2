"""What is measured: one cell per data set, partition, seed and method."""

import numpy as np

from clustering_basics import randomness
from experiments.multiview import config as config_lib
from experiments.multiview import demonstration
from experiments.multiview import methods
from experiments.multiview import simulated_dha
from experiments.multiview import summary
from fl_clustering.tasks import partition as partition_lib

KEYS = ("dataset", "partition", "seed", "method", "view")

IID = "IID"
DIRICHLET = "Dirichlet"
AS_GIVEN = "as given"


def _share(data, partition, config, seed):
  """Returns the indices of every client's points."""
  if partition in (AS_GIVEN, summary.POOLED):
    return data.sites or {"all": np.arange(data.num_points)}
  rng = randomness.generator(seed, f"multi-view clients: {partition}")
  if partition == IID:
    shares = partition_lib.iid_shares(data.labels, config.num_clients, rng)
  else:
    shares = partition_lib.dirichlet_shares(
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
      for partition in (summary.POOLED,) if method.place == "central" else partitions:
        for view in data.views if method.by_view else (methods.ALL_VIEWS,):
          yield _cell(data.name, partition, seed, name, view)


def _demonstration_cells(config):
  # The tutorial's own seed first.
  for seed in range(simulated_dha.SOURCE_SEED, simulated_dha.SOURCE_SEED + config.num_seeds):
    for row in demonstration.ROWS:
      yield _cell(config_lib.DEMONSTRATION, AS_GIVEN, seed, row, methods.ALL_VIEWS)


def cells(data, with_demonstration, config):
  """Returns all cells, as dicts with `KEYS`.

  Args:
    data: A mapping of name to `MultiViewData`.
    with_demonstration: Whether the tutorial's simulated DHA is among them.
    config: `MultiViewStudyConfig`.
  """
  found = [cell for one in data.values() for cell in _data_cells(one, config)]
  return found + (list(_demonstration_cells(config)) if with_demonstration else [])


def problem(data, partition, seed, config):
  """Returns the `Problem` of one data set, partition and seed."""
  return methods.Problem(
      data.views, data.labels, _share(data, partition, config, seed), data.num_clusters, seed,
      config.method_settings,
  )


def build_measure(data, config):
  """Returns the function that measures a cell: its keys -> a dict with `outcome.VALUES`."""

  def measure(dataset, partition, seed, method, view):
    if dataset == config_lib.DEMONSTRATION:
      drawn = demonstration.draw(seed, config.method_settings)
      return demonstration.ROWS[method].run(drawn).to_row()
    arguments = [problem(data[dataset], partition, seed, config)]
    row = methods.METHODS[method]
    if row.by_view:
      arguments.append(view)
    return row.run(*arguments).to_row()

  return measure
