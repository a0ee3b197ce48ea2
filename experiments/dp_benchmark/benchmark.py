"""The benchmark of private clustering: losses of all methods over k and over epsilon."""

import contextlib
import math
from typing import Any, Mapping

from clustering_basics import randomness
from clustering_basics import validate
from dp_clustering import metrics
from experiment_shell import launch
from experiment_shell import tidy_experiment
from experiments.dp_benchmark import config as config_lib
from experiments.dp_benchmark import data as data_lib
from experiments.dp_benchmark import figures
from experiments.dp_benchmark import methods as methods_lib
from experiments.dp_benchmark import summary

_KEYS = {"dataset": str, "method": str, "k": int, "epsilon": float, "run": int}


def _load(
    config: config_lib.BenchmarkConfig, unused_stack: contextlib.ExitStack, *,
    data_dir: str | None = None,
) -> tidy_experiment.Inputs:
  """Loads the data sets; `data_dir` is the folder with UCI's letters, or None."""
  datasets = [data_lib.DATASETS[name](config.seed, data_dir) for name in config.datasets]
  for name, largest in (("k_to_try", max(config.k_to_try)), ("fixed_k", config.fixed_k)):
    for one in datasets:
      if largest > len(one.points):
        raise validate.error(
            name, f"be at most {len(one.points)}, the number of points of {one.name}", largest
        )
  return tidy_experiment.Inputs(
      {one.name: one for one in datasets},
      identity={"datasets": {one.name: one.describe() for one in datasets}},
      lines=tuple(
          f"data: {one.name}, {len(one.points):,} x {one.points.shape[1]}: {one.source}"
          for one in datasets
      ),
  )


def _settings(config: config_lib.BenchmarkConfig) -> list[tuple[int, float]]:
  """Returns (k, epsilon) of all measurements of a private method, each once."""
  over_k = [(k, config.fixed_epsilon) for k in config.k_to_try]
  over_epsilon = [(config.fixed_k, epsilon) for epsilon in config.epsilon_to_try]
  return list(dict.fromkeys(over_k + over_epsilon))


def cells(
    config: config_lib.BenchmarkConfig, datasets: Mapping[str, Any]
) -> list[dict[str, Any]]:
  """Returns what is measured, in this order."""
  found: list[dict[str, Any]] = []
  for dataset in datasets:
    for method in config.methods:
      settings = _settings(config)
      if method == methods_lib.NOT_PRIVATE:
        settings = list(dict.fromkeys((k, math.inf) for k, _ in settings))
      found += [
          dict(zip(_KEYS, (dataset, method, k, epsilon, run)))
          for k, epsilon in settings
          for run in range(config.runs)
      ]
  return found


def cell_seed(seed: int, dataset: str, method: str, k: int, epsilon: float, run: int) -> int:
  purpose = f"private benchmark: {dataset}, {method}, {k}, {epsilon!r}"
  return int(randomness.generator(seed, purpose, run).integers(2**31))


def _measure(
    whole: tidy_experiment.Run, dataset: str, method: str, k: int, epsilon: float, run: int
) -> dict[str, list[dict[str, Any]]]:
  """Returns the mean squared distance of the points to the nearest center, which is not private."""
  config, data = whole.config, whole.data[dataset]
  seed = cell_seed(config.seed, dataset, method, k, epsilon, run)
  with launch.input_errors():  # A budget may be too large, or too small, for a method's noise.
    centers = methods_lib.METHODS[method].run(data, k, epsilon, config.delta, seed)
  _, loss = metrics.nonprivate_labels_and_loss(data.points, centers, data_lib.RADIUS)
  return {
      tidy_experiment.RESULTS: [{"metric": summary.LOSS, "value": loss / len(data.points)}],
  }


EXPERIMENT = tidy_experiment.Experiment(
    name="dp_benchmark",
    title="Differentially private k-means: how much loss for how much privacy",
    keys=_KEYS,
    load=_load,
    cells=cells,
    measure=_measure,
    summarise=summary.summarise,
    headlines=summary.HEADLINES,
    tables=summary.TABLES,
    figures=figures.FIGURES,
    reading=summary.READING,
    versions_of=("numpy", "scikit-learn", "scipy", "dp-accounting"),
    failures=(launch.InputError,),
)
