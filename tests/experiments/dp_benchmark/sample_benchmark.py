"""Writes the output folder of an invented benchmark, small and with known numbers."""

import math

from experiments.dp_benchmark import benchmark
from experiments.dp_benchmark import config as config_lib
from tests.experiment_shell import run_folder

_ANY = {"num_clients": 10, "unit_points": 1, "is_new": False, "optimum": None}
DATASETS = {
    "letter": {"source": "letters", "num_points": 20_000, "dim": 16, "sha256": "a", **_ANY},
    "synthetic": {"source": "points", "num_points": 30, "dim": 2, "sha256": "b", **_ANY},
}
# A method's loss is its factor times 0.1; less with more clusters, and with more epsilon.
FACTORS = {"sklearn": 0.5, "refine_none": 2.0, "lsh": 1.0, "refine": 0.75}


def invented_loss(factor, k, epsilon, run=1.5):
  """Returns the loss of a run; over four runs, the mean is that of run 1.5."""
  privacy = 1.0 if epsilon == math.inf else 1 + 0.1 / epsilon
  return 0.1 * factor * privacy * 2 / math.log2(2 * k) * (1 + 0.02 * (run - 1.5))


def write(folder, factors=None, datasets=None, **settings):
  """Writes all files but what is drawn of them; returns the folder as a `FinishedRun`.

  Args:
    factors: Method -> its factor, for the methods that were run.
    datasets: Data set -> what is known about it.
    **settings: Other fields of the `BenchmarkConfig` than the default.
  """
  factors, datasets = factors or FACTORS, datasets or DATASETS
  config = config_lib.BenchmarkConfig(**{
      "datasets": tuple(datasets), "methods": tuple(factors), "k_to_try": (2, 16),
      "epsilon_to_try": (0.5, 1.0, 2.0), "fixed_k": 16, "runs": 4, **settings,
  })
  results = [
      {**cell, "metric": "loss_per_point", "value": invented_loss(
          factors[cell["method"]], cell["k"], cell["epsilon"], cell["run"]
      )}
      for cell in benchmark.cells(config, datasets)
  ]
  return run_folder.written(folder, {
      "experiment": "dp_benchmark", "config": config.to_json(),
      "inputs": {"datasets": datasets},
  }, {"results": results})
