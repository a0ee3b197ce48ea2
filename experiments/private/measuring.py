"""What is measured: which cells there are, and the loss in each."""

import math

from clustering_basics import randomness
from dp_clustering import metrics
from experiments.private import clusterers as clusterers_lib
from experiments.private import datasets as datasets_lib

KEYS = ("dataset", "method", "k", "epsilon", "run")
VALUES = ("loss",)


def _settings(config):
  """Returns (k, epsilon) of all measurements of a private method, each once."""
  over_k = [(k, config.fixed_epsilon) for k in config.k_to_try]
  over_epsilon = [(config.fixed_k, epsilon) for epsilon in config.epsilon_to_try]
  return list(dict.fromkeys(over_k + over_epsilon))


def cells(config, dataset_names, methods):
  """Returns the cells of the study, in the order in which they are measured.

  Args:
    config: The `BenchmarkConfig`.
    dataset_names: Those of its data sets that could be had.
    methods: Those of its methods that can be run.
  """
  found = []
  for dataset in dataset_names:
    for method in methods:
      settings = _settings(config)
      if method == clusterers_lib.NOT_PRIVATE:
        settings = dict.fromkeys((k, math.inf) for k, _ in settings)
      found += [
          dict(zip(KEYS, (dataset, method, k, epsilon, run)))
          for k, epsilon in settings
          for run in range(config.runs)
      ]
  return found


def cell_seed(seed, dataset, method, k, epsilon, run):
  """Returns the seed of a cell, from the benchmark's seed and the cell's keys."""
  purpose = f"private benchmark: {dataset}, {method}, {k}, {epsilon!r}"
  return int(randomness.generator(seed, purpose, run).integers(2**31))


def build_measure(config, datasets, clusterers):
  """Returns the function that measures a cell of the study.

  Args:
    config: The `BenchmarkConfig`.
    datasets: The `BenchmarkDataset`s by name.
    clusterers: The clusterers by name, see `clusterers.py`.

  Returns:
    A function of a cell's keys.  Its loss is the mean squared distance of the points to
    the nearest center, which is not private.
  """
  def measure(dataset, method, k, epsilon, run):
    points = datasets[dataset].points
    seed = cell_seed(config.seed, dataset, method, k, epsilon, run)
    centers = clusterers[method](points, k, epsilon, config.delta, seed)
    _, loss = metrics.nonprivate_labels_and_loss(points, centers, datasets_lib.RADIUS)
    return {"loss": loss / len(points)}

  return measure
