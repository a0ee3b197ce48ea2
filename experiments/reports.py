"""What draws the report of each experiment: the only list of them."""

import importlib
from typing import Any, Mapping

from experiment_shell import finished_run

# From an experiment's name in `config.json` to a module with an `EXPERIMENT` (`tidy_experiment`).
MODULES = {
    "clustering_demo": "dp_clustering.demo.sweeps",
    "dp_benchmark": "experiments.dp_benchmark.benchmark",
    "federated_kmeans": "experiments.federated_kmeans.papers",
    "federated_kmeans_own_data": "experiments.federated_kmeans.own_rows",
    "multi_view": "experiments.multi_view.comparison",
    "multi_view_own_data": "experiments.multi_view.own_sites",
    "private_clusters": "experiments.private_clusters.release",
    "private_clusters_simulation": "experiments.private_clusters.simulation",
    "site_kmeans": "experiments.site_kmeans.fit",
    "study": "experiments.study.cells",
    "three_phase_emnist": "experiments.three_phase_emnist.experiment",
}


def files(experiment: str) -> Mapping[str, str]:
  """Returns the files and folders that a run leaves, and what is in them."""
  found: Any = importlib.import_module(MODULES[experiment])
  return {**found.EXPERIMENT.all_files(), **found.EXPERIMENT.all_folders()}


def write_report(experiment: str, run: finished_run.FinishedRun) -> None:
  """Draws the report of a finished run."""
  from experiment_shell import tidy_report  # It takes long to import.

  found: Any = importlib.import_module(MODULES[experiment])
  tidy_report.report(found.EXPERIMENT, run)
