"""What is measured: the inputs of a benchmark, its cells, and the loss in each."""

import contextlib
import dataclasses
import math
from typing import Any, Callable, Iterable, Mapping

from clustering_basics import randomness
from clustering_basics import validate
from dp_clustering import metrics
from dp_clustering import private_methods
from experiment_shell import output_folder
from experiment_shell import study
from experiments.private import config as config_lib
from experiments.private import data as data_lib
from experiments.private import methods as methods_lib

LEDGERS = "ledgers.json"
MEASUREMENTS = "measurements.csv"
KEYS = ("dataset", "method", "k", "epsilon", "run")
VALUES = ("loss",)

# What must be the same in a run that is resumed, besides the settings.
_COMPARED = ("datasets", "diffprivlib_versions")


@dataclasses.dataclass(frozen=True, eq=False)
class Benchmark:
  """The data sets and methods that are available on this machine.

  Attributes:
    skipped: The reasons why data sets and methods are left out, by name.
    diffprivlib_versions: Versions in the environment of diffprivlib; empty without it.
  """

  config: config_lib.BenchmarkConfig
  datasets: dict[str, data_lib.BenchmarkDataset]
  methods: dict[str, Callable[..., Any]]
  skipped: dict[str, str]
  diffprivlib_versions: dict[str, str]

  def describe(self) -> dict[str, Any]:
    """Returns what `config.json` says of it, besides the settings."""
    return {
        "datasets": {name: dataset.describe() for name, dataset in self.datasets.items()},
        "methods": list(self.methods),
        "skipped": self.skipped,
        "diffprivlib_versions": self.diffprivlib_versions,
    }


def _check_num_clusters(
    config: config_lib.BenchmarkConfig, datasets: Iterable[data_lib.BenchmarkDataset]
) -> None:
  for name, values in (("k_to_try", config.k_to_try), ("fixed_k", (config.fixed_k,))):
    for dataset in datasets:
      if max(values) > len(dataset.points):
        raise validate.error(
            name, f"be at most {len(dataset.points)}, the number of points of {dataset.name}",
            max(values),
        )


def load_benchmark(
    config: config_lib.BenchmarkConfig, data_dir: str | None, diffprivlib_python: str | None,
    stack: contextlib.ExitStack,
) -> Benchmark:
  """Loads the data sets and starts diffprivlib.

  Args:
    data_dir: Folder with UCI's files, or None.
    diffprivlib_python: Path of a Python with diffprivlib; None for Bazel's, if any.
    stack: Ends the process of diffprivlib.

  Raises:
    ValueError: If the settings don't fit the data, or nothing is left to run.
  """
  methods = methods_lib.load(config.methods, diffprivlib_python, stack)
  datasets, unavailable = data_lib.load_datasets(config.datasets, config.seed, data_dir)
  _check_num_clusters(config, datasets)
  return Benchmark(
      config=config,
      datasets={dataset.name: dataset for dataset in datasets},
      methods=methods.by_name,
      skipped={**unavailable, **methods.skipped},
      diffprivlib_versions=methods.diffprivlib_versions,
  )


def check_recorded(recorded: Mapping[str, Any], document: Mapping[str, Any]) -> None:
  """Raises a ValueError unless a run to resume had the same data sets and methods."""
  for part in _COMPARED:
    before, now = recorded[part], document[part]
    for name in {**before, **now}:
      if before.get(name) != now.get(name):
        raise ValueError(
            "`output_dir` must hold a run with the same data sets and diffprivlib as there "
            f"are now, to be resumed, got another {name}."
        )


def _settings(config: config_lib.BenchmarkConfig) -> list[tuple[int, float]]:
  """Returns (k, epsilon) of all measurements of a private method, each once."""
  over_k = [(k, config.fixed_epsilon) for k in config.k_to_try]
  over_epsilon = [(config.fixed_k, epsilon) for epsilon in config.epsilon_to_try]
  return list(dict.fromkeys(over_k + over_epsilon))


def cells(benchmark: Benchmark) -> list[dict[str, Any]]:
  """Returns the cells of the study, as dicts of `KEYS`, in the order of measurement."""
  found: list[dict[str, Any]] = []
  for dataset in benchmark.datasets:
    for method in benchmark.methods:
      settings = _settings(benchmark.config)
      if method == methods_lib.NOT_PRIVATE:
        settings = list(dict.fromkeys((k, math.inf) for k, _ in settings))
      found += [
          dict(zip(KEYS, (dataset, method, k, epsilon, run)))
          for k, epsilon in settings
          for run in range(benchmark.config.runs)
      ]
  return found


def cell_seed(seed: int, dataset: str, method: str, k: int, epsilon: float, run: int) -> int:
  purpose = f"private benchmark: {dataset}, {method}, {k}, {epsilon!r}"
  return int(randomness.generator(seed, purpose, run).integers(2**31))


def build_measure(benchmark: Benchmark) -> Callable[..., dict[str, float]]:
  """Returns the function that measures a cell of the study, from the cell's keys.

  It returns the loss: the mean squared distance of the points to the nearest center,
  which is not private.
  """
  config = benchmark.config

  def measure(
      dataset: str, method: str, k: int, epsilon: float, run: int
  ) -> dict[str, float]:
    points = benchmark.datasets[dataset].points
    seed = cell_seed(config.seed, dataset, method, k, epsilon, run)
    centers = benchmark.methods[method](
        benchmark.datasets[dataset], k, epsilon, config.delta, seed
    )
    _, loss = metrics.nonprivate_labels_and_loss(points, centers, data_lib.RADIUS)
    return {"loss": loss / len(points)}

  return measure


def _ledger_document(benchmark: Benchmark) -> dict[str, Any]:
  """Returns the ledger of one run of each of our private methods, for JSON."""
  config, (dataset, *_) = benchmark.config, benchmark.datasets.values()
  ledgers = {}
  for method in private_methods.METHODS:
    if method in benchmark.methods:
      keys = (dataset.name, method, config.fixed_k, config.fixed_epsilon, 0)
      ledger: Any = methods_lib.private_result(
          method, dataset, config.fixed_k, config.fixed_epsilon, config.delta,
          cell_seed(config.seed, *keys),
      ).ledger
      ledgers[method] = {
          "dataset": dataset.name,
          "k": config.fixed_k,
          "epsilon": ledger.epsilon,
          "delta": ledger.delta,
          "mu_spent": ledger.mu_spent,
          "noise_source": ledger.noise_source,
          "releases": [dataclasses.asdict(release) for release in ledger.releases],
      }
  return ledgers


def run(benchmark: Benchmark, folder: output_folder.OutputFolder) -> None:
  """Measures what is not measured yet, and writes the ledgers."""
  table = study.Study(folder, MEASUREMENTS, KEYS, VALUES)
  table.run(cells(benchmark), build_measure(benchmark))
  folder.write_text(LEDGERS, output_folder.json_text(_ledger_document(benchmark)))
