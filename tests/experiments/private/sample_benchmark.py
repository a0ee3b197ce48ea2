"""Writes the output folder of an invented benchmark, small and with known numbers."""

import json
import math
import os

from clustering_basics import file_format
from experiment_shell import finished_run
from experiments.private import cells
from experiments.private import config as config_lib

_ANY = {"num_clients": 10, "unit_points": 1, "is_new": False, "optimum": None}
DATASETS = {
    "letter": {
        "source": "invented letters", "num_points": 20_000, "dim": 16, "sha256": "a", **_ANY,
    },
    "synthetic": {
        "source": "invented points", "num_points": 30, "dim": 2, "sha256": "b", **_ANY,
    },
}
# A method's loss is its factor times 0.1; less with more clusters, and with more epsilon.
FACTORS = {"sklearn": 0.5, "diffprivlib": 2.0, "lsh": 1.0, "refine": 0.75}


def invented_loss(factor, k, epsilon, run):
  """Returns the loss of a run; over four runs, the mean is that of run 1.5."""
  privacy = 1.0 if epsilon == math.inf else 1 + 0.1 / epsilon
  return 0.1 * factor * privacy * 2 / math.log2(2 * k) * (1 + 0.1 * (run - 1.5))


def write(folder, factors=None, datasets=None, skipped=None, **settings):
  """Writes all files but the report's own.

  Args:
    folder: The folder, which must exist.
    factors: Method -> its factor, for the methods that were run.
    datasets: Data set -> what is known about it.
    skipped: What was left out -> why.
    **settings: Other fields of the `BenchmarkConfig` than the default.

  Returns:
    The folder as a `FinishedRun`.
  """
  factors = FACTORS if factors is None else factors
  datasets = DATASETS if datasets is None else datasets
  config = config_lib.BenchmarkConfig(**{
      "datasets": tuple(datasets), "methods": tuple(factors), "k_to_try": (2, 16),
      "epsilon_to_try": (0.5, 1.0, 2.0), "fixed_k": 16, "runs": 4, **settings,
  })
  document = {
      "experiment": "dp_benchmark",
      "config": config.to_json(),
      "datasets": datasets,
      "methods": list(factors),
      "skipped": skipped or {},
      "versions": {"python": "3.11"},
      "diffprivlib_versions": {"diffprivlib": "0.0"} if "diffprivlib" in factors else {},
  }
  release = {"name": "split step 0", "sensitivity": 1.25, "std": 5.0, "mu": 0.25}
  ledger = {
      "dataset": "letter", "k": 16, "epsilon": 1.0, "delta": 1e-6, "mu_spent": 0.25,
      "noise_source": "seeded with 4: NOT private", "releases": [release],
  }
  lines = [",".join((*cells.KEYS, *cells.VALUES))]
  benchmark = cells.Benchmark(config, datasets, factors, {}, {})
  for cell in cells.cells(benchmark):
    loss = invented_loss(factors[cell["method"]], cell["k"], cell["epsilon"], cell["run"])
    lines.append(",".join(map(str, (*cell.values(), loss))))
  for name, text in (
      ("config.json", json.dumps(file_format.stamped(document))),
      ("ledgers.json", json.dumps({"refine": ledger} if "refine" in factors else {})),
      ("measurements.csv", "\n".join(lines) + "\n"),
  ):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
      file.write(text)
  return finished_run.FinishedRun(folder)
