"""Federated k-means: the papers' experiments, or the clusters of your own clients' data.

Your data are those of a folder, or stay at sites: workers that own their clients.

  bazel run experiments:federated_kmeans -- --output_dir=out
  bazel run experiments:federated_kmeans -- --data_dir=folder --k_range=2:8
  bazel run experiments:federated_kmeans -- --data_dir=folder --header=yes \\
      --num_clusters=3 --epsilon=1 --delta=1e-6 --radius=9
  bazel run experiments:federated_kmeans -- --workers=host:8000,other:8000 \\
      --num_clusters=3
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import contextlib
import functools
from typing import Any, Mapping

from absl import flags

from experiment_shell import experiment
from experiment_shell import finished_run
from experiment_shell import lazy_module
from experiment_shell import output_folder
from experiments.kmeans import config as config_lib
from experiments.kmeans import flags as kmeans_flags
from experiments import reports
from experiments import worker_flags
from fl_clustering.distribution import worker_lost

cells = lazy_module.LazyModule("experiments.kmeans.cells")
data = lazy_module.LazyModule("experiments.kmeans.data")
own_data = lazy_module.LazyModule("experiments.kmeans.own_data")
results = lazy_module.LazyModule("experiments.kmeans.results")

flags.adopt_module_key_flags(worker_flags)
flags.adopt_module_key_flags(kmeans_flags)

_WITH_SITES = "give --num_clusters or --k_range, and no --data_dir"


class _Kmeans(experiment.Experiment):
  program = "federated_kmeans"
  versions_of = ("numpy", "scikit-learn", "tensorflow", "tensorflow-federated")
  failures = (worker_lost.WorkerLost,)


class Paper(_Kmeans):
  """The papers' experiments."""

  name = "federated_kmeans"
  files = (config_lib.MEASUREMENTS, config_lib.TIMING)
  report = reports.MODULES[name]
  config = staticmethod(kmeans_flags.paper_config)

  def load(self, config: Any, recorded: Any, stack: contextlib.ExitStack) -> experiment.Inputs:
    del stack
    data_dir = flags.FLAGS.cache_dir
    # `auto` stays with what it has chosen.
    described = data.describe(config, data_dir) if recorded is None else recorded["data"]
    lines = tuple(f"data: {what}: {source}" for what, source in described.items())
    draw = data.build_draw(described.get("dataset"), data_dir)
    return experiment.Inputs(draw, {"data": described}, lines)

  def measure(
      self, config: Any, inputs: experiment.Inputs, folder: output_folder.OutputFolder
  ) -> Mapping[str, Any]:
    cells.measure_all(
        config, inputs.data, folder, functools.partial(worker_flags.open_runtime, _WITH_SITES)
    )
    return results.summary(results.read(finished_run.FinishedRun(folder.path)))


class OwnData(_Kmeans):
  """The clusters of the clients of a folder."""

  name = "federated_kmeans_own_data"
  files = (
      config_lib.K_SELECTION, config_lib.CENTROIDS, config_lib.ROUNDS, config_lib.PROFILES,
  )
  folders: tuple[str, ...] = ("figures", config_lib.ASSIGNMENTS, config_lib.MODEL)
  report = reports.MODULES[name]
  # A finished run is told from one on other data.
  rechecks_finished = True
  config = staticmethod(kmeans_flags.own_data_config)

  def load(self, config: Any, recorded: Any, stack: contextlib.ExitStack) -> experiment.Inputs:
    del stack
    return own_data.load(config, flags.FLAGS.data_dir or "", recorded)

  def measure(
      self, config: Any, inputs: experiment.Inputs, folder: output_folder.OutputFolder
  ) -> Mapping[str, Any]:
    return own_data.measure_all(
        config, inputs, folder, functools.partial(worker_flags.open_workers, _WITH_SITES)
    )


class Sites(OwnData):
  """The clusters of clients that stay at sites."""

  name = "federated_kmeans_sites"
  folders = ("figures", config_lib.MODEL)
  report = reports.MODULES[name]
  config = staticmethod(kmeans_flags.sites_config)

  def load(self, config: Any, recorded: Any, stack: contextlib.ExitStack) -> experiment.Inputs:
    return own_data.load_sites(config, recorded, stack)


def main() -> None:
  if kmeans_flags.are_at_sites(worker_flags.addresses()):
    Sites().main()
  elif flags.FLAGS.data_dir is not None:
    OwnData().main()
  else:
    Paper().main()


if __name__ == "__main__":
  launch.run(main, kmeans_flags.HELP)
