"""Private k-means against published losses: the area under the loss over epsilon.

  bazel run bench:private_kmeans_league -- --data_dir=uci --output_dir=league

The contestants are both of our methods (`lsh` is Google's algorithm), IBM's diffprivlib,
scikit-learn without privacy, and what PE-means published of itself and of Google's code.  A run has
one loss for every data set, method and epsilon.  If the program was ended, it goes on where it was
with --resume.  All 20 runs take about an hour on two cores, most of it in diffprivlib.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import contextlib
import dataclasses
import functools
from typing import Any

from absl import flags

from bench.league import cells
from clustering_basics import options
from clustering_basics import validate
from experiment_shell import experiment
from experiment_shell import finished_run
from experiment_shell import lazy_module
from experiment_shell import option_flags
from experiment_shell import output_folder
from experiment_shell import path_flag
from experiment_shell import run_flags
from experiment_shell import study
from experiments.private import cells as benchmark_cells
from experiments.private import diffprivlib_process
from experiments.private import methods as methods_lib

report = lazy_module.LazyModule("bench.league.report")

flags.adopt_module_key_flags(run_flags)


@dataclasses.dataclass(frozen=True)
class LeagueConfig:
  """The settings of a league, checked when made."""

  datasets: tuple[str, ...] = options.option(
      str, "Comma-separated, of: " + ", ".join(cells.PUBLISHED) + ".", tuple(cells.PUBLISHED),
      several=True, values=cells.PUBLISHED,
  )
  methods: tuple[str, ...] = options.option(
      str, "Comma-separated, of: " + ", ".join(cells.METHODS) + ".", cells.METHODS, several=True,
      values=cells.METHODS,
  )
  runs: int = options.option(
      int, "Runs of each method for each data set and epsilon.", 20,
      rule=functools.partial(validate.integer, 1),
  )
  seed: int = options.option(
      int, "Seed of scikit-learn and diffprivlib; the noise of our methods is secure.", 0,
      rule=functools.partial(validate.integer, 0),
  )

  def __post_init__(self) -> None:
    for name in ("datasets", "methods"):
      values = getattr(self, name)
      if len(set(values)) != len(values):
        raise validate.error(name, "name nothing twice", list(values))
      if not values:
        raise validate.error(name, "have at least one value", [])
    options.check(self)

  def to_json(self) -> dict[str, Any]:
    return options.to_json(self)


option_flags.define(LeagueConfig)
path_flag.define(
    "data_dir", None,
    "Folder with UCI's letter-recognition.data (or .gz). Default: OpenML's.")
path_flag.define(
    "diffprivlib_python", None,
    "Path of a Python with IBM's diffprivlib. Default: the one that Bazel makes, if any.")


def _config() -> LeagueConfig:
  found = LeagueConfig(**option_flags.given(LeagueConfig))
  for name, used_by, chosen in (
      ("data_dir", "letter", found.datasets), ("diffprivlib_python", "diffprivlib", found.methods)
  ):
    if flags.FLAGS[name].value is not None and used_by not in chosen:
      raise validate.error(name, f"be left out without {used_by}", flags.FLAGS[name].value)
  return found


class League(experiment.Experiment):
  """The league."""

  name = "private_kmeans_league"
  program = "private_kmeans_league"
  files = (cells.MEASUREMENTS,)
  versions_of = ("numpy", "scikit-learn", "scipy", "dp-accounting")
  report = "bench.league.report"
  failures = (diffprivlib_process.ProcessEnded,)
  config = staticmethod(_config)
  check_recorded = staticmethod(benchmark_cells.check_recorded)

  def load(
      self, config: LeagueConfig, recorded: Any, stack: contextlib.ExitStack
  ) -> experiment.Inputs:
    methods = methods_lib.load(config.methods, flags.FLAGS.diffprivlib_python, stack)
    datasets, missing = cells.load_datasets(config.datasets, flags.FLAGS.data_dir)
    skipped = {**missing, **methods.skipped}
    if not datasets:
      reasons = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
      raise validate.error(
          "datasets", f"name one that is available here ({reasons})", list(config.datasets)
      )
    document = {
        "datasets": {name: dataset.describe() for name, dataset in datasets.items()},
        "methods": list(methods.by_name),
        "skipped": skipped,
        "diffprivlib_versions": methods.diffprivlib_versions,
    }
    lines = [f"left out: {name}: {reason}" for name, reason in skipped.items()]
    return experiment.Inputs((datasets, methods.by_name), document, tuple(lines))

  def measure(
      self, config: LeagueConfig, inputs: experiment.Inputs, folder: output_folder.OutputFolder
  ) -> dict[str, Any]:
    datasets, methods = inputs.data
    table = study.Study(folder, cells.MEASUREMENTS, cells.KEYS, cells.VALUES)
    table.run(
        cells.cells(datasets, methods, config.runs),
        cells.build_measure(datasets, methods, config.seed),
    )
    return report.summary(finished_run.FinishedRun(folder.path))


if __name__ == "__main__":
  launch.run(League().main)
