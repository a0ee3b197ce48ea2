"""The benchmark: what can be run here, the measurements, and what is left in the folder."""

import contextlib
import dataclasses

from clustering_basics import validate
from dp_clustering import private_methods
from experiment_shell import output_folder
from experiments.private import clusterers
from experiments.private import config as config_lib
from experiments.private import datasets as datasets_lib
from experiments.private import diffprivlib_process
from experiments.private import measuring

LEDGERS = "ledgers.json"
MEASUREMENTS = "measurements.csv"
# What must be the same in a run that is resumed, beside the settings.
_COMPARED = ("datasets", "diffprivlib_versions")


@dataclasses.dataclass(frozen=True, eq=False)
class Benchmark:
  """What can be run here.

  Attributes:
    config: The `BenchmarkConfig`.
    datasets: The `BenchmarkDataset`s that could be had, by name.
    clusterers: The methods that can be run, by name.
    skipped: Why the other data sets and methods are left out, by name.
    diffprivlib_versions: Versions in the environment of diffprivlib; empty without it.
  """

  config: config_lib.BenchmarkConfig
  datasets: dict
  clusterers: dict
  skipped: dict
  diffprivlib_versions: dict

  def describe(self):
    """Returns what `config.json` says of it, beside the settings."""
    return {
        "datasets": {name: dataset.describe() for name, dataset in self.datasets.items()},
        "methods": list(self.clusterers),
        "skipped": self.skipped,
        "diffprivlib_versions": self.diffprivlib_versions,
    }


@contextlib.contextmanager
def _diffprivlib(config, python):
  """Gives a `DiffprivlibProcess`, or else None and why there is none."""
  if "diffprivlib" not in config.methods:
    yield None, None
    return
  chosen = python or diffprivlib_process.default_python()
  if chosen is None:
    yield None, "no Python with it; Bazel makes one, else --diffprivlib_python names one"
    return
  try:
    process = diffprivlib_process.DiffprivlibProcess(chosen)
  except diffprivlib_process.Unavailable as e:
    if python is not None:
      raise validate.error("diffprivlib_python", f"have diffprivlib ({e})", python) from e
    yield None, str(e)
    return
  with process:
    yield process, None


def _check_num_clusters(config, datasets):
  for name, values in (("k_to_try", config.k_to_try), ("fixed_k", (config.fixed_k,))):
    for dataset in datasets:
      if max(values) > len(dataset.points):
        raise validate.error(
            name, f"be at most {len(dataset.points)}, the number of points of {dataset.name}",
            max(values),
        )


@contextlib.contextmanager
def open_benchmark(config, data_dir, diffprivlib_python):
  """Gives the `Benchmark`: loads the data sets and starts diffprivlib.

  Args:
    config: A `BenchmarkConfig`.
    data_dir: Folder with UCI's files, or None.
    diffprivlib_python: Path of a Python with diffprivlib; None for Bazel's, if any.

  Raises:
    ValueError: If the settings don't fit the data or can't be had here.
  """
  with _diffprivlib(config, diffprivlib_python) as (process, reason):
    skipped = {} if reason is None else {"diffprivlib": reason}
    methods = [name for name in config.methods if name not in skipped]
    if not methods:
      raise validate.error("methods", f"name one that can be run here ({reason})", "diffprivlib")
    datasets, unavailable = datasets_lib.load_datasets(config.datasets, config.seed, data_dir)
    _check_num_clusters(config, datasets)
    clusterers_here = clusterers.build_clusterers(process)
    yield Benchmark(
        config=config,
        datasets={dataset.name: dataset for dataset in datasets},
        clusterers={name: clusterers_here[name] for name in methods},
        skipped={**unavailable, **skipped},
        diffprivlib_versions=process.versions if process is not None else {},
    )


def check_recorded(recorded, document):
  """Raises a ValueError unless a run to resume had the same data sets and methods."""
  for part in _COMPARED:
    before, now = recorded[part], document[part]
    for name in {**before, **now}:
      if before.get(name) != now.get(name):
        raise ValueError(
            "`output_dir` must hold a run with the same data sets and diffprivlib as there "
            f"are now, to be resumed, got another {name}."
        )


def _ledger_document(benchmark):
  """Returns the ledgers of a run of each private method of ours, for JSON."""
  config, (dataset, *_) = benchmark.config, benchmark.datasets.values()
  ledgers = {}
  for method in private_methods.METHODS:
    if method in benchmark.clusterers:
      keys = (dataset.name, method, config.fixed_k, config.fixed_epsilon, 0)
      ledger = clusterers.private_result(
          method, dataset.points, config.fixed_k, config.fixed_epsilon, config.delta,
          measuring.cell_seed(config.seed, *keys),
      ).ledger
      ledgers[method] = {
          "dataset": dataset.name,
          "k": config.fixed_k,
          "epsilon": ledger.epsilon,
          "delta": ledger.delta,
          "epsilon_spent": ledger.epsilon_spent,
          "mu_spent": ledger.mu_spent,
          "noise_source": ledger.noise_source,
          "releases": [dataclasses.asdict(release) for release in ledger.releases],
      }
  return ledgers


def run(benchmark, folder, table):
  """Measures everything that is not measured yet, and writes it into the folder.

  Args:
    benchmark: The `Benchmark`.
    folder: The `OutputFolder`.
    table: The `Study` in it.
  """
  table.run(
      measuring.cells(benchmark.config, benchmark.datasets, benchmark.clusterers),
      measuring.build_measure(benchmark.config, benchmark.datasets, benchmark.clusterers),
  )
  folder.write_text(LEDGERS, output_folder.json_text(_ledger_document(benchmark)))
