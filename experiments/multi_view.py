"""Federated multi-view k-means against its alternatives, and against its source's claims.

  bazel run experiments:multi_view -- --datasets=digits --output_dir=out
  bazel run experiments:multi_view -- --data_dir=folder --num_clusters=4
  bazel run experiments:multi_view -- --workers=host:8000,other:8000 \\
      --num_clusters=4

Flags, output folder and data are checked before TensorFlow Federated is imported, which
takes seconds.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import contextlib
from typing import Any, Mapping

from absl import flags

from experiment_shell import experiment
from experiment_shell import finished_run
from experiment_shell import lazy_module
from experiment_shell import output_folder
from experiment_shell import study
from experiments.multiview import config as config_lib
from experiments.multiview import data
from experiments.multiview import flags as experiment_flags
from experiments.multiview import simulated_dha
from experiments import reports
from experiments import worker_flags
from fl_clustering.distribution import worker_lost

cells = lazy_module.LazyModule("experiments.multiview.cells")
methods = lazy_module.LazyModule("experiments.multiview.methods")
own_model = lazy_module.LazyModule("experiments.multiview.own_model")
results = lazy_module.LazyModule("experiments.multiview.results")
site_data = lazy_module.LazyModule("experiments.multiview.site_data")

flags.adopt_module_key_flags(worker_flags)
flags.adopt_module_key_flags(experiment_flags)


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
  config = staticmethod(experiment_flags.config)
  check_recorded = staticmethod(data.check_recorded)

  def load(self, config: Any, recorded: Any, stack: contextlib.ExitStack) -> experiment.Inputs:
    del recorded, stack
    loaded = data.load(
        config.datasets, config.tables, config.num_clusters, flags.FLAGS.features_dir,
        flags.FLAGS.data_dir,
    )
    for name, one in loaded.datasets.items():
      config.check_enough_points(one.num_points, "all sites" if name == data.OWN else name)
    if loaded.with_demonstration:
      config.check_enough_points(simulated_dha.NUM_POINTS, data.DEMONSTRATION)
    lines = [f"left out: {name}: {reason}" for name, reason in loaded.left_out.items()]
    lines += [f"data: {one.source}" for one in loaded.datasets.values()]
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

  def result_text(self, finished: finished_run.FinishedRun) -> str:
    return results.text(results.read(finished))


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
  config = staticmethod(experiment_flags.sites_config)

  def load(self, config: Any, recorded: Any, stack: contextlib.ExitStack) -> experiment.Inputs:
    return site_data.load(config, recorded, stack)

  def measure(
      self, config: Any, inputs: experiment.Inputs, folder: output_folder.OutputFolder
  ) -> Mapping[str, Any]:
    return site_data.measure_all(config, inputs, folder)


def main() -> None:
  at_sites = experiment_flags.are_at_sites(worker_flags.addresses())
  (Sites() if at_sites else MultiView()).main()


if __name__ == "__main__":
  launch.run(main, experiment_flags.HELP)
